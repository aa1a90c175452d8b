"""Prices on the labelled dimensions of the dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.audit.evaluation import Price, PriceKey
from clusterscale.contracts import Mechanism
from clusterscale.schema import RESULTS

__all__ = ["Coordinates", "empty", "lay_out_float_noise", "lay_out_promises", "lay_out_utility"]
__all__ += ["lay_out_verdicts"]

Coordinates = dict[str, tuple[str, NDArray[Any]]]
Prices = dict[PriceKey, Price]

# The variable of the dataset that each field of a promise becomes.
_PROMISES = {
    "guarantee_unit": "unit",
    "guarantee_epsilon": "epsilon",
    "guarantee_delta": "delta",
    "guarantee_neighbours": "neighbours",
    "guarantee_reason": "reason",
    "sensitivity": "sensitivity",
    "sensitivity_needed": "required_sensitivity",
    "user_epsilon": "user_epsilon",
    "user_delta": "user_delta",
    "composed_epsilon": "composed_epsilon",
    "composed_delta": "composed_delta",
    "auc_ceiling": "ceiling",
}

# The same of a judgement.
_VERDICTS = {"epsilon_seen": "epsilon_seen", "verdict_trials": "trials", "verdict": "verdict"}


def lay_out_promises(coords: Coordinates, prices: Prices) -> dict[str, NDArray[Any]]:
    """Return every variable on (period, mechanism); group sizes do not change a promise."""
    found = {name: empty(coords, name) for name in _PROMISES}
    for at, price in _placed(coords, prices):
        for place, key in enumerate(coords["mechanism"][1].tolist()):
            if key in price.promises:
                for name, attribute in _PROMISES.items():
                    found[name][at[0], place] = getattr(price.promises[key], attribute)
    return found


def lay_out_float_noise(
    coords: Coordinates, mechanisms: Sequence[Mechanism]
) -> dict[str, NDArray[Any]]:
    """Return whether each mechanism publishes unrounded noise, on (period, mechanism)."""
    words = ["yes" if each.publishes_float_noise else "no" for each in mechanisms]
    n_periods = len(coords["period"][1])
    return {"float_noise": np.array([words] * n_periods, dtype=object)}


def lay_out_verdicts(coords: Coordinates, prices: Prices) -> dict[str, NDArray[Any]]:
    """Return every variable on (period, group_size, mechanism)."""
    found = {name: empty(coords, name) for name in _VERDICTS}
    for at, price in _placed(coords, prices):
        for place, key in enumerate(coords["mechanism"][1].tolist()):
            if key in price.judgements:
                for name, attribute in _VERDICTS.items():
                    found[name][(*at, place)] = getattr(price.judgements[key], attribute)
    return found


def lay_out_utility(coords: Coordinates, prices: Prices) -> dict[str, NDArray[Any]]:
    """Return ``utility``, ``utility_sd``, ``released_share`` and ``random_guess``."""
    names = ("utility", "utility_sd", "released_share", "random_guess")
    utility, spread, share, guess = found = [empty(coords, name) for name in names]
    for at, price in _placed(coords, prices):
        for place, key in enumerate(coords["mechanism"][1].tolist()):
            if key in price.utility:
                utility[(*at, place)], spread[(*at, place)] = price.utility[key]
                share[(*at, place)] = price.released_share[key]
        if price.guess:
            guess[at] = price.guess
    return dict(zip(names, found, strict=True))


def empty(coords: Coordinates, name: str) -> NDArray[Any]:
    """Return a variable of which nothing is known: not a number, 0 of what is counted, no text."""
    variable = RESULTS[name]
    shape = tuple(len(coords[dim][1]) for dim in variable.dims)
    if variable.kinds == "f":
        return np.full(shape, np.nan)
    return np.zeros(shape, np.int32) if "i" in variable.kinds else np.full(shape, "", dtype=object)


def _placed(coords: Coordinates, prices: Prices) -> Iterator[tuple[tuple[int, int], Price]]:
    periods, sizes = (coords[name][1].tolist() for name in ("period_id", "group_size"))
    for (period, size), price in sorted(prices.items()):
        yield (periods.index(period), sizes.index(size)), price
