"""A large cluster, simulated: driver, records and results are real, the workers are not.

    python tests/nightly/benchmarks/simulated.py FOLDER --workers 100 10000 --targets 1000000

Each row is an audit of so many targets by the executor of Dask clusters. In place of a Dask client
is one whose workers only exist on a virtual clock: a task takes the seconds of its row, give or
take a third, and then what it would have found is written and read by the code that real workers
run. The driver's own processor time moves the clock as well, so a driver that cannot keep up shows.
With ``--latency`` the folder of the run is an object store in memory, each of whose requests takes
so long on the clock of who waits for it; sixteen of them run at a time where the package reads and
writes in threads.

- busy: time of workers in tasks, of all time from the first task to the last
- messages: batches that the driver handled, in a second
- driver: its processor seconds of that time, and for a thousand results
- files: the most that were in the folder of the run, and those at the end
- requests: to the store, in thousands, by driver and workers, and those of the driver alone
- written, resumed: seconds to write the dataset, and to find out that nothing is left
- told: what ``--explain`` says of such an audit
"""

from __future__ import annotations

import argparse
import heapq
import os
import resource
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from threading import Lock, current_thread, local, main_thread
from typing import Any

import fsspec
import numpy as np
from cloudpickle import loads
from fsspec.implementations.memory import MemoryFileSystem
from show import sum_up

import clusterscale as cs
from clusterscale import study
from clusterscale.analyses.audit import AuditAnalysis, AuditPlan
from clusterscale.analyses.audit import analysis as audit
from clusterscale.analyses.audit.finished_tasks import FinishedTasks
from clusterscale.analyses.dp_audit.evaluation import MechanismEvaluation, MechanismEvaluationTask
from clusterscale.game import Outcome
from clusterscale.metrics import N_PVALUE_BINS
from clusterscale.runtime import scheduling
from clusterscale.runtime.dask import DaskExecutor
from clusterscale.study import describe_cluster
from clusterscale.study.execution import Finished
from clusterscale.study.identity import run_in

SPREAD = 0.3  # of the durations of tasks, as a share of their mean
HEARTBEAT = 0.005  # seconds from the end of a task to the driver, and from the driver to a worker


@dataclass
class Clock:
    """Virtual seconds: they pass while tasks run, and while the driver computes."""

    now: float = 0.0
    driver: float = 0.0
    n_requests: int = 0
    _since: float = field(default_factory=time.process_time)
    _waited: float = 0.0
    _requested: int = 0

    def __call__(self) -> float:
        return self.now

    def count_driver(self) -> None:
        """Add the time that the driver took since the simulation was last left."""
        spent = time.process_time() - self._since
        self.now += spent + Store.seconds - self._waited
        self.driver += spent
        self.n_requests += Store.n_requests - self._requested

    def leave(self) -> None:
        """The driver goes on."""
        self._since = time.process_time()
        self._waited, self._requested = Store.seconds, Store.n_requests


@dataclass(order=True)
class Event:
    """The end of a task at a virtual time."""

    at: float
    number: int
    future: Any = field(compare=False)


