"""Extract numbers and their standard errors from the results of a study."""

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


_Z = 1.959963984540054
"""Normal quantile: half-width of a 95 % interval in standard errors."""

Select = Callable[..., "xr.DataArray"]

_SPREADS = {"utility": "utility_sd", "top_mean": "top_sd", "bottom_mean": "bottom_sd"}
_OF_SPREADS = ("top_sd", "bottom_sd")


class NotComputed(Exception):
    """The selected results were not computed, for example in a quick run."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number from our results.

    Attributes
    ----------
    value
        The number.
    spread, error
        Standard deviation of the reduced values, and standard error of the number; NaN for n = 1.
    n
        How many values were reduced.
    """

    value: float
    spread: float
    error: float
    n: int

    @property
    def known_error(self) -> float:
        """The standard error, 0 if unknown."""
        return self.error if np.isfinite(self.error) else 0.0

    @property
    def quantile(self) -> float:
        """Half-width of a 95 % interval in standard errors: Student's t with n − 1 degrees."""
        return float(scipy.special.stdtrit(self.n - 1, 0.975)) if self.n > 1 else _Z

    def error_of(self, n: int) -> float:
        """Return the standard error of the same number for sample size ``n``."""
        return self.error * float(np.sqrt(self.n / n)) if self.n else np.nan


class Results:
    """Results of a study by kind: audit, recovery, traits.

    Parameters
    ----------
    datasets
        Datasets that were computed.
    best
        Labels of the attacks among which ``attack: best`` selects the strongest; all if empty.
    """

    def __init__(self, datasets: Mapping[str, xr.Dataset], best: Sequence[str] = ()) -> None:
        self._datasets = {kind: with_labels(dataset) for kind, dataset in datasets.items()}
        self._best = list(best)

    def find(self, selection: ResultSelection) -> Number:
        """Return the selected number.

        Raises
        ------
        NotComputed
            If a label was not computed, no value is finite, or the divisor is 0.
        ConfigError
            If no dataset has the variable, or the selection lacks a label for a dimension.
        """
        if selection.over:
            return _divide(*(self.find(end) for end in selection.ends()))
        dataset = self._dataset(selection.of)
        selected = self._select(dataset, selection)
        who = [dim for dim in selected.dims if dim in PEOPLE]
        values = np.asarray(selected.values, np.float64).ravel()
        if not who:
            return _without_people(dataset, selection, values[0], self._select)
        values = values[np.isfinite(values)]
        if not len(values):
            raise NotComputed(f"{selection.of}: no value was computed")
        return _reduce(values, selection)

    def _dataset(self, name: str) -> xr.Dataset:
        datasets = self._datasets.values()
        for dataset in datasets:
            if name in dataset.data_vars:
                return dataset
        known = sorted({str(name) for dataset in datasets for name in dataset.data_vars})
        raise ConfigError(f"of: the results have no variable {name!r}: {choices(name, known)}")

    def _select(
        self, dataset: xr.Dataset, selection: ResultSelection, name: str | None = None
    ) -> xr.DataArray:
        selected = dataset[name or selection.of]
        for dim, wanted in selection.at.items():
            if dim not in selected.dims:
                known = choices(dim, list(map(str, selected.dims)))
                raise ConfigError(f"at.{dim}: {selection.of} has no such dimension: {known}")
            selected = self._along(selected, dim, wanted, selection.take)
        for dim in map(str, selected.dims):
            if dim not in PEOPLE and selected.sizes[dim] > 1:
                labels = ", ".join(map(str, selected[dim].values))
                raise ConfigError(f"at: {selection.of} needs a label for {dim}, one of: {labels}")
        return selected.squeeze([dim for dim in selected.dims if dim not in PEOPLE])

    def _along(self, array: xr.DataArray, dim: str, wanted: object, take: str) -> xr.DataArray:
        labels = array[dim].values.tolist()
        if dim == "attack" and wanted == BEST:
            wanted = tuple(self._best) or tuple(labels)
        if wanted == ALL and ALL not in labels:
            wanted = tuple(labels)
        selection = wanted if isinstance(wanted, tuple | list) else (wanted,)
        if absent := [label for label in selection if label not in labels]:
            raise NotComputed(f"{dim} has no {', '.join(map(repr, absent))}: {labels}")
        selected = array.isel({dim: [labels.index(label) for label in selection]})
        return selected.mean(dim) if take == "mean" else selected.max(dim)


