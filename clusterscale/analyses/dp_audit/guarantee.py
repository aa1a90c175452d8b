"""The guarantee of a mechanism on a cube, and what it implies for all data of one user."""

from __future__ import annotations

from dataclasses import dataclass

from clusterscale.contracts import Bounds, Mechanism, Stability
from clusterscale.mechanisms import user_level
from clusterscale.mechanisms.accounting import describe_person
from clusterscale.metrics import auc_ceiling

_ANYTHING = 10**12  # visits: more than any user can make


@dataclass(frozen=True, slots=True)
class GuaranteeStatement:
    """The guarantee of a mechanism for the counts of this cube and period.

    The first five fields are those of :class:`~clusterscale.contracts.Guarantee`. The noise is
    scaled to ``sensitivity``; a unit of this cube needs ``required_sensitivity``: if that is
    larger, the guarantee does not hold here. The others are for all data of one user
    (:class:`~clusterscale.mechanisms.UserLevel`); ``ceiling`` is the largest AUC that any attack
    can reach.
    """

    unit: str
    epsilon: float
    delta: float
    neighbours: str
    reason: str
    sensitivity: float
    required_sensitivity: float
    user_epsilon: float
    user_delta: float
    composed_epsilon: float
    composed_delta: float
    ceiling: float


def state_guarantee(
    mechanism: Mechanism, bounds: Bounds, stability: Stability | None, n_days: int
) -> GuaranteeStatement:
    """Return the guarantee of a bound mechanism for data within ``bounds``.

    ``stability`` is that of its trace steps, None if not known; ``n_days`` the number of local days
    of the release.
    """
    stated, user = mechanism.guarantee, user_level(mechanism, bounds)
    person = describe_person(
        stated.unit, stated.epsilon, stated.delta, n_days, mechanism.trace_steps
    )
    curve = [pair for pair in user.curve if pair[1] < 1]  # δ = 1 guarantees nothing
    ceilings = [float(auc_ceiling(epsilon, delta)) for epsilon, delta in curve]
    return GuaranteeStatement(
        unit=stated.unit,
        epsilon=stated.epsilon,
        delta=stated.delta,
        neighbours=stated.neighbours,
        reason=stated.reason + _proviso(mechanism, bounds, stability) + (person and f"; {person}"),
        sensitivity=stated.sensitivity,
        required_sensitivity=mechanism.required_sensitivity(bounds),
        user_epsilon=user.epsilon,
        user_delta=user.delta,
        composed_epsilon=user.composed_epsilon,
        composed_delta=user.composed_delta,
        ceiling=min(ceilings, default=1.0),
    )


def _proviso(mechanism: Mechanism, bounds: Bounds, stability: Stability | None) -> str:
    """Return a proviso if the sensitivity is too small for users more active than the cube's."""
    anyone = Bounds(
        event=1 + bounds.null_roi,
        user_day=_ANYTHING,
        user=_ANYTHING,
        series=_ANYTHING,
        rois=_ANYTHING,
        null_roi=bounds.null_roi,
    )
    anyone = anyone if stability is None else stability.limit(anyone)
    if not mechanism.guarantee.sensitivity < mechanism.required_sensitivity(anyone):
        return ""
    return "; for users no more active than those of this cube"
