"""What a study takes of its workers: memory and time, predicted and in words for ``--explain``."""

import math
from bisect import bisect_left
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from statistics import median
from time import perf_counter, process_time

import numpy as np

from clusterscale.errors import ConfigError
from clusterscale.phrases import option
from clusterscale.storage.records import MERGED, SMALL_FILES
from clusterscale.study.execution import batch_seconds

PROCESS_BYTES = 350 * 10**6
"""Memory of the interpreter and its libraries, without the classifiers of learned attacks."""

START_SECONDS = 3.0
"""Seconds to start a process, import libraries and load compiled loops."""

_REFERENCE = 0.017  # seconds of _exercise on the machine on which rates were measured
_WAIT_SECONDS = 0.5
_UNITS = ("B", "kB", "MB", "GB", "TB")


@cache
def measure_slowness(clock: Callable[[], float] = process_time) -> float:
    """Return the processor time of this machine relative to that on which rates were measured.

    Parameters
    ----------
    clock
        Returns processor seconds of this process.
    """
    seconds, until = list[float](), perf_counter() + 2 * _WAIT_SECONDS
    while not seconds or (len(seconds) < 30 and perf_counter() < until):
        began = clock()
        _exercise()
        seconds.append(clock() - began)
    return median(seconds) / _REFERENCE  # not the least: others may share caches


def describe_waiting(n_workers: int) -> dict[str, str]:
    """Return a row on how much longer workers on this machine take beside what else it does."""
    block, began, used = bytes(1 << 20), perf_counter(), process_time()

    def work(until: float) -> None:
        while perf_counter() < until:
            blake2b(block)  # releases the lock of the interpreter

    with ThreadPoolExecutor(n_workers) as pool:
        list(pool.map(work, [began + _WAIT_SECONDS] * n_workers))
    waiting = n_workers * (perf_counter() - began) / (process_time() - used)
    return {"now": f"about {waiting:.1f} times that time, beside what else this machine does"}


