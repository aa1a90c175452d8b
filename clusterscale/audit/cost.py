"""What an audit will take, told before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from clusterscale.audit.budget import Arrangement, arrange
from clusterscale.audit.plan import AuditPlan
from clusterscale.contracts import MEMORY
from clusterscale.cube import TraceCube

__all__ = ["Cost", "predict"]

_OFFSET_BYTES = 8


@dataclass(frozen=True, slots=True)
class Cost:
    """What an audit will take.

    ``n_tasks`` are scheduled, games and prices, giving ``n_cases`` results. ``store_bytes`` are
    read once by each worker, or a share of them where each holds a part of the users, as the
    ``arrangement`` says. Of the most exposed, who are not known yet, it is assumed that each has an
    event in every period.
    """

    n_targets: int
    n_tasks: int
    n_cases: int
    store_bytes: int
    arrangement: Arrangement


def predict(plan: AuditPlan, cube: TraceCube, memory: int = MEMORY, n_workers: int = 1) -> Cost:
    """Predict what an audit costs, without running anything.

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
        If the cube cannot answer the plan, or memory is too short for it.
    """
    plan.check(cube)
    targets = plan.targets
    n_targets, n_periods = targets.n_most_exposed(cube, plan.periods), len(plan.periods)
    n_attacked = n_targets * n_periods
    if not n_targets:
        chosen = plan.choose(cube)
        n_targets = len(chosen.users)
        n_attacked = sum(len(chosen.attacks(i)) for i in range(n_periods))
    n_games = n_attacked * len(plan.priors) * len(plan.group_sizes)
    return Cost(
        n_targets=n_targets,
        n_tasks=n_games + n_periods * len(plan.group_sizes),
        n_cases=n_games * plan.n_cases,
        store_bytes=cube.n_events * cube.cell_bytes + (cube.n_users + 1) * _OFFSET_BYTES,
        arrangement=arrange(plan, cube, memory, n_workers, n_targets=n_targets),
    )
