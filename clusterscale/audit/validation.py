"""Check an audit plan against a cube; each fault names the key of the config."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from clusterscale.audit.settings import interim_looks
from clusterscale.contracts import Bounds, CellCoordinates, Mechanism, Traces
from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError, PoolError

if TYPE_CHECKING:
    from clusterscale.audit.plan import AuditPlan

__all__ = ["find_faults"]

_NONE_BEFORE, _NO_CELLS = np.zeros(1, np.int64), np.zeros(0, np.int32)  # traces of no users


def find_faults(plan: AuditPlan, cube: TraceCube) -> Iterator[str]:
    """Yield one line for each fault of ``plan``, the path of its key first."""
    long = list(_too_long(plan, cube.n_epochs))
    yield from long
    yield from _too_large(plan, cube.n_users)
    yield from _too_precise(plan)
    yield from _missing_knowledge(plan)
    if not long:  # else there are no cells to try mechanisms on
        yield from _unfit_mechanisms(plan, cube)


def _too_long(plan: AuditPlan, n_epochs: int) -> Iterator[str]:
    for i, period in enumerate(plan.periods):
        first, stop = period.spans[-1]
        if stop > n_epochs:
            yield (f"periods.{i}: epochs {first} to {stop} exceed the {n_epochs} of the cube")


def _too_large(plan: AuditPlan, n_users: int) -> Iterator[str]:
    for (i, size), prior in product(enumerate(plan.group_sizes), plan.priors):
        try:
            prior.check(n_users, size, most=interim_looks(prior.n_challenges, plan.precision)[-1])
        except PoolError as error:
            yield f"group_sizes.{i}: {error}"


def _too_precise(plan: AuditPlan) -> Iterator[str]:
    """Find priors that cannot add challenges."""
    if plan.precision is None:
        return
    for i, prior in enumerate(plan.priors):
        twice = 2 * prior.n_challenges
        if not prior.adds_challenges:
            yield (
                f"precision: challenges of {prior.name} (priors.{i}) are its own training groups, "
                "and none can be added; remove one of them"
            )
        elif twice > plan.precision.most:
            yield (
                f"precision.most: {plan.precision.most} is too small to double the "
                f"{prior.n_challenges} challenges of priors.{i}; set at least {twice}"
            )


def _missing_knowledge(plan: AuditPlan) -> Iterator[str]:
    """Find priors and attacks without the knowledge that they need."""
    for (i, period), prior in product(enumerate(plan.periods), plan.priors):
        if prior.needs_past and not period.observed:
            yield (
                f"periods.{i}: {prior.name} learns from past releases: set the first epochs "
                f"of past windows, e.g. observed: [{max(0, period.first - period.epochs)}]"
            )
    for (i, attack), prior in product(enumerate(plan.attacks), plan.priors):
        if attack.needs_whereabouts and not prior.gives_whereabouts:
            yield (
                f"attacks.{i}: {attack.name} needs the target's locations, which {prior.name} does "
                "not provide; remove one of them"
            )


def _unfit_mechanisms(plan: AuditPlan, cube: TraceCube) -> Iterator[str]:
    """Find mechanisms that do not fit the cells and group sizes, one line each."""
    frames = [(period, cube.frame(period.spans[-1])) for period in plan.periods]
    for i, mechanism in enumerate(plan.mechanisms):
        try:
            for period, frame in frames:
                empty = Traces(_NONE_BEFORE, _NO_CELLS, cube.n_rois, period.epochs)
                _try(mechanism, empty, frame, plan)
        except ConfigError as error:
            yield f"mechanisms.{i}: {error}"


def _try(mechanism: Mechanism, traces: Traces, frame: CellCoordinates, plan: AuditPlan) -> None:
    """Apply the trace steps of a mechanism to no traces, and check the counts that it gets."""
    for step in mechanism.trace_steps:
        traces, frame = step.apply(traces, frame, rng=np.random.default_rng(0))
    mechanism.bind(Bounds(1 + plan.null_roi, 1, 1, 1, 1, plan.null_roi))
    n_rois = traces.n_rois + plan.null_roi
    for size in plan.group_sizes:
        mechanism.check(group_size=size, n_rois=n_rois, n_epochs=traces.n_epochs)