class Future:
    """The result of a task, which is made when the driver asks for it."""

    status = "finished"

    def __init__(self, number: int, make: Callable[[], Any]) -> None:
        self.key, self._make = str(number), make

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call back when the clock reaches the end of the task."""
        self.tell = callback

    def result(self, timeout: float) -> Any:
        """Do what the worker did, for real, without counting it as work of the driver."""
        CLUSTER.clock.count_driver()
        value = self._make()
        CLUSTER.clock.leave()
        return value

    def release(self) -> None:
        """Nothing is held."""

    def cancel(self, force: bool = False) -> None:
        """Nothing is cancelled."""


class Queue:
    """Tasks that have ended, for one who waits for them."""

    def __init__(self) -> None:
        self._ended: list[Any] = []

    def put(self, future: Any) -> None:
        """Add a task that has ended."""
        self._ended.append(future)

    def get(self, timeout: float) -> Any:
        """Return the task that ended first; the clock moves on until one has."""
        clock, ends = CLUSTER.clock, CLUSTER.ends
        clock.count_driver()
        while not self._ended:
            if not ends:
                raise Empty
            event = heapq.heappop(ends)
            clock.now = max(clock.now, event.at)
            event.future.tell(event.future)
            CLUSTER.n_messages += 1
        clock.leave()
        return self._ended.pop(0)


class Cluster:
    """Workers on a virtual clock, as the executor sees them through a client."""

    dashboard_link = ""

    def __init__(self, n_workers: int, seconds: float, write_seconds: float) -> None:
        self.clock = Clock()
        self.ends: list[Event] = []
        self.n_workers, self.seconds, self._write_seconds = n_workers, seconds, write_seconds
        self._free = [(0.0, i) for i in range(n_workers)]
        self._rng = np.random.default_rng(0)
        self.busy, self.n_messages, self.n_tasks, self._n = 0.0, 0, 0, 0

    def nthreads(self) -> dict[str, int]:
        """Return one thread for each worker."""
        return {"all": self.n_workers}

    def submit(
        self, function: Any, packed: bytes, limit: float, *, pure: bool, priority: int
    ) -> Any:
        """Take a batch; it starts when a worker is free."""
        self.clock.count_driver()
        task, items, write = loads(packed)
        begin, worker = heapq.heappop(self._free)
        begin = max(begin, self.clock.now + HEARTBEAT)
        is_game = task is audit._run
        if is_game:
            durations = self._durations(len(items))
            n_run = min(len(items), int(np.searchsorted(np.cumsum(durations), limit, "right")) + 1)
            taken = float(durations[:n_run].sum())
            self.busy += taken
            self.n_tasks += n_run
            taken += Store.latency or self._write_seconds
            make = lambda: (_finish(items[:n_run], write), taken)  # noqa: E731
        else:  # merging and writing results: done now, for real, and timed
            since, waited = time.perf_counter(), Store.seconds
            results = scheduling.run_batch(packed, limit)
            taken = time.perf_counter() - since + Store.seconds - waited
            taken += 0 if Store.latency else self._write_seconds
            make = lambda: results  # noqa: E731
        if priority:  # it overtakes what waits
            heapq.heappush(self._free, (begin + taken, worker))
            begin = self.clock.now + HEARTBEAT
        else:
            heapq.heappush(self._free, (begin + taken, worker))
        self._n += 1
        future = Future(self._n, make)
        heapq.heappush(self.ends, Event(begin + taken + HEARTBEAT, self._n, future))
        self.clock.leave()
        return future

    def _durations(self, n: int) -> Any:
        return self.seconds * self._rng.uniform(1 - SPREAD, 1 + SPREAD, n)


class Store(MemoryFileSystem):  # type: ignore[misc]
    """An object store in memory that counts requests, and takes virtual seconds for each."""

    latency, seconds, n_requests = 0.0, 0.0, 0
    at_once = 16  # threads that read or write
    lock = Lock()
    own = local()  # whether this thread is in a request: those that it makes then do not count


def _request(name: str) -> Callable[..., Any]:
    """Return a method of the store that counts itself; to list objects is a request a thousand."""
    method = getattr(MemoryFileSystem, name)

    def call(self: Store, *args: Any, **options: Any) -> Any:
        if getattr(Store.own, "busy", False):
            return method(self, *args, **options)
        Store.own.busy, found = True, None
        try:
            found = method(self, *args, **options)
        finally:
            Store.own.busy = False
            n = 1 + len(found) // 1000 if name == "ls" and found else 1
            share = 1 if current_thread() is main_thread() else Store.at_once
            with Store.lock:
                Store.n_requests += n
                Store.seconds += n * Store.latency / share
        return found

    return call


for name in ("cat_file", "exists", "find", "info", "ls", "pipe_file", "rm", "rm_file"):
    setattr(Store, name, _request(name))


LEVELS = tuple(range(N_PVALUE_BINS))
SAMPLE = {
    name: {str: "", int: 100, float: 0.7}.get(kind, LEVELS)
    for name, kind in ((f.name, f.type) for f in Outcome.__dataclass_fields__.values())
}


def _finish(items: Any, write: Any) -> Any:
    """Write what the items would have found, and return their receipts."""
    receipt = write([Finished(item, _result(item)) for item in items])
    return [(receipt, None, "") for _ in items]


def _result(item: Any) -> Any:
    if isinstance(item, MechanismEvaluationTask):
        return MechanismEvaluation(item.key)
    (mechanism,), (attack,) = item.mechanisms, item.attacks
    return [Outcome(**{**SAMPLE, "mechanism": mechanism.id, "attack": attack.id})]


CLUSTER: Cluster


class Simulated(DaskExecutor):
    """The executor, on a simulated cluster."""

    def preflight(self, probe: Callable[[], object]) -> None:
        """The workers are as they should be."""


def measure(cube: cs.TraceCube, folder: str, cluster: Cluster) -> list[str]:
    """Run an audit of all users, and return the cells of its row."""
    global CLUSTER
    CLUSTER, clock = cluster, cluster.clock
    Store.store.clear()
    Store.n_requests = 0
    plan = AuditPlan(
        seed=1,
        null_roi=False,
        targets={"all": True},
        group_sizes=[100],
        periods=[{"name": "week", "first": 0, "epochs": 168}],
        priors=[{"name": "known_subset", "alpha": 0.1, "training": 200, "challenges": 100}],
        mechanisms=[{"name": "exact"}],
        attacks=[{"name": "projection"}],
    )
    marks: dict[str, tuple[float, float]] = {}
    most_files = 0

    def tell(progress: Any) -> None:
        nonlocal most_files
        clock.count_driver()
        marks.setdefault(progress.stage, (clock.now, clock.driver))
        marks[f"{progress.stage} end"] = (clock.now, clock.driver)
        if cluster.n_messages % 512 == 0:
            most_files = max(most_files, _count_files(folder))
        clock.leave()

    shutil.rmtree(folder, ignore_errors=True)
    executor = Simulated(cluster, clock=clock)  # type: ignore[arg-type]
    audit_of = AuditAnalysis(plan)
    clock.leave()
    results = study.run(audit_of, cube, folder, executor, on_progress=tell)
    clock.count_driver()
    n_requests, n_driver = Store.n_requests, clock.n_requests
    assert bool((results.status == "done").all())
    (begun, before), (ended, after) = marks["audit"], marks["audit end"]
    wall, driver, n = ended - begun, after - before, cube.n_users
    began = time.perf_counter()
    waited = Store.seconds
    name = run_in(folder, "audit")
    n_done = FinishedTasks(plan, plan.choose(cube), f"{folder}/journal", name).n_done
    assert n_done == n
    return [
        f"{cluster.n_workers:,}",
        f"{cluster.seconds:g}",
        f"{wall:,.0f}",
        f"{cluster.busy / cluster.n_workers / wall:.0%}",
        f"{n / wall:,.0f}",
        f"{cluster.n_messages / wall:,.0f}",
        f"{driver:,.1f}",
        f"{driver / n * 1e3:.2f}",
        f"{max(most_files, _count_files(folder)):,}",
        f"{_count_files(folder):,}",
        f"{clock.now - ended:,.0f}",
        f"{time.perf_counter() - began + Store.seconds - waited:,.0f}",
        f"{n_requests / 1e3:,.0f}",
        f"{n_driver / 1e3:,.1f}",
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f}",
    ]


def _count_files(folder: str) -> int:
    return len(Store.store) or sum(len(names) for _, _, names in os.walk(folder))


HEAD = (
    "workers,task s,wall s,busy,results/s,messages/s,driver s,ms each,most files,files,"
    "written s,resumed s,k requests,of driver,GB"
)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, nargs="*", default=[10, 100, 1000, 10_000])
    parser.add_argument("--seconds", type=float, nargs="*", default=[0.2, 5.0, 60.0])
    parser.add_argument("--targets", type=int, default=100_000)
    parser.add_argument("--write-seconds", type=float, default=0.06, help="to write a file")
    parser.add_argument("--latency", type=float, default=0.0, help="of a store, in seconds")
    given = parser.parse_args()
    Store.latency = given.latency
    fsspec.register_implementation("memory", Store, clobber=True)
    scheduling.SimpleQueue = Queue  # type: ignore[misc,assignment]
    uri = given.folder / f"cube{given.targets}.zarr"
    if not uri.exists():
        cs.synthesise("tfl", str(uri), users=given.targets, seed=1)
    cube = cs.TraceCube(str(uri))
    run = "memory://run" if given.latency else str(given.folder / "run")
    print(" ".join(f"{name:>10}" for name in HEAD.split(",")))
    for n_workers in given.workers:
        for seconds in given.seconds:
            cluster = Cluster(n_workers, seconds, given.write_seconds)
            cells = measure(cube, run, cluster)
            print(" ".join(f"{cell:>10}" for cell in cells), flush=True)
            told = describe_cluster(
                n_tasks=cube.n_users,
                n_cases=cube.n_users,
                core_seconds=seconds * cube.n_users,
                start_seconds=5.0,
                start_bytes=0.0,
                start_chunks=0.0,
                n_workers=n_workers,
            )
            rows = (f"{row} {told[row]}" for row in ("driver", "files", "requests"))
            print(f"{'':10} told: {'; '.join(rows)}; useful workers {told['useful workers']}")
    sum_up(
        "simulated", *(f"{name} {cell}" for name, cell in zip(HEAD.split(","), cells, strict=True))
    )


if __name__ == "__main__":
    main()
