"""Predict the memory and time of a recovery."""

from __future__ import annotations

from dataclasses import dataclass

from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError
from clusterscale.recovery.plan import RecoveryPlan
from clusterscale.recovery.task import ALONE, BLOCK
from clusterscale.study.execution import MEMORY

__all__ = ["RecoveryCost", "check", "predict"]

_PROCESS = 350 * 10**6  # the interpreter and its libraries
_USER = 14 * 8  # bytes per user of columns, comparisons and sums of an epoch
_SUMS = 8 + 4 * 4  # bytes per user and estimate that a task returns
_ENTRY = 4 + 8  # bytes per user and ROI in a column
# Seconds of a processor of 2020 per event that is read, and per user and epoch.
_READ, _COMPARE = 3e-8, 2e-7


@dataclass(frozen=True, slots=True)
class RecoveryCost:
    """Predicted cost of a recovery.

    ``worker_bytes``: peak memory of a worker; ``core_seconds``: time on one processor, and
    ``seconds``: on the cluster, from rates of a common processor.
    """

    n_users: int
    n_tasks: int
    store_bytes: int
    worker_bytes: int
    core_seconds: float
    seconds: float


def check(plan: RecoveryPlan, cube: TraceCube, memory: int = MEMORY) -> None:
    """Raise :class:`ConfigError`, naming the keys, if the cube or the memory does not suffice."""
    plan.check(cube)
    needed = _worker_bytes(plan, cube)
    if needed > memory:
        raise ConfigError(
            f"memory: {memory:,} bytes per worker are too few for the visits of {cube.n_users:,} "
            f"users, who are all assigned together; set `memory` to {needed:,} or more"
        )


def predict(
    plan: RecoveryPlan, cube: TraceCube, memory: int = MEMORY, n_workers: int = 1
) -> RecoveryCost:
    """Predict the cost of a recovery without running it.

    Parameters
    ----------
    plan, cube
        The plan, and the cube of its users.
    memory
        Bytes that a worker may use.
    n_workers
        Number of workers.

    Raises
    ------
    ConfigError
        If the cube or the memory does not suffice.
    """
    check(plan, cube, memory)
    n_blocks = -(-plan.epochs // BLOCK)
    n_cases = len(plan.published) * len(plan.priors)
    n_estimates = len(ALONE) + len(plan.strategies)
    events = _events(plan, cube)
    learning = events * _READ * n_cases * n_blocks
    comparing = cube.n_users * plan.epochs * n_estimates * n_cases * _COMPARE
    reading = 4 * events * _READ * n_workers
    core_seconds = learning + comparing + reading
    return RecoveryCost(
        cube.n_users,
        n_cases * n_blocks + len(plan.published),
        cube.n_events * cube.cell_bytes + (cube.n_users + 1) * 8,
        _worker_bytes(plan, cube),
        core_seconds,
        core_seconds / min(n_workers, n_cases * n_blocks),
    )


def _events(plan: RecoveryPlan, cube: TraceCube) -> float:
    first, last = plan.span
    return cube.n_events * (last - first) / cube.n_epochs


def _worker_bytes(plan: RecoveryPlan, cube: TraceCube) -> int:
    first, last = plan.span
    traces = cube.n_events * (2 * cube.cell_bytes + 12) + cube.n_users * (last - first)
    estimates = len(ALONE) + len(plan.strategies)
    column = _ENTRY * (cube.n_users + min(cube.n_events, cube.n_users * cube.n_rois))
    return int(_PROCESS + traces + 2 * column + cube.n_users * (_USER + 2 * _SUMS * estimates))
