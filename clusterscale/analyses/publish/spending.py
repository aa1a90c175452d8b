"""What releases spend together: of one privacy unit, and of a person."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from clusterscale.contracts import Guarantee, Mechanism
from clusterscale.mechanisms import accounting
from clusterscale.release import LedgerEntry

TOLERANCE = 1e-9
"""Relative error of a sum of floating-point numbers."""


class Loss(NamedTuple):
    """What a release spends on a unit: ε and δ, and ρ if its noise is discrete normal, else 0."""

    epsilon: float
    delta: float
    rho: float = 0.0


def compose(losses: Iterable[tuple[float, ...]] | Counter[Loss], delta: float) -> float:
    """Return the smallest known ε at ``delta`` of several (ε, δ)-DP releases together.

    It is the smaller one of basic composition and of the composition of dominating privacy-loss
    distributions (Kairouz, Oh and Viswanath, ICML 2015; Sommer, Meiser and Mohammadi, PoPETs 2019),
    which holds also if a release is chosen after others are seen. Losses are rounded up. Releases
    with discrete normal noise compose by their ρ (Bun and Steinke, TCC 2016), if that is less.

    Parameters
    ----------
    losses
        ε and δ of each release, for the same unit, and ρ, as in a :class:`Loss`; or how many
        releases have each.
    delta
        δ of all together.

    Returns
    -------
    float
        Infinite if no ε is known at ``delta``; 0 without releases.
    """
    every = losses if isinstance(losses, Counter) else Counter(Loss(*each) for each in losses)
    pairs, rest = Counter[tuple[float, float]](), Counter[tuple[float, float]]()
    for one, n in every.items():
        pairs[one[:2]] += n
        rest[one[:2]] += 0 if one.rho else n
    found = _compose_pairs(pairs, delta)
    rho = sum(one.rho * n for one, n in every.items())
    share = delta - sum(each * n for (_, each), n in rest.items())  # that the others leave
    if not rho or share <= 0:
        return found
    share /= 1 + any(rest.values())
    rest[accounting.concentrated_epsilon(rho, share), share] += 1
    # no release alone spends less than it states
    return min(found, max(_compose_pairs(+rest, delta), *(one.epsilon for one in every)))


def _compose_pairs(pairs: Mapping[tuple[float, float], int], delta: float) -> float:
    """Return the smallest known ε at ``delta`` of so many (ε, δ)-DP releases of each pair."""
    if not pairs:
        return 0.0
    total = float(sum(epsilon * n for (epsilon, _), n in pairs.items()))
    total_delta = sum(each * n for (_, each), n in pairs.items())
    basic = total if total_delta <= delta else np.inf
    if delta == 0.0 or total > accounting.LARGEST_ACCOUNTED or sum(pairs.values()) == 1:
        return basic
    step = accounting.loss_step(total)
    composed = reduce(
        lambda one, other: one.compose(other),
        (
            accounting.ApproximateLoss(n, epsilon, each).distribution(step).self_compose(n)
            for (epsilon, each), n in pairs.items()
        ),
    )
    with np.errstate(over="ignore"):  # the loss of a tail of negligible mass is infinite
        return min(basic, float(composed.get_epsilon_for_delta(delta)))


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
        return compose(map(_loss_of, entries), delta)
    first, last = days or (0, np.iinfo(np.int64).max)
    found = {
        tuple(sorted(_loss_of(one) for one in entries if one.first_day <= day <= one.last_day))
        for day in {entry.first_day for entry in entries} | {first}
        if first <= day <= last
    }
    return max((compose(losses, delta) for losses in found), default=0.0)


def _loss_of(entry: LedgerEntry) -> Loss:
    return Loss(entry.epsilon or 0.0, entry.delta, entry.rho or 0.0)


def guarantee_of(entry: LedgerEntry) -> Guarantee:
    """Return the guarantee of a release with its entry; ε is infinite without one."""
    epsilon = np.inf if entry.epsilon is None else entry.epsilon
    return Guarantee(entry.unit, epsilon, entry.delta, "add_remove", "its entry states it")


def spent_on_person(
    releases: Iterable[tuple[LedgerEntry, Mechanism]], delta: float
) -> tuple[float, float]:
    """Return ε and δ of releases together, for a person who is in all of them as often as possible.

    Parameters
    ----------
    releases
        The entry of each release, and its mechanism: trace steps may limit events, and noise may
        be independent on each day.
    delta
        Least δ of all together.

    Returns
    -------
    tuple[float, float]
        ε is infinite if a release has no guarantee, or does not limit what a person changes.
    """
    losses = Counter[Loss]()
    for entry, mechanism in releases:
        n_days = entry.last_day - entry.first_day + 1
        epsilon, own, n_parts = accounting.divide_person(guarantee_of(entry), n_days, mechanism)
        losses[Loss(epsilon, own, entry.rho or 0.0)] += n_parts
    delta = max(delta, sum(one.delta * n for one, n in losses.items()) * (1 + TOLERANCE))
    return (compose(losses, delta), delta) if delta < 1 else (np.inf, 1.0)
