"""What scheduling costs, what a second worker brings, and what blocks of users cost.

    PYTHONPATH=tests python tests/nightly/benchmarks/scale.py FOLDER overhead --targets 10000
    PYTHONPATH=tests python tests/nightly/benchmarks/scale.py FOLDER speedup --targets 400 \
        --rounds 5
    PYTHONPATH=tests python tests/nightly/benchmarks/scale.py FOLDER blocks --users 1000000 \
        --group-size 100000 --targets 20
    PYTHONPATH=tests python tests/nightly/benchmarks/scale.py FOLDER blocks --users 10000000 \
        --group-size 100000 --targets 2 --memory 9 --antennas 5000

``overhead``: every target of synthetic commuters is attacked by ``projection`` on a local cluster
of two workers. Told are the share of the workers' time between the first result and the last in
which they did no task, the time of the driver's process for each target, and how its memory grew.

``speedup``: the same with one worker and with two, in turns; the ratio of each round, the median.

``blocks``: the same targets twice, by blocks of users within the memory given and with all traces
in memory; whether the results are equal to the last bit, and the most memory of any process.
Cubes are made in FOLDER where they are not there yet, outside all times: of synthetic commuters, or
with ``--antennas`` of phones that report for a month (720 h) from so many.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import xarray as xr
from running import run
from show import sum_up

import clusterscale as cs
from clusterscale.analyses.audit import AuditPlan, predict
from clusterscale.analyses.audit.task import play_whole
from clusterscale.cube.synthetic.presets import PRESETS, write_like
from clusterscale.runtime import Local
from clusterscale.study.execution import Finished


def plan(
    cube: cs.TraceCube,
    n_targets: int,
    group_size: int,
    *,
    seed: int = 1,
    epochs: int = 168,
    training: int = 400,
) -> AuditPlan:
    """Return an audit of some users by one attack in closed form, on bare counts."""
    return AuditPlan(
        seed=seed,
        null_roi=True,
        targets={"all": True} if n_targets == cube.n_users else {"random": n_targets},
        group_sizes=[group_size],
        periods=[{"name": "period", "epochs": epochs}],
        priors=[{"name": "known_subset", "alpha": 0.2, "training": training}],
        mechanisms=[{"name": "exact"}],
        attacks=[{"name": "projection"}],
        control=False,
    )


def attack(executor: Any, cube: cs.TraceCube, what: AuditPlan) -> tuple[int, float, float]:
    """Return how many tasks ended between the first and the last batch, busy and wall seconds."""
    tasks = what.tasks(cube, what.targets.choose(cube, what.seed))
    batches: Iterator[Any] = executor.map_batches(partial(timed, play_whole), tasks)
    for _ in range(2 * executor.n_workers):  # until each has read the traces
        next(batches)
    start, busy, n = time.perf_counter(), 0.0, 0
    for finished in chain.from_iterable(batches):
        assert isinstance(finished, Finished)
        assert finished.error is None, finished.error
        busy, n = busy + finished.value[1], n + 1
    return n, busy, time.perf_counter() - start


def overhead(cube: cs.TraceCube, folder: Path, what: AuditPlan) -> None:
    """Print the shares of a whole audit, journal and results among them."""
    output, n_targets = folder / "audited", len(what.targets.choose(cube, what.seed).users)
    shutil.rmtree(output, ignore_errors=True)
    n_workers, busy, marks = 2, 0.0, []

    class Timing:
        """Adds up what workers did, and when results came."""

        def __init__(self, executor: Any) -> None:
            self._executor = executor

        def __getattr__(self, name: str) -> Any:
            return getattr(self._executor, name)

        def map_batches(
            self, function: Any, items: Any, *, write: Any = None, **options: Any
        ) -> Iterator[Any]:
            nonlocal busy
            if write is None:  # results are written, after the tasks
                yield from self._executor.map_batches(function, items, **options)
                return
            batches = self._executor.map_batches(
                partial(timed, function), items, write=partial(written, write), **options
            )
            for batch in batches:
                receipt, seconds = batch[0].value
                busy += seconds if len(marks) > 2 * n_workers else 0.0
                marks.append((time.perf_counter(), len(batch), memory()))
                yield [Finished(each.item, receipt) for each in batch]

    with Local(workers=n_workers).open() as executor:
        before = time.process_time()
        run(what, cube, output, Timing(executor))
        driver = time.process_time() - before
    first = 2 * n_workers
    wall, n = marks[-1][0] - marks[first][0], sum(count for _, count, _ in marks[first + 1 :])
    print(f"{n:,} tasks in {len(marks):,} batches, {wall:.1f} s by {n_workers} workers")
    print(f"a task takes {1e3 * busy / n:.2f} ms")
    print(f"driver and scheduler {1e3 * driver / n_targets:.2f} ms a target")
    idle = 100 * (1 - busy / n_workers / wall)
    middle = marks[len(marks) // 4][2]
    print(f"driver memory {middle:.0f} MB after a quarter, {marks[-1][2]:.0f} MB in the end")
    sum_up("scale", f"idle {idle:.2f} %", f"driver {1e3 * driver / n_targets:.2f} ms a target")


def written(write: Any, batch: Any) -> tuple[Any, float]:
    """Write the values of :func:`timed` tasks; return the receipt and the seconds of the tasks."""
    finished = [Finished(each.item, each.value[0]) for each in batch]
    return write(finished), sum(each.value[1] for each in batch)


def timed(function: Any, item: Any) -> tuple[Any, float]:
    """Call ``function``; return its value and the seconds it took."""
    start = time.perf_counter()
    return function(item), time.perf_counter() - start


def memory() -> float:
    """Return megabytes that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def speedup(cube: cs.TraceCube, n_targets: int, group_size: int, rounds: int) -> None:
    """Print the ratio of one worker's time to two workers', round by round."""
    ratios = []
    for i in range(rounds):
        seconds = {}
        for n_workers in (1, 2):
            with Local(workers=n_workers).open() as executor:
                n, _, wall = attack(executor, cube, plan(cube, n_targets, group_size, seed=i))
                seconds[n_workers] = wall / n
        ratios.append(seconds[1] / seconds[2])
        told = ", ".join(f"{1e3 * value:.1f} ms" for value in seconds.values())
        print(f"round {i}: {told} a target, ratio {ratios[-1]:.3f}", flush=True)
    ratio = statistics.median(ratios)
    sum_up("scale", f"two workers / one {ratio:.3f} (median of {rounds})")


