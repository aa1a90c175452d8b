"""The defence that buys most, told in one sentence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterscale.report.defences import CaseIndex, Defences, Measure
from clusterscale.report.summary import Floats, mean
from clusterscale.utility import NEARLY_EMPTY

__all__ = ["Bargain", "bargain", "least_gains", "price_of"]


@dataclass(frozen=True, slots=True)
class Bargain:
    """A mechanism with what it buys and costs where bare counts expose most.

    ``period`` is empty where there is only one. ``gain`` is the mean privacy gain, the least over
    ``n_priors`` priors. ``equals`` are others with that gain, to two digits; ``same_price`` tells
    whether they cost no more, to three digits. The price is told by the measure in which it comes
    closest to a random guess, for others flatter: ``value`` and ``guess`` are not numbers where
    nothing was measured.
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


def bargain(found: Defences) -> Bargain | None:
    """Return the mechanism with the highest gain, the cheapest of equals; None without gains.

    All are compared at one place, on the same targets: a mean over places would favour those that
    were only tried where it is easy. Every prior counts, for the defender cannot choose. One whose
    release is nearly empty, or not known not to be, is never chosen.
    """
    if not found.gains_known:
        return None
    place, gains = _compare(found)
    share = found.released_share[place.period, place.size]
    gains = {i: gain for i, gain in gains.items() if share[i] >= NEARLY_EMPTY}
    if not gains:
        return None
    share = _shares(found, place)
    price = np.max(np.nan_to_num(share, nan=-1.0), axis=1, initial=-1.0)
    price[price < 0] = np.inf  # one that is not known is no low one
    # of those that look the same on the page, the cheapest
    best = min(gains, key=lambda i: (-round(gains[i], 2), float(price[i])))
    equals = [i for i in gains if i != best and round(gains[i], 2) == round(gains[best], 2)]
    worst = int(np.nanargmax(share[best])) if np.isfinite(price[best]) else None
    at = (place.period, place.size)
    return Bargain(
        mechanism=found.mechanisms[best],
        group_size=found.table.group_sizes[place.size],
        period=found.periods[place.period] if len(found.periods) > 1 else "",
        gain=gains[best],
        n_priors=len(_priors(found, place)),
        measure=None if worst is None else found.measures[worst],
        value=np.nan if worst is None else float(found.utility[at][best, worst]),
        guess=np.nan if worst is None else float(found.guess[at][worst]),
        equals=tuple(found.mechanisms[i] for i in equals),
        same_price=bool(np.allclose(price[equals], price[best], rtol=0, atol=5e-4)),
    )


def least_gains(found: Defences) -> dict[str, float]:
    """Return the mean privacy gain of each mechanism where bare counts expose most.

    The least over priors; empty where no gain is known.
    """
    if not found.gains_known:
        return {}
    _, gains = _compare(found)
    return {found.mechanisms[mechanism]: gain for mechanism, gain in gains.items()}


def price_of(found: Defences, mechanism: str) -> tuple[float, Measure | None]:
    """Return the largest utility loss of a mechanism, over places and measures, and the measure.

    As a share of what values drawn without any data lose; NaN and None where nothing was measured.
    """
    index = found.mechanisms.index(mechanism)
    shares = np.array([_shares(found, place)[index] for place in found.places()])
    if not np.isfinite(shares).any():
        return float("nan"), None
    _, worst = np.unravel_index(np.nanargmax(shares), shares.shape)
    return float(np.nanmax(shares)), found.measures[worst]


def _compare(found: Defences) -> tuple[CaseIndex, dict[int, float]]:
    """Return the place where bare counts expose most, and the gains of mechanisms there."""
    exposure = [(_exposure(found, place), place) for place in found.places()]
    known = [pair for pair in exposure if np.isfinite(pair[0])]
    _, place = max(known, key=lambda pair: pair[0])
    gains = {
        mechanism: gain
        for mechanism, name in enumerate(found.mechanisms)
        if name != found.raw_counts and np.isfinite(gain := _least_gain(found, place, mechanism))
    }
    return place, gains


def _priors(found: Defences, place: CaseIndex) -> list[int]:
    return [i for i in range(len(found.priors)) if found.strongest(place, i)]


def _shares(found: Defences, place: CaseIndex) -> Floats:
    """Return utility losses as shares of a guess's, shape (mechanism, measure)."""
    at = (place.period, place.size)
    lost, guessed = found.loss[at], found.guess_loss[at]
    # What is not kept of the events is lost, however far a guess is off, which adds many.
    is_total = np.array([measure.is_total for measure in found.measures], np.bool_)
    guessed = np.where(is_total & (found.utility[at] < 1), np.minimum(guessed, 1), guessed)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = lost / guessed
    return np.where(np.isfinite(share), share, np.nan)


def _exposure(found: Defences, place: CaseIndex) -> float:
    """Return the highest mean AUC of any attack and prior on bare counts."""
    assert found.raw_counts is not None
    bare = found.mechanisms.index(found.raw_counts)
    left = [found.left(place, prior, bare) for prior in _priors(found, place)]
    return max(left, default=float("nan"))


def _least_gain(found: Defences, place: CaseIndex, mechanism: int) -> float:
    """Return the least mean gain over priors; not a number unless it is known for each."""
    means = [mean(found.gains(place, prior, mechanism)) for prior in _priors(found, place)]
    return float(np.min(means))
