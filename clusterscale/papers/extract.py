"""Where a number is found in the results of a study, and how sure it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.errors import ConfigError
from clusterscale.papers.published import ALL, BEST, PEOPLE, ResultSelection
from clusterscale.schema import with_labels
from clusterscale.validation_messages import choices

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["NotComputed", "Number", "Results"]

_Z = 1.959963984540054
"""Standard errors on either side of a 95 % interval, where their number is known."""

Select = Callable[..., "xr.DataArray"]

_SPREADS = {"utility": "utility_sd", "top_mean": "top_sd", "bottom_mean": "bottom_sd"}
_OF_SPREADS = ("top_sd", "bottom_sd")


class NotComputed(Exception):
    """A label is not among those of a dimension, as in a quick run."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number of ours.

    ``spread`` is the standard deviation of what was reduced, over so many ``n``, and ``error`` the
    standard error of the number: not a number where there is only one.
    """

    value: float
    spread: float
    error: float
    n: int

    @property
    def known_error(self) -> float:
        """The standard error, 0 where nothing tells it."""
        return self.error if np.isfinite(self.error) else 0.0

    @property
    def quantile(self) -> float:
        """Standard errors on either side of a 95 % interval: Student's, of n − 1."""
        return float(scipy.special.stdtrit(self.n - 1, 0.975)) if self.n > 1 else _Z

    def error_of(self, n: int) -> float:
        """Return the standard error of the same number over ``n`` instead."""
        return self.error * float(np.sqrt(self.n / n)) if self.n else np.nan


class Results:
    """The results of a study, by what they are of: audit, screen, recovery, traits.

    Parameters
    ----------
    datasets
        Those that were made.
    best
        Labels of the attacks among which ``attack: best`` takes the strongest; all where empty.
    """

    def __init__(self, datasets: Mapping[str, xr.Dataset], best: Sequence[str] = ()) -> None:
        self._datasets = {name: with_labels(each) for name, each in datasets.items()}
        self._best = list(best)

    def find(self, place: ResultSelection) -> Number:
        """Return the number at a place.

        Raises
        ------
        Absence
            If a label is not there, or there is nothing to divide by.
        ConfigError
            If nothing has such a variable, or the place does not say where along a dimension.
        """
        if place.over:
            return _divide(*(self.find(end) for end in place.ends()))
        dataset = self._dataset(place.of)
        told = self._select(dataset, place)
        who = [dim for dim in told.dims if dim in PEOPLE]
        values = np.asarray(told.values, np.float64).ravel()
        if not who:
            return _priced(dataset, place, values[0], self._select)
        values = values[np.isfinite(values)]
        if not len(values):
            raise NotComputed(f"{place.of}: nothing was finished there")
        return _reduce(values, place)

    def _dataset(self, name: str) -> xr.Dataset:
        for each in self._datasets.values():
            if name in each.data_vars:
                return each
        known = sorted({str(name) for each in self._datasets.values() for name in each.data_vars})
        raise ConfigError(f"of: {name!r} is in none of the results: {choices(name, known)}")

    def _select(
        self, dataset: xr.Dataset, place: ResultSelection, name: str | None = None
    ) -> xr.DataArray:
        told = dataset[name or place.of]
        for dim, wanted in place.at.items():
            if dim not in told.dims:
                known = choices(dim, list(map(str, told.dims)))
                raise ConfigError(f"at.{dim}: {place.of} has no such dimension: {known}")
            told = self._along(told, dim, wanted, place.take)
        for dim in map(str, told.dims):
            if dim not in PEOPLE and told.sizes[dim] > 1:
                labels = ", ".join(map(str, told[dim].values))
                raise ConfigError(f"at: say where {place.of} is along {dim}: {labels}")
        return told.squeeze([dim for dim in told.dims if dim not in PEOPLE])

    def _along(self, told: xr.DataArray, dim: str, wanted: object, take: str) -> xr.DataArray:
        labels = told[dim].values.tolist()
        if dim == "attack" and wanted == BEST:
            wanted = tuple(self._best) or tuple(labels)
        if wanted == ALL and ALL not in labels:
            wanted = tuple(labels)
        several = wanted if isinstance(wanted, tuple | list) else (wanted,)
        if absent := [label for label in several if label not in labels]:
            raise NotComputed(f"{dim} has no {', '.join(map(repr, absent))}: {labels}")
        found = told.isel({dim: [labels.index(label) for label in several]})
        return found.mean(dim) if take == "mean" else found.max(dim)


def _divide(number: Number, by: Number) -> Number:
    """Return how many times another number is in one, as if their errors had nothing in common."""
    if not by.value:
        raise NotComputed("there is nothing to divide by")
    ratio = number.value / by.value
    error = float(np.hypot(number.error, ratio * by.error)) / abs(by.value)
    return Number(ratio, np.nan, error, min(number.n, by.n))


def _priced(dataset: xr.Dataset, place: ResultSelection, value: float, select: Select) -> Number:
    """Return a number that has no people left to reduce.

    How utility spreads over groups, and a characteristic over the most or least exposed, is told.
    """
    value = float(value)
    if np.isnan(value):  # as of the exposed, where too few were attacked
        raise NotComputed(f"{place.of}: nothing was measured there")
    if place.of in _OF_SPREADS:
        n = _n_compared(dataset, place, select)
        return Number(value, value, _error_of_spread(value, n), n)
    if place.of == "separation":
        n = _n_compared(dataset, place, select)
        return Number(value, np.nan, _error_of_separation(value, n), n)
    if place.of not in _SPREADS:
        return Number(value, np.nan, np.nan, 0)
    spread = float(select(dataset, place, _SPREADS[place.of]).values)
    if place.of == "utility":
        n = int(json.loads(dataset.attrs["plan"])["utility"]["groups"])
    else:
        n = _n_compared(dataset, place, select)
    return Number(value, spread, spread / np.sqrt(n), n)


def _n_compared(dataset: xr.Dataset, place: ResultSelection, select: Select) -> int:
    at = {dim: label for dim, label in place.at.items() if dim == "comparison"}
    return int(select(dataset, ResultSelection(of="n_compared", at=at)).values)


def _error_of_separation(area: float, n: int) -> float:
    """Return the standard error of the area under a ROC curve of ``n`` on either side.

    Hanley and McNeil's (Radiology 143:29-36, 1982); where the sides do not differ it is exact.
    """
    first, second = area / (2 - area), 2 * area**2 / (1 + area)
    others = (n - 1) * (first + second - 2 * area**2)
    return float(np.sqrt(max(area * (1 - area) + others, 0.0))) / n


def _error_of_spread(spread: float, n: int) -> float:
    return spread / float(np.sqrt(2 * max(n - 1, 1)))


def _reduce(values: NDArray[np.float64], place: ResultSelection) -> Number:
    n = len(values)
    spread = float(values.std(ddof=1)) if n > 1 else np.nan
    root = float(np.sqrt(n))
    if place.reduce == "mean":
        return Number(float(values.mean()), spread, spread / root, n)
    if place.reduce == "median":  # of a normal distribution, a median has π/2 times the variance
        return Number(
            float(np.median(values)), spread, float(np.sqrt(np.pi / 2)) * spread / root, n
        )
    if place.reduce == "sd":
        return Number(spread, spread, _error_of_spread(spread, n), n)
    assert place.limit is not None
    above = values > place.limit if place.reduce == "share_above" else values < place.limit
    share = float(above.mean())
    spread = float(np.sqrt(share * (1 - share)))
    return Number(share, spread, float(np.sqrt((share * (1 - share) + 0.25 / n) / n)), n)