def blocks(cube: cs.TraceCube, folder: Path, what: AuditPlan, sizes: list[float]) -> None:
    """Print time and memory for each budget, and whether the results are the same."""
    found: list[xr.Dataset] = []
    for gigabytes in sizes:
        output = folder / f"blocks-{gigabytes:g}"
        shutil.rmtree(output, ignore_errors=True)
        place = Local(workers=2, memory=f"{gigabytes:g}GB")
        allowed = place.usable_memory
        told = predict(what, cube, allowed, 2).resources
        print(
            f"{told.why}; told {told.worker_bytes / 1e9:.2f} GB, {told.seconds:.0f} s", flush=True
        )
        start = time.perf_counter()
        with place.open() as executor:
            watch: Any = executor
            results = run(what, cube, output, executor, memory=allowed).load()
            peaks = watch._client.run(peak)
        seconds = time.perf_counter() - start
        most = max(peaks.values())
        print(f"{gigabytes:g} GB a worker: {seconds:.0f} s, most held {most:.2f} GB", flush=True)
        found.append(results.drop_vars("seconds"))
    same = all(found[0].identical(each) for each in found[1:])
    sum_up("scale", "results are equal to the last bit" if same else "RESULTS DIFFER")


def peak() -> float:
    """Return the most gigabytes that a process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("what", choices=["overhead", "speedup", "blocks"])
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--targets", type=int, default=10_000)
    parser.add_argument("--group-size", type=int, default=100)
    parser.add_argument("--antennas", type=int, help="a month of phones instead of commuters")
    parser.add_argument("--epochs", type=int, default=168)
    parser.add_argument("--training", type=int, default=400, help="groups to train on")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", type=float, nargs="*", default=[1.8, 4.0], help="GB a worker")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    kind = f"country{given.antennas}-" if given.antennas else "tfl"
    uri = given.folder / f"{kind}{given.users}.zarr"
    if not uri.exists() and given.antennas:
        month = replace(PRESETS["cdr"], users=given.users, rois=given.antennas)
        write_like("cdr", month, str(uri), seed=1)
    elif not uri.exists():
        cs.synthesise("tfl", str(uri), users=given.users, seed=1)
    cube = cs.TraceCube(str(uri))
    if given.what == "overhead":
        what = plan(cube, given.targets, given.group_size, training=given.training)
        overhead(cube, given.folder, what)
    elif given.what == "speedup":
        speedup(cube, given.targets, given.group_size, given.rounds)
    else:
        sizes = {"epochs": given.epochs, "training": given.training}
        what = plan(cube, given.targets, given.group_size, **sizes)
        blocks(cube, given.folder, what, given.memory)


if __name__ == "__main__":
    main()
