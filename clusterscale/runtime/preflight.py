"""Check before the first task that every worker can run the work with the same versions."""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from time import monotonic
from typing import Any

from cloudpickle import dumps, loads
from distributed import Client

from clusterscale.errors import ClusterError

__all__ = ["Found", "ReleaseRecord", "compare", "look_around"]

_PACKAGES = ["clusterscale", "dask", "distributed", "cloudpickle", "msgpack"]
_PACKAGES += ["numba", "numpy", "pandas", "pyarrow", "pydantic", "scikit-learn", "scipy", "zarr"]
_TICK = 2.0  # seconds between checks for a first worker
_NAMED = 3  # maximal number of workers named for one fault

ReleaseRecord = dict[str, str]
"""Versions by the name of the package."""


@dataclass(slots=True)
class Found:
    """Results of :func:`look_around`: versions and faults by the name of the process."""

    here: ReleaseRecord
    there: dict[str, ReleaseRecord] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)


def look_around(
    client: Client, probe: Callable[[], object], patience: float, replace_lost: Callable[[], None]
) -> Found:
    """Examine the scheduler and all current workers, after the first one has connected.

    Raises
    ------
    ClusterError
        If no worker connects within ``patience`` seconds.
    """
    _wait(client, patience, replace_lost)
    results = Found(facts())
    packed = dumps(probe)
    for address, n_threads in client.nthreads().items():
        if n_threads != 1:
            results.faults[_name(address)] = (
                f"has {n_threads} threads: give each worker one, and have more workers"
            )
    answers = client.run(_examine, packed, on_error="return")
    for address, answer in answers.items():
        _note(results, _name(address), answer)
    try:
        answer = client.run_on_scheduler(_examine, dumps(_nothing))
    except Exception as error:
        answer = error
    _note(results, "the scheduler", answer)
    return results


def compare(results: Found) -> None:
    """Raise one error that lists all differing versions and all faults.

    Raises
    ------
    ClusterError
        If there are any; names packages with their versions, and workers with their faults.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for name, fault in results.faults.items():
        groups[fault].append(name)
    for name, there in results.there.items():
        for package, here in results.here.items():
            other = there.get(package, "absent")
            if other != here:
                groups[f"{package} is {other} there and {here} here"].append(name)
    if groups:
        lines = [f"{_listed(names)}: {fault}" for fault, names in sorted(groups.items())]
        raise ClusterError("the cluster cannot run this work\n" + "\n".join(lines))


def facts() -> ReleaseRecord:
    """Return the versions that must be the same everywhere."""
    return {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}}


def _examine(packed: bytes) -> tuple[ReleaseRecord, str]:
    """Return the versions of this process, and the error of its probe or ``""``."""
    try:
        loads(packed)()
    except Exception as error:
        return facts(), f"{type(error).__name__}: {error}"
    return facts(), ""


def _note(results: Found, name: str, answer: Any) -> None:
    if isinstance(answer, BaseException):
        results.faults[name] = f"{type(answer).__name__}: {answer}"
        return
    there, fault = answer
    results.there[name] = there
    if fault:
        results.faults[name] = fault


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


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _name(address: str) -> str:
    return f"worker {address}"


def _listed(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


def _nothing() -> None:
    return None
