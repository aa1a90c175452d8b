"""What the workers of a node take with one copy of the traces, and with one each.

    python tests/nightly/benchmarks/sharing.py FOLDER --users 1000000 --workers 2 4 8

Each row is a small audit on a local cluster. Memory is the proportional share (PSS) of all workers
together, the most that was seen four times a second, so shared pages count once. Bytes are those
that workers read from files, mapped ones excepted. The results of both ways must be equal.
"""

from __future__ import annotations

import argparse
import shutil
import threading
import time
from pathlib import Path

import psutil
import xarray as xr
from show import sum_up

import clusterscale as cs
from clusterscale import study
from clusterscale.analyses.audit import AuditAnalysis, AuditPlan
from clusterscale.runtime.clusters import base

PLAN = {
    "seed": 1,
    "null_roi": False,
    "group_sizes": [100],
    "periods": [{"name": "all", "first": 0, "epochs": 672}],
    "priors": [{"name": "known_subset", "alpha": 0.1, "training": 40, "challenges": 40}],
    "mechanisms": [{"name": "exact"}],
    "attacks": [{"name": "projection"}],
}


class Watch:
    """The most memory of the worker processes, and the bytes that they read."""

    def __init__(self) -> None:
        self.most, self.read, self._over = 0, 0, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        own = psutil.Process()
        while not self._over.wait(0.25):
            memory = read = 0
            for child in own.children(recursive=True):
                try:
                    memory += child.memory_full_info().pss
                    read += child.io_counters().read_chars
                except psutil.Error:
                    continue
            self.most, self.read = max(self.most, memory), max(self.read, read)


def measure(
    cube: cs.TraceCube, folder: Path, n_workers: int, shares: bool
) -> tuple[str, xr.Dataset]:
    """Run an audit, and return the cells of its row and its results."""
    plan = AuditPlan(**PLAN, targets={"random": 4 * n_workers})
    shutil.rmtree(folder, ignore_errors=True)
    name, environment = base.shared_traces.__name__, base.shared_traces
    if not shares:
        setattr(base, name, lambda run, n_workers, scratch: {})
    try:
        began = time.perf_counter()
        with Watch() as watch, cs.Local(workers=n_workers, memory="6GiB").open() as executor:
            results = study.run(AuditAnalysis(plan), cube, str(folder), executor).load()
    finally:
        setattr(base, name, environment)
    seconds = time.perf_counter() - began
    numbers = f"{watch.most / 1e9:10.2f} {watch.read / 1e9:10.2f} {seconds:8.0f}"
    row = f"{n_workers:8} {'one' if shares else 'each':>6} {numbers}"
    return row, results.drop_vars("seconds")


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, nargs="*", default=[2, 4, 8])
    given = parser.parse_args()
    uri = given.folder / f"tfl{given.users}.zarr"
    if not uri.exists():
        cs.synthesise("tfl", str(uri), users=given.users, seed=1)
    cube = cs.TraceCube(str(uri))
    print(" workers copies  memory GB    read GB  seconds")
    rows = []
    for n_workers in given.workers:
        found = []
        for shares in (False, True):
            row, results = measure(cube, given.folder / "run", n_workers, shares)
            print(row, flush=True)
            rows.append(row.split())
            found.append(results)
        xr.testing.assert_identical(*found)
    sum_up("sharing", *(f"{row[1]} of {row[0]}: {row[2]} GB, {row[3]} GB read" for row in rows))


if __name__ == "__main__":
    main()
