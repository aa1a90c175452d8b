"""What an audit will take, told before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from clusterscale.audit.plan import AuditPlan
from clusterscale.audit.precision import looks
from clusterscale.cube import TraceCube

__all__ = ["Cost", "predict"]

_COUNT_BYTES, _VALUE_BYTES, _OFFSET_BYTES = 4, 8, 8


@dataclass(frozen=True, slots=True)
class Cost:
    """What an audit will take.

    ``n_tasks`` are scheduled, games and prices, giving ``n_cases`` results. ``store_bytes`` are
    read once by each worker, which keeps ``trace_bytes``: the traces of a period, once for each
    list of trace steps. ``task_bytes`` is the most that one task holds beside them.
    """

    n_targets: int
    n_tasks: int
    n_cases: int
    store_bytes: int
    trace_bytes: int
    task_bytes: int


def predict(plan: AuditPlan, cube: TraceCube) -> Cost:
    """Predict what an audit costs, without running anything.

    Raises
    ------
    ConfigError
        If the cube cannot answer the plan.
    """
    plan.check(cube)
    targets = plan.targets
    n_targets = targets.n_most_exposed(cube) or len(targets.choose(cube, plan.seed).users)
    n_games = n_targets * len(plan.periods) * len(plan.priors) * len(plan.group_sizes)
    n_settings = len({(), *(mechanism.trace_steps for mechanism in plan.mechanisms)})
    validate = any(attack.validates for attack in plan.attacks)
    n_cells, trace_bytes, task_bytes = cube.n_rois + plan.null_roi, 0, 0
    for period, prior in product(plan.periods, plan.priors):
        n_past = len(period.observed) if prior.needs_past else 0
        trace_bytes = max(trace_bytes, _trace_bytes(plan, cube, (n_past + 1) * period.epochs))
        n_rows = prior.n_rows(n_past, validate=validate, control=plan.control)
        stops = looks(prior.n_challenges, plan.precision)
        n_rows = max(n_rows, stops[-1] // 2)  # by then what was counted to train on is gone
        row_bytes = n_cells * period.epochs * (_COUNT_BYTES + _VALUE_BYTES * plan.adds_noise)
        task_bytes = max(task_bytes, n_rows * row_bytes)
    return Cost(
        n_targets=n_targets,
        n_tasks=n_games + len(plan.periods) * len(plan.group_sizes),
        n_cases=n_games * plan.n_cases,
        store_bytes=cube.n_events * cube.cell_bytes + (cube.n_users + 1) * _OFFSET_BYTES,
        trace_bytes=n_settings * trace_bytes,
        task_bytes=task_bytes,
    )


def _trace_bytes(plan: AuditPlan, cube: TraceCube, n_epochs: int) -> int:
    """Bytes of the traces of so many epochs, if events are spread evenly over time."""
    n_events = cube.n_events * n_epochs // cube.n_epochs
    idle = cube.n_users * n_epochs if plan.null_roi else 0
    return n_events * cube.cell_bytes + (cube.n_users + 1) * _OFFSET_BYTES + idle