def _exercise() -> None:
    """Do the most frequent work of audits, in one thread: draw noise, and add it to counts."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(3.0, size=20_000)
    for _ in range(40):
        np.cumsum(counts + rng.laplace(size=counts.size))


def describe_bytes(n_bytes: float) -> str:
    """Return a number of bytes in the unit that fits.

    Parameters
    ----------
    n_bytes
        A number of bytes.

    Returns
    -------
    str
        Such as ``1.2 GB``.
    """
    power = min(int(math.log10(max(n_bytes, 1))) // 3, len(_UNITS) - 1)
    scaled = n_bytes / 1000**power
    digits = 1 if power and scaled < 10 else 0
    return f"{scaled:.{digits}f} {_UNITS[power]}"


def describe_cost(
    *, read: str, worker: str, core_seconds: float, seconds: tuple[float, ...]
) -> dict[str, str]:
    """Return the rows that every analysis shows.

    Parameters
    ----------
    read, worker
        What is read, and the memory that a worker uses.
    core_seconds
        Seconds of one processor.
    seconds
        Seconds of the cluster: about, or from and to.

    Returns
    -------
    dict[str, str]
        Text by the name of the row.
    """
    wall = "about {:,.0f} s" if len(seconds) == 1 else "{:,.0f} to {:,.0f} s"
    wall = wall.format(*(max(1.0, each) for each in seconds))
    return {
        "read": read,
        "used by each worker": f"up to {worker}",
        "work": f"about {core_seconds:,.0f} s of one processor",
        "time": f"{wall} of the cluster, if it does nothing else",
    }


_TASK, _BATCH = 2e-5, 9e-4  # seconds of the driver's processor
_ROUNDS = 4  # batches of each worker that a short study has
_CASE_BYTES = 2300  # of a case in the records and the results
# Requests to an object store: of a run, of a worker that starts beside chunks of traces, and of a
# batch of records.
_RUN_REQUESTS, _START_REQUESTS, _BATCH_REQUESTS = 400, 20, 2


def describe_cluster(
    *,
    n_tasks: int,
    n_cases: int,
    core_seconds: float,
    start_seconds: float,
    start_bytes: float,
    start_chunks: float,
    n_workers: int,
) -> dict[str, str]:
    """Return the rows about what a large cluster meets: reads, files, the driver and useful size.

    Parameters
    ----------
    n_tasks, n_cases, core_seconds
        Tasks, their results, and the seconds of one processor that they take together.
    start_seconds, start_bytes, start_chunks
        What a worker takes before its first task: seconds, and bytes and chunks that it reads.
    n_workers
        Number of workers.

    Returns
    -------
    dict[str, str]
        Text by the name of the row.
    """
    core_seconds = max(core_seconds, _TASK * n_tasks)

    def count_batches(workers: int) -> float:
        return min(n_tasks, max(core_seconds / batch_seconds(workers), _ROUNDS * workers))

    def driver_seconds(workers: int) -> float:
        return n_tasks * _TASK + count_batches(workers) * _BATCH

    n_batches = count_batches(n_workers)
    n_files = n_batches if n_batches <= SMALL_FILES else SMALL_FILES + n_tasks / MERGED
    n_requests = _RUN_REQUESTS + n_batches * _BATCH_REQUESTS
    n_requests += n_workers * (_START_REQUESTS + start_chunks)
    followed = bisect_left(
        range(1, n_tasks + 1),
        True,
        key=lambda workers: driver_seconds(workers) * workers > core_seconds,
    )
    limits = {
        "there are no more tasks": n_tasks,
        "more would take longer to start than to work": math.ceil(core_seconds / start_seconds),
        "the driver can follow no more": followed,
    }
    why, useful = min(limits.items(), key=lambda pair: pair[1])
    idle = f", {n_workers - n_tasks:,} of {n_workers:,} have no task" * (n_workers > n_tasks)
    return {
        "read at the start": f"up to {describe_bytes(start_bytes * n_workers)}, once on each node",
        "driver": f"about {driver_seconds(n_workers):,.0f} s of one processor",
        "files": f"about {n_files:,.0f} of finished tasks at once, "
        f"{describe_bytes(n_cases * _CASE_BYTES)} with the results",
        "requests": f"about {n_requests:,.0f}, if cube and output are in an object store",
        "useful workers": f"up to {max(1, useful):,}: {why}{idle}",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyCost:
    """Predicted cost of a study that works on all users of a cube.

    Seconds are from rates of a common processor, without those to start a process, and assume that
    events are spread evenly over time.

    Attributes
    ----------
    store_bytes, worker_bytes
        Size of the traces, and peak memory of a worker.
    core_seconds, seconds
        Seconds on one processor, and on the whole cluster.
    """

    store_bytes: int
    worker_bytes: int
    core_seconds: float
    seconds: float

    def describe(self, how_often: str) -> dict[str, str]:
        """Return the rows of :func:`describe_cost`; ``how_often`` the traces are read."""
        slowness = measure_slowness()
        return describe_cost(
            read=f"{describe_bytes(self.store_bytes)}, {how_often}",
            worker=describe_bytes(self.worker_bytes),
            core_seconds=slowness * (START_SECONDS + self.core_seconds),
            seconds=(slowness * (START_SECONDS + self.seconds),),
        )


def require_memory(memory: int, needed: int, purpose: str) -> None:
    """Check that a worker has enough memory.

    Parameters
    ----------
    memory, needed
        Bytes that a worker may use, and those that it needs.
    purpose
        What needs them, for the message: ``for …``.

    Raises
    ------
    ConfigError
        If ``needed`` exceeds ``memory``.
    """
    if needed > memory:
        raise ConfigError(
            f"memory: {memory:,} bytes per worker are too few {purpose}; set {option('memory')} to "
            f"{needed:,} or more"
        )
