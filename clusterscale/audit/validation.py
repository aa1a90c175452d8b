"""What a cube cannot answer, with the keys of the config that ask it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from clusterscale.audit.precision import interim_looks
from clusterscale.contracts import Bounds, CellCoordinates, Mechanism, Traces
from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError, PoolError

if TYPE_CHECKING:
    from clusterscale.audit.plan import AuditPlan

__all__ = ["find_faults"]

_NONE_BEFORE, _NO_CELLS = np.zeros(1, np.int64), np.zeros(0, np.int32)  # traces of nobody


def find_faults(plan: AuditPlan, cube: TraceCube) -> Iterator[str]:
    """Yield one line for each fault of ``plan``, the path of its key first."""
    long = list(_too_long(plan, cube.n_epochs))
    yield from long
    yield from _too_large(plan, cube.n_users)
    yield from _too_precise(plan)
    yield from _not_known(plan)
    if not long:  # else there are no cells to try mechanisms on
        yield from _nonsense(plan, cube)


def _too_long(plan: AuditPlan, n_epochs: int) -> Iterator[str]:
    for i, period in enumerate(plan.periods):
        first, stop = period.spans[-1]
        if stop > n_epochs:
            yield (
                f"periods.{i}: epochs {first} to {stop} reach beyond the cube, which has {n_epochs}"
            )


def _too_large(plan: AuditPlan, n_users: int) -> Iterator[str]:
    for (i, size), prior in product(enumerate(plan.group_sizes), plan.priors):
        try:
            prior.check(n_users, size, most=interim_looks(prior.n_challenges, plan.precision)[-1])
        except PoolError as error:
            yield f"group_sizes.{i}: {error}"


def _too_precise(plan: AuditPlan) -> Iterator[str]:
    """Find priors that have no more challenges to give."""
    if plan.precision is None:
        return
    for i, prior in enumerate(plan.priors):
        twice = 2 * prior.n_challenges
        if not prior.adds_challenges:
            yield (
                f"precision: {prior.name} (priors.{i}) asks about the groups that it has, and no "
                "challenges can be added; leave one of them out"
            )
        elif twice > plan.precision.most:
            yield (
                f"precision.most: {plan.precision.most} leaves no room to double the "
                f"{prior.n_challenges} challenges of priors.{i}; give at least {twice}"
            )


def _not_known(plan: AuditPlan) -> Iterator[str]:
    """Find what a prior or an attack needs and is not given."""
    for (i, period), prior in product(enumerate(plan.periods), plan.priors):
        if prior.needs_past and not period.observed:
            yield (
                f"periods.{i}: {prior.name} learns from past releases: give the first epochs "
                f"of past windows, e.g. observed: [{max(0, period.first - period.epochs)}]"
            )
    for (i, attack), prior in product(enumerate(plan.attacks), plan.priors):
        if attack.needs_whereabouts and not prior.gives_whereabouts:
            yield (
                f"attacks.{i}: {attack.name} asks where the target was, and {prior.name} does "
                "not tell; leave one of them out"
            )


def _nonsense(plan: AuditPlan, cube: TraceCube) -> Iterator[str]:
    """Find mechanisms that make no sense for the cells and group sizes, one line each."""
    frames = [(period, cube.frame(period.spans[-1])) for period in plan.periods]
    for i, mechanism in enumerate(plan.mechanisms):
        try:
            for period, frame in frames:
                nobody = Traces(_NONE_BEFORE, _NO_CELLS, cube.n_rois, period.epochs)
                _try(mechanism, nobody, frame, plan)
        except ConfigError as error:
            yield f"mechanisms.{i}: {error}"


def _try(mechanism: Mechanism, traces: Traces, frame: CellCoordinates, plan: AuditPlan) -> None:
    """Follow a mechanism up to what it asks of counts."""
    for step in mechanism.trace_steps:
        traces, frame = step.apply(traces, frame, rng=np.random.default_rng(0))
    mechanism.bind(Bounds(1 + plan.null_roi, 1, 1, 1, 1, plan.null_roi))
    n_rois = traces.n_rois + plan.null_roi
    for size in plan.group_sizes:
        mechanism.check(group_size=size, n_rois=n_rois, n_epochs=traces.n_epochs)
