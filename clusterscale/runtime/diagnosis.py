"""Check a cluster before the first task, and describe its state when it hangs."""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from time import monotonic
from typing import Any

from cloudpickle import dumps, loads
from distributed import Client

from clusterscale.errors import ClusterError
from clusterscale.study.execution import WorkerCount

_PACKAGES = ["clusterscale", "dask", "distributed", "cloudpickle", "msgpack"]
_PACKAGES += ["numba", "numpy", "pandas", "pyarrow", "pydantic", "scikit-learn", "scipy", "zarr"]
_TICK = 2.0  # seconds between checks for a first worker
_NAMED = 3  # maximal number of workers named for one fault
_SECONDS = 10.0  # timeout of a diagnosis
_AT_ONCE = 2.0  # timeout of a status query, in seconds

Versions = dict[str, str]


def check_workers(
    client: Client, probe: Callable[[], object], patience: float, replace_lost: Callable[[], None]
) -> None:
    """Wait for the first worker; compare the scheduler and all current workers with this process.

    Raises ClusterError if no worker connects within ``patience`` seconds; or once for all versions
    that differ, and all workers that have several threads or on which the probe failed.
    """
    _wait(client, patience, replace_lost)
    workers_by_fault: dict[str, list[str]] = defaultdict(list)
    for address, n_threads in client.nthreads().items():
        if n_threads != 1:
            fault = f"has {n_threads} threads: give each worker one, and have more workers"
            workers_by_fault[fault].append(f"worker {address}")
    answers = client.run(_examine, dumps(probe), on_error="return")
    named = {f"worker {address}": answer for address, answer in answers.items()}
    try:
        named["the scheduler"] = client.run_on_scheduler(_examine, dumps(_nothing))
    except Exception as error:
        named["the scheduler"] = error
    here = _versions()
    for name, answer in named.items():
        for fault in _faults(answer, here):
            workers_by_fault[fault].append(name)
    if workers_by_fault:
        lines = [f"{_listed(names)}: {fault}" for fault, names in sorted(workers_by_fault.items())]
        raise ClusterError("the cluster cannot run this work\n" + "\n".join(lines))


def describe(client: Client) -> str:
    """Return the workers with their memory, number of tasks and call stacks.

    The text contains no personal data: only functions, lines and numbers of tasks.
    """
    try:
        info = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=_SECONDS)
    except Exception as error:
        return f"the scheduler does not answer ({type(error).__name__})"
    lines = [f"{len(info['workers'])} workers"]
    lines += [_worker(address, worker) for address, worker in sorted(info["workers"].items())]
    try:
        stacks = client.sync(client.scheduler.call_stack, keys=None, callback_timeout=_SECONDS)
    except Exception as error:
        return "\n".join([*lines, f"their call stacks are unknown ({type(error).__name__})"])
    for address, tasks in sorted(stacks.items()):
        for frames in tasks.values():
            lines += [f"{address} is at", *(frame.rstrip() for frame in frames)]
    return "\n".join(lines)


def count_workers(client: Client) -> WorkerCount | None:
    """Return the numbers of workers and threads, None if the scheduler does not answer in time."""
    try:
        info = client.sync(client.scheduler.identity, n_workers=0, callback_timeout=_AT_ONCE)
        return WorkerCount(int(info["n_workers"]), int(info["total_threads"]))
    except Exception:  # it is lost or being closed, which its user notices anyway
        return None


def _wait(client: Client, patience: float, replace_lost: Callable[[], None]) -> None:
    since = monotonic()
    while not client.nthreads():
        left = patience - (monotonic() - since)
        if left <= 0:
            raise ClusterError(
                f"no worker connected within {patience:g} seconds; if they wait in a queue, "
                "increase the cluster's `patience`"
            )
        try:
            client.wait_for_workers(1, timeout=min(_TICK, left))
        except TimeoutError:
            replace_lost()


def _examine(packed: bytes) -> tuple[Versions, str]:
    """Return the versions of this process, and the error of its probe or ``""``."""
    try:
        loads(packed)()
    except Exception as error:
        return _versions(), f"{type(error).__name__}: {error}"
    return _versions(), ""


def _versions() -> Versions:
    """Return the versions that must be the same everywhere."""
    return {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _faults(answer: tuple[Versions, str] | BaseException, here: Versions) -> list[str]:
    """Return what is wrong with the process that gave an answer to :func:`_examine`."""
    if isinstance(answer, BaseException):
        return [f"{type(answer).__name__}: {answer}"]
    there, fault = answer
    faults = [fault] if fault else []
    for package, expected in here.items():
        if (other := there.get(package, "absent")) != expected:
            faults.append(f"{package} is {other} there and {expected} here")
    return faults


def _listed(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


def _nothing() -> None:
    return None


def _worker(address: str, info: dict[str, Any]) -> str:
    metrics = info.get("metrics", {})
    memory = metrics.get("memory", 0) / 1e6
    return (
        f"{address}: {info.get('status', 'unknown')}, {metrics.get('executing', 0)} running, "
        f"{metrics.get('ready', 0)} ready, {memory:,.0f} MB"
    )
