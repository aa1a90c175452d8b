"""Predict what an audit takes, before anything runs."""

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
    """Predicted cost of an audit.

    ``n_tasks`` are scheduled, games and evaluations of mechanisms, and give ``n_cases`` results.
    Each worker reads ``store_bytes`` once, or a share of them if it holds a part of the users; see
    ``arrangement``. Its seconds are uncertain by the factor :data:`UNSURE`. If the most exposed
    users are attacked, they include the screen that finds these users, and each of these is assumed
    to have an event in every period.
    """

    n_targets: int
    n_tasks: int
    n_cases: int
    store_bytes: int
    arrangement: ResourcePlan

    @property
    def seconds_range(self) -> tuple[float, float]:
        """Lower and upper estimate of the seconds on the cluster."""
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
        The audit, and the traces.
    memory
        Bytes that a worker may use.
    n_workers
        Number of workers.
    slowness
        How many times slower processors are than those on which rates were measured
        (:func:`~clusterscale.audit.workload.measure_slowness`).

    Raises
    ------
    ConfigError
        If the plan does not fit the cube, or needs more memory.
    """
    plan.check(cube)
    targets = plan.targets
    n_exposed, n_periods = targets.n_most_exposed(cube, plan.periods), len(plan.periods)
    n_targets, n_attacked = n_exposed, n_exposed * n_periods
    if not n_exposed:
        chosen = plan.choose(cube)
        n_targets = len(chosen.users)
        n_attacked = sum(len(chosen.attacks(i)) for i in range(n_periods))
    resources = plan_resources(
        plan, cube, memory, n_workers, n_targets=n_targets, slowness=slowness
    )
    if n_exposed:
        screen = predict_screen(plan.whole_screen, cube, memory, n_workers)
        resources = replace(
            resources,
            core_seconds=resources.core_seconds + screen.core_seconds,
            seconds=resources.seconds + screen.seconds,
        )
    n_games = n_attacked * len(plan.priors) * len(plan.group_sizes)
    return Cost(
        n_targets=n_targets,
        n_tasks=n_games + n_periods * len(plan.group_sizes),
        n_cases=n_games * plan.n_cases,
        store_bytes=cube.n_events * cube.cell_bytes + (cube.n_users + 1) * _OFFSET_BYTES,
        arrangement=resources,
    )
