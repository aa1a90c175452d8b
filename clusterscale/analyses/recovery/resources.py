"""Predict the memory and time of a recovery."""

from __future__ import annotations

from dataclasses import dataclass

from clusterscale.analyses.recovery.plan import RecoveryPlan
from clusterscale.analyses.recovery.task import BASELINES, BLOCK
from clusterscale.cube import TraceCube
from clusterscale.cube.describe import raw_bytes
from clusterscale.study import PROCESS_BYTES, StudyCost, require_memory
from clusterscale.study.execution import MEMORY

_USER = 14 * 8  # bytes per user of columns, comparisons and sums of an epoch
_SUMS = 8 + 4 * 4  # bytes per user and estimate that a task returns
_ENTRY = 4 + 8  # bytes per user and ROI in a column
# Seconds of a processor of 2020 per event that is read, and per user and epoch.
_READ, _COMPARE = 3e-8, 2e-7


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryCost(StudyCost):
    """Predicted cost of a recovery.

    Attributes
    ----------
    n_tasks
        Number of tasks.
    """

    n_tasks: int


def check(plan: RecoveryPlan, cube: TraceCube, memory: int = MEMORY) -> None:
    """Check that the cube and the memory suffice for a recovery.

    Parameters
    ----------
    plan, cube
        The plan, and the cube of its users.
    memory
        Bytes that a worker may use.

    Raises
    ------
    ConfigError
        If they do not; the message names the keys.
    """
    plan.check(cube)
    purpose = f"for the visits of {cube.n_users:,} users, who are all assigned together"
    require_memory(memory, _worker_bytes(plan, cube), purpose)


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

    Returns
    -------
    RecoveryCost
        Tasks, bytes and seconds.

    Raises
    ------
    ConfigError
        If the cube or the memory does not suffice.
    """
    check(plan, cube, memory)
    n_blocks = -(-plan.epochs // BLOCK)
    n_cases = len(plan.published) * len(plan.priors)
    n_estimates = len(BASELINES) + len(plan.strategies)
    first, last = plan.span
    events = cube.n_events * (last - first) / cube.n_epochs
    learning = events * _READ * n_cases * n_blocks
    comparing = cube.n_users * plan.epochs * n_estimates * n_cases * _COMPARE
    reading = 4 * events * _READ * n_workers
    core_seconds = learning + comparing + reading
    return RecoveryCost(
        n_users=cube.n_users,
        n_tasks=n_cases * n_blocks + len(plan.published),
        store_bytes=raw_bytes(cube),
        worker_bytes=_worker_bytes(plan, cube),
        core_seconds=core_seconds,
        seconds=core_seconds / min(n_workers, n_cases * n_blocks),
    )


def _worker_bytes(plan: RecoveryPlan, cube: TraceCube) -> int:
    first, last = plan.span
    traces = cube.n_events * (2 * cube.cell_bytes + 12) + cube.n_users * (last - first)
    estimates = len(BASELINES) + len(plan.strategies)
    column = _ENTRY * (cube.n_users + min(cube.n_events, cube.n_users * cube.n_rois))
    return int(PROCESS_BYTES + traces + 2 * column + cube.n_users * (_USER + 2 * _SUMS * estimates))
