"""What several releases spend together of a privacy budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from clusterscale.tables import LedgerEntry

__all__ = ["compose", "spent_by"]

_LARGEST_ACCOUNTED = 500.0  # sum of ε: above, accounting saves nothing, and e^ε overflows
_FINEST, _MOST_STEPS = 1e-4, 200_000  # grid of privacy losses: smallest step, most steps


def compose(losses: Iterable[tuple[float, float]], delta: float) -> float:
    """Return the smallest known ε at ``delta`` of several (ε, δ)-DP releases together.

    It is the smaller one of basic composition and of the composition of dominating privacy-loss
    distributions (Kairouz, Oh and Viswanath, ICML 2015; Sommer, Meiser and Mohammadi, PoPETs 2019),
    which holds also if a release is chosen after others are seen. Losses are rounded up.

    Parameters
    ----------
    losses
        ε and δ of each release, for the same unit.
    delta
        δ of all together.

    Returns
    -------
    float
        Infinite if no ε is known at ``delta``; 0 without releases.
    """
    pairs = Counter(losses)
    if not pairs:
        return 0.0
    total = float(sum(epsilon * n for (epsilon, _), n in pairs.items()))
    total_delta = sum(each * n for (_, each), n in pairs.items())
    basic = total if total_delta <= delta else np.inf
    if delta == 0.0 or total > _LARGEST_ACCOUNTED or sum(pairs.values()) == 1:
        return basic
    return min(basic, _accounted(pairs, total, delta))


def _accounted(pairs: Counter[tuple[float, float]], total: float, delta: float) -> float:
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    step = max(_FINEST, total / _MOST_STEPS)
    composed: Any = None
    for (epsilon, each), n in pairs.items():
        one = pld.from_privacy_parameters(
            common.DifferentialPrivacyParameters(epsilon, each), value_discretization_interval=step
        )
        several = one.self_compose(n)
        composed = several if composed is None else composed.compose(several)
    with np.errstate(over="ignore"):  # the loss of a tail of negligible mass is infinite
        return float(composed.get_epsilon_for_delta(delta))


def spent_by(
    entries: Sequence[LedgerEntry], unit: str, delta: float, days: tuple[int, int] | None = None
) -> float:
    """Return the ε that the releases of a series spend together on any one unit, at ``delta``.

    A user can be in all of them, so all compose. An event or a user's day is only in those that
    count its day, so the day with the largest sum decides.

    Parameters
    ----------
    entries
        The releases.
    unit
        Privacy unit of the series.
    delta
        δ of all together.
    days
        Only units of these local days, the first and the last; None: of any.

    Returns
    -------
    float
        Infinite if a release has no guarantee.
    """
    if any(entry.epsilon is None for entry in entries):
        return np.inf
    if unit == "user":
        return compose([(entry.epsilon or 0.0, entry.delta) for entry in entries], delta)
    first, last = days or (0, np.iinfo(np.int64).max)
    found = {
        tuple(
            sorted(
                (entry.epsilon or 0.0, entry.delta)
                for entry in entries
                if entry.first_day <= day <= entry.last_day
            )
        )
        for day in {entry.first_day for entry in entries} | {first}
        if first <= day <= last
    }
    return max((compose(losses, delta) for losses in found), default=0.0)
