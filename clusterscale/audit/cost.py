"""What an audit will take, told before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from clusterscale.audit.plan import AuditPlan
from clusterscale.audit.resources import ResourcePlan, plan_resources
from clusterscale.contracts import MEMORY
from clusterscale.cube import TraceCube
from clusterscale.screening import predict as predict_screen

__all__ = ["Cost", "predict"]

_OFFSET_BYTES = 8
UNSURE = 1.5
"""Factor by which a run on a quiet machine may be shorter or longer than predicted."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What an audit will take.

    ``n_tasks`` are scheduled, games and prices, giving ``n_cases`` results. ``store_bytes`` are
    read once by each worker, or a share of them where each holds a part of the users, as the
    ``arrangement`` says. Its seconds are told with the factor :data:`UNSURE`; where the most
    exposed are attacked, they include the screen that finds them, and it is assumed that each of
    them has an event in every period.
    """

    n_targets: int
    n_tasks: int
    n_cases: int
    store_bytes: int
    arrangement: ResourcePlan

    @property
    def seconds_range(self) -> tuple[float, float]:
        """Seconds of the cluster, at least and at most, as far as they can be told."""
        return self.arrangement.seconds / UNSURE, self.arrangement.seconds * UNSURE


def predict(
    plan: AuditPlan,
    cube: TraceCube,
    memory: int = MEMORY,
    n_workers: int = 1,
    *,
    slowness: float = 1.0,
) -> Cost:
    """Predict what an audit costs, without running anything.

    Parameters
    ----------
    plan, cube
        What to ask, and of whom.
    memory
        Bytes that a worker may use.
    n_workers
        How many there are.
    slowness
        How many times slower processors are than those on which rates were measured
        (:func:`~clusterscale.audit.workload.measure_slowness`).

    Raises
    ------
    ConfigError
        If the cube cannot answer the plan, or memory is too short for it.
    """
    plan.check(cube)
    targets = plan.targets
    n_exposed, n_periods = targets.n_most_exposed(cube, plan.periods), len(plan.periods)
    n_targets, n_attacked = n_exposed, n_exposed * n_periods
    if not n_exposed:
        chosen = plan.choose(cube)
        n_targets = len(chosen.users)
        n_attacked = sum(len(chosen.attacks(i)) for i in range(n_periods))
    found = plan_resources(plan, cube, memory, n_workers, n_targets=n_targets, slowness=slowness)
    if n_exposed:
        screen = predict_screen(plan.whole_screen, cube, memory, n_workers)
        found = replace(
            found,
            core_seconds=found.core_seconds + screen.core_seconds,
            seconds=found.seconds + screen.seconds,
        )
    n_games = n_attacked * len(plan.priors) * len(plan.group_sizes)
    return Cost(
        n_targets=n_targets,
        n_tasks=n_games + n_periods * len(plan.group_sizes),
        n_cases=n_games * plan.n_cases,
        store_bytes=cube.n_events * cube.cell_bytes + (cube.n_users + 1) * _OFFSET_BYTES,
        arrangement=found,
    )
