"""What a recovery takes, told before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from clusterscale.contracts import MEMORY
from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError
from clusterscale.recovery.plan import RecoveryPlan
from clusterscale.recovery.task import ALONE, BLOCK

__all__ = ["RecoveryCost", "check", "predict"]

_PROCESS = 350 * 10**6  # the interpreter and its libraries
_USER = 14 * 8  # of a user: what columns, comparisons and sums of an epoch hold
_SUMS = 8 + 4 * 4  # of a user and estimate: what a task returns
_ENTRY = 4 + 8  # of a user and ROI in a column
# Seconds that a processor of 2020 takes for an event that is read, and for a user in an epoch.
_READ, _COMPARE = 3e-8, 2e-7


@dataclass(frozen=True, slots=True)
class RecoveryCost:
    """What a recovery will take.

    ``worker_bytes``: the most that a worker uses; ``core_seconds``: the time of one processor, and
    ``seconds`` that of the cluster, told from rates of a common processor.
    """

    n_users: int
    n_tasks: int
    store_bytes: int
    worker_bytes: int
    core_seconds: float
    seconds: float


def check(plan: RecoveryPlan, cube: TraceCube, memory: int = MEMORY) -> None:
    """Raise :class:`ConfigError`, naming the keys, if the cube or the memory does not do."""
    plan.check(cube)
    needed = _worker_bytes(plan, cube)
    if needed > memory:
        raise ConfigError(
            f"memory: {memory:,} bytes a worker are too few for the visits of {cube.n_users:,} "
            f"users, who are all assigned together; give {needed:,} or more with `memory`"
        )


def predict(
    plan: RecoveryPlan, cube: TraceCube, memory: int = MEMORY, n_workers: int = 1
) -> RecoveryCost:
    """Predict what a recovery costs, without running anything.

    Parameters
    ----------
    plan, cube
        What to ask, and of whom.
    memory
        Bytes that a worker may use.
    n_workers
        How many there are.

    Raises
    ------
    ConfigError
        If the cube cannot answer, or memory is too short.
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
