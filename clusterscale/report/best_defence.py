"""The defence with the highest privacy gain, and its utility loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterscale.report.defences import CaseIndex, Defences, Measure
from clusterscale.report.summary import Floats, mean
from clusterscale.utility import NEARLY_EMPTY

__all__ = ["Bargain", "bargain", "least_gains", "price_of"]


@dataclass(frozen=True, slots=True)
class Bargain:
    """A mechanism with its privacy gain and utility loss where raw counts expose most.

    ``period`` is empty if there is only one. ``gain`` is the mean privacy gain, the lowest over
    ``n_priors`` priors. ``equals`` are other mechanisms with the same gain to two digits;
    ``same_price`` is whether their utility loss is the same to three digits. ``measure`` is the
    least favourable measure, in which the mechanism is closest to a random guess; its ``value`` and
    that of a ``guess`` are NaN if utility was not measured.
    """

    mechanism: str
    group_size: int
    period: str
    gain: float
    n_priors: int
    measure: Measure | None
    value: float
    guess: float
    equals: tuple[str, ...] = ()
    same_price: bool = False


def bargain(by_mechanism: Defences) -> Bargain | None:
    """Return the mechanism with the highest gain, among equals the cheapest; None without gains.

    All mechanisms are compared for one period and group size, on the same targets: a mean over
    several would favour mechanisms that were only run on easy ones. The gain is the lowest over
    priors, as the defender cannot choose the adversary's. A mechanism whose release is nearly empty
    is never chosen, nor one for which that is unknown.
    """
    if not by_mechanism.gains_known:
        return None
    place, gains = _compare(by_mechanism)
    share = by_mechanism.released_share[place.period, place.size]
    gains = {i: gain for i, gain in gains.items() if share[i] >= NEARLY_EMPTY}
    if not gains:
        return None
    share = _shares(by_mechanism, place)
    price = np.max(np.nan_to_num(share, nan=-1.0), axis=1, initial=-1.0)
    price[price < 0] = np.inf  # an unknown price is not a low one
    # among gains that are equal as displayed, choose the cheapest
    best = min(gains, key=lambda i: (-round(gains[i], 2), float(price[i])))
    equals = [i for i in gains if i != best and round(gains[i], 2) == round(gains[best], 2)]
    worst = int(np.nanargmax(share[best])) if np.isfinite(price[best]) else None
    at = (place.period, place.size)
    return Bargain(
        mechanism=by_mechanism.mechanisms[best],
        group_size=by_mechanism.table.group_sizes[place.size],
        period=by_mechanism.periods[place.period] if len(by_mechanism.periods) > 1 else "",
        gain=gains[best],
        n_priors=len(_priors(by_mechanism, place)),
        measure=None if worst is None else by_mechanism.measures[worst],
        value=np.nan if worst is None else float(by_mechanism.utility[at][best, worst]),
        guess=np.nan if worst is None else float(by_mechanism.guess[at][worst]),
        equals=tuple(by_mechanism.mechanisms[i] for i in equals),
        same_price=bool(np.allclose(price[equals], price[best], rtol=0, atol=5e-4)),
    )


def least_gains(by_mechanism: Defences) -> dict[str, float]:
    """Return the mean privacy gain of each mechanism where raw counts expose most.

    The gain is the lowest over priors. The result is empty if no gain is known.
    """
    if not by_mechanism.gains_known:
        return {}
    _, gains = _compare(by_mechanism)
    return {by_mechanism.mechanisms[mechanism]: gain for mechanism, gain in gains.items()}


def price_of(by_mechanism: Defences, mechanism: str) -> tuple[float, Measure | None]:
    """Return the largest utility loss of a mechanism over all cases and measures, and the measure.

    The loss is relative to that of a random guess; NaN and None if utility was not measured.
    """
    index = by_mechanism.mechanisms.index(mechanism)
    shares = np.array([_shares(by_mechanism, place)[index] for place in by_mechanism.places()])
    if not np.isfinite(shares).any():
        return float("nan"), None
    _, worst = np.unravel_index(np.nanargmax(shares), shares.shape)
    return float(np.nanmax(shares)), by_mechanism.measures[worst]


def _compare(by_mechanism: Defences) -> tuple[CaseIndex, dict[int, float]]:
    """Return the case where raw counts expose most, and the gains of mechanisms there."""
    exposure = [(_exposure(by_mechanism, place), place) for place in by_mechanism.places()]
    known = [pair for pair in exposure if np.isfinite(pair[0])]
    _, place = max(known, key=lambda pair: pair[0])
    gains = {
        mechanism: gain
        for mechanism, name in enumerate(by_mechanism.mechanisms)
        if name != by_mechanism.raw_counts
        and np.isfinite(gain := _least_gain(by_mechanism, place, mechanism))
    }
    return place, gains


def _priors(by_mechanism: Defences, place: CaseIndex) -> list[int]:
    return [i for i in range(len(by_mechanism.priors)) if by_mechanism.strongest(place, i)]


def _shares(by_mechanism: Defences, place: CaseIndex) -> Floats:
    """Return utility losses relative to those of a random guess, shape (mechanism, measure)."""
    at = (place.period, place.size)
    lost, guessed = by_mechanism.loss[at], by_mechanism.guess_loss[at]
    # Events not kept are lost, even if a random guess, which adds many, is further off.
    is_total = np.array([measure.is_total for measure in by_mechanism.measures], np.bool_)
    guessed = np.where(is_total & (by_mechanism.utility[at] < 1), np.minimum(guessed, 1), guessed)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = lost / guessed
    return np.where(np.isfinite(share), share, np.nan)


def _exposure(by_mechanism: Defences, place: CaseIndex) -> float:
    """Return the highest mean AUC of any attack and prior on raw counts."""
    assert by_mechanism.raw_counts is not None
    raw = by_mechanism.mechanisms.index(by_mechanism.raw_counts)
    aucs = [by_mechanism.left(place, prior, raw) for prior in _priors(by_mechanism, place)]
    return max(aucs, default=float("nan"))


def _least_gain(by_mechanism: Defences, place: CaseIndex, mechanism: int) -> float:
    """Return the lowest mean gain over priors, NaN unless it is known for each."""
    means = [
        mean(by_mechanism.gains(place, prior, mechanism)) for prior in _priors(by_mechanism, place)
    ]
    return float(np.min(means))
