"""What several releases spend together of a privacy budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from clusterscale.mechanisms.accounting import LARGEST_ACCOUNTED, ApproximateLoss, loss_step
from clusterscale.release import LedgerEntry


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
    if delta == 0.0 or total > LARGEST_ACCOUNTED or sum(pairs.values()) == 1:
        return basic
    return min(basic, _accounted(pairs, total, delta))


def _accounted(pairs: Counter[tuple[float, float]], total: float, delta: float) -> float:
    step, composed = loss_step(total), None
    for (epsilon, each), n in pairs.items():
        several = ApproximateLoss(n, epsilon, each).distribution(step).self_compose(n)
        composed = several if composed is None else composed.compose(several)
    assert composed is not None
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