def _divide(number: Number, by: Number) -> Number:
    """Return the ratio of two numbers, with its error as if theirs were independent."""
    if not by.value:
        raise NotComputed("the divisor is 0")
    ratio = number.value / by.value
    error = float(np.hypot(number.error, ratio * by.error)) / abs(by.value)
    return Number(ratio, np.nan, error, min(number.n, by.n))


def _without_people(
    dataset: xr.Dataset, selection: ResultSelection, value: float, select: Select
) -> Number:
    """Return a number from a variable without a dimension of people.

    Its standard error follows from the stored spread over groups (utility) or over the most or
    least exposed people (traits), if there is one.
    """
    value = float(value)
    if np.isnan(value):  # such as traits of exposed people, if too few were attacked
        raise NotComputed(f"{selection.of}: no value was computed")
    if selection.of in _OF_SPREADS:
        n = _n_compared(dataset, selection, select)
        return Number(value, value, _error_of_spread(value, n), n)
    if selection.of == "separation":
        n = _n_compared(dataset, selection, select)
        return Number(value, np.nan, _error_of_separation(value, n), n)
    if selection.of not in _SPREADS:
        return Number(value, np.nan, np.nan, 0)
    spread = float(select(dataset, selection, _SPREADS[selection.of]).values)
    if selection.of == "utility":
        n = int(json.loads(dataset.attrs["plan"])["utility"]["groups"])
    else:
        n = _n_compared(dataset, selection, select)
    return Number(value, spread, spread / np.sqrt(n), n)


def _n_compared(dataset: xr.Dataset, selection: ResultSelection, select: Select) -> int:
    at = {dim: label for dim, label in selection.at.items() if dim == "comparison"}
    return int(select(dataset, ResultSelection(of="n_compared", at=at)).values)


def _error_of_separation(area: float, n: int) -> float:
    """Return the standard error of the area under a ROC curve with ``n`` values on each side.

    The formula is that of Hanley and McNeil (Radiology 143:29-36, 1982); it is exact if the two
    sides have the same distribution.
    """
    first, second = area / (2 - area), 2 * area**2 / (1 + area)
    others = (n - 1) * (first + second - 2 * area**2)
    return float(np.sqrt(max(area * (1 - area) + others, 0.0))) / n


def _error_of_spread(spread: float, n: int) -> float:
    return spread / float(np.sqrt(2 * max(n - 1, 1)))


def _reduce(values: NDArray[np.float64], selection: ResultSelection) -> Number:
    n = len(values)
    spread = float(values.std(ddof=1)) if n > 1 else np.nan
    root = float(np.sqrt(n))
    if selection.reduce == "mean":
        return Number(float(values.mean()), spread, spread / root, n)
    if (
        selection.reduce == "median"
    ):  # for a normal distribution, its variance is π/2 times that of the mean
        return Number(
            float(np.median(values)), spread, float(np.sqrt(np.pi / 2)) * spread / root, n
        )
    if selection.reduce == "sd":
        return Number(spread, spread, _error_of_spread(spread, n), n)
    assert selection.limit is not None
    above = (
        values > selection.limit if selection.reduce == "share_above" else values < selection.limit
    )
    share = float(above.mean())
    spread = float(np.sqrt(share * (1 - share)))
    return Number(share, spread, float(np.sqrt((share * (1 - share) + 0.25 / n) / n)), n)
