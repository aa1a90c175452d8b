"""Evaluations of mechanisms on the labelled dimensions of the dataset."""

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

# Variable of the dataset: field of a guarantee statement.
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

# Variable of the dataset: field of a test result.
_VERDICTS = {"epsilon_seen": "epsilon_seen", "verdict_trials": "trials", "verdict": "verdict"}


def lay_out_promises(coords: Coordinates, prices: Prices) -> dict[str, NDArray[Any]]:
    """Return the variables on (period, mechanism); guarantees do not depend on the group size."""
    variables = {name: empty(coords, name) for name in _PROMISES}
    for at, price in _placed(coords, prices):
        for i, key in enumerate(coords["mechanism"][1].tolist()):
            if key in price.promises:
                for name, attribute in _PROMISES.items():
                    variables[name][at[0], i] = getattr(price.promises[key], attribute)
    return variables


def lay_out_float_noise(
    coords: Coordinates, mechanisms: Sequence[Mechanism]
) -> dict[str, NDArray[Any]]:
    """Return whether each mechanism publishes unrounded noise, on (period, mechanism)."""
    words = ["yes" if one.publishes_float_noise else "no" for one in mechanisms]
    n_periods = len(coords["period"][1])
    return {"float_noise": np.array([words] * n_periods, dtype=object)}


def lay_out_verdicts(coords: Coordinates, prices: Prices) -> dict[str, NDArray[Any]]:
    """Return the variables on (period, group_size, mechanism)."""
    variables = {name: empty(coords, name) for name in _VERDICTS}
    for at, price in _placed(coords, prices):
        for i, key in enumerate(coords["mechanism"][1].tolist()):
            if key in price.judgements:
                for name, attribute in _VERDICTS.items():
                    variables[name][(*at, i)] = getattr(price.judgements[key], attribute)
    return variables


def lay_out_utility(coords: Coordinates, prices: Prices) -> dict[str, NDArray[Any]]:
    """Return ``utility``, ``utility_sd``, ``released_share`` and ``random_guess``."""
    names = ("utility", "utility_sd", "released_share", "random_guess")
    utility, spread, share, guess = variables = [empty(coords, name) for name in names]
    for at, price in _placed(coords, prices):
        for i, key in enumerate(coords["mechanism"][1].tolist()):
            if key in price.utility:
                utility[(*at, i)], spread[(*at, i)] = price.utility[key]
                share[(*at, i)] = price.released_share[key]
        if price.guess:
            guess[at] = price.guess
    return dict(zip(names, variables, strict=True))


def empty(coords: Coordinates, name: str) -> NDArray[Any]:
    """Return a variable without values: NaN, 0 for counts, empty text."""
    variable = RESULTS[name]
    shape = tuple(len(coords[dim][1]) for dim in variable.dims)
    if variable.kinds == "f":
        return np.full(shape, np.nan)
    return np.zeros(shape, np.int32) if "i" in variable.kinds else np.full(shape, "", dtype=object)


def _placed(coords: Coordinates, prices: Prices) -> Iterator[tuple[tuple[int, int], Price]]:
    periods, sizes = (coords[name][1].tolist() for name in ("period_id", "group_size"))
    for (period, size), price in sorted(prices.items()):
        yield (periods.index(period), sizes.index(size)), price
