"""Comparison of our results with a paper's numbers and claims, within statistical errors."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from math import hypot, inf, isfinite, nan, pi, sqrt

import numpy as np
import scipy
import xarray as xr
from numpy.typing import NDArray

from clusterscale.errors import ConfigError
from clusterscale.papers import study as papers
from clusterscale.reporting import papers as report
from clusterscale.schema import with_labels
from clusterscale.validation_messages import choices

_Z = 1.959963984540054
"""Normal quantile: half-width of a 95 % interval in standard errors."""


_SPREADS = {"utility": "utility_sd", "top_mean": "top_sd", "bottom_mean": "bottom_sd"}


class NotComputed(Exception):
    """The selected results were not computed, for example in a quick run."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number from our results, as a reduction of ``n`` values.

    ``spread`` is the standard deviation of these values, ``error`` the standard error of the
    number; both are NaN for n = 1.
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
    """Datasets of a study by kind: audit, recovery, traits, marginals.

    ``best`` are labels of the attacks among which ``attack: best`` selects the strongest; all if
    empty.
    """

    def __init__(self, datasets: Mapping[str, xr.Dataset], best: Sequence[str] = ()) -> None:
        self._datasets = {kind: with_labels(dataset) for kind, dataset in datasets.items()}
        self._best = list(best)

    def find(self, selection: papers.ResultSelection) -> Number:
        """Return the selected number.

        Raises NotComputed if a label was not computed, no value is finite, or the divisor is 0; and
        ConfigError if no dataset has the variable, or a dimension has no label.
        """
        if selection.over:
            return _divide(*(self.find(end) for end in selection.ends()))
        dataset = self.dataset(selection.of)
        selected = self._select(dataset, selection)
        if not {*selected.dims} & {*papers.PEOPLE}:
            value = float(np.asarray(selected.values, np.float64).ravel()[0])
            return self._without_people(dataset, selection, value)
        return _reduce(self.values(selection), selection)

    def _without_people(
        self, dataset: xr.Dataset, selection: papers.ResultSelection, value: float
    ) -> Number:
        """Return a number from a variable without a dimension of people.

        Its standard error follows from the stored spread over groups (utility) or over the most or
        least exposed people (traits), if there is one.
        """
        if np.isnan(value):  # such as traits of exposed people, if too few were attacked
            raise NotComputed(f"{selection.of}: no value was computed")
        if selection.of == "utility":
            n = int(json.loads(dataset.attrs["plan"])["utility"]["groups"])
        elif selection.of in {*_SPREADS, "top_sd", "bottom_sd", "separation"}:
            at = {dim: label for dim, label in selection.at.items() if dim == "comparison"}
            n = int(self._select(dataset, papers.ResultSelection(of="n_compared", at=at)).values)
        else:
            return Number(value, np.nan, np.nan, 0)
        if selection.of == "separation":
            return Number(value, np.nan, _error_of_separation(value, n), n)
        if selection.of in _SPREADS:
            spread = float(self._select(dataset, selection, _SPREADS[selection.of]).values)
            return Number(value, spread, spread / np.sqrt(n), n)
        return Number(value, value, _error_of_spread(value, n), n)

    def values(self, selection: papers.ResultSelection, along: str = "") -> NDArray[np.float64]:
        """Return people's values, or those along a dimension, float64, shape (value,); none is NaN.

        Raises as :meth:`find`.
        """
        at = {dim: label for dim, label in selection.at.items() if dim != along}
        chosen = selection.where(at)
        selected = self._select(self.dataset(chosen.of), chosen, kept=(*papers.PEOPLE, along))
        values = np.asarray(selected.values, np.float64).ravel()
        if not np.isfinite(values).any():
            raise NotComputed(f"{selection.of}: no value was computed")
        return values[np.isfinite(values)]

    def dataset(self, name: str) -> xr.Dataset:
        """Return the dataset that has a variable; raises ConfigError if none has it."""
        datasets = self._datasets.values()
        for dataset in datasets:
            if name in dataset.data_vars:
                return dataset
        for dataset in datasets:
            if name in dataset.coords and name not in dataset.dims:  # such as a target's events
                return dataset
        known = sorted({str(name) for dataset in datasets for name in dataset.data_vars})
        raise ConfigError(f"of: the results have no variable {name!r}: {choices(name, known)}")

    def _select(
        self,
        dataset: xr.Dataset,
        selection: papers.ResultSelection,
        name: str | None = None,
        kept: Sequence[str] = papers.PEOPLE,
    ) -> xr.DataArray:
        selected = dataset[name or selection.of]
        for dim, wanted in selection.at.items():
            if dim not in selected.dims:
                known = choices(dim, list(map(str, selected.dims)))
                raise ConfigError(f"at.{dim}: {selection.of} has no such dimension: {known}")
            selected = self._along(selected, dim, wanted, selection.take)
        if "attack" in selected.dims and "attack" not in kept:
            selected = selected.isel(attack=0)
        for dim in map(str, selected.dims):
            if dim not in kept and selected.sizes[dim] > 1:
                labels = ", ".join(map(str, selected[dim].values))
                raise ConfigError(f"at: {selection.of} needs a label for {dim}, one of: {labels}")
        return selected.squeeze([dim for dim in selected.dims if dim not in kept])

    def _along(self, array: xr.DataArray, dim: str, wanted: object, take: str) -> xr.DataArray:
        labels = array[dim].values.tolist()
        if dim == "attack" and wanted == papers.BEST:
            wanted = tuple(self._best) or tuple(labels)
        if wanted == papers.ALL and papers.ALL not in labels:
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


def _reduce(values: NDArray[np.float64], selection: papers.ResultSelection) -> Number:
    n, root = len(values), sqrt(len(values))
    spread = float(values.std(ddof=1)) if n > 1 else np.nan
    if selection.reduce == "mean":
        return Number(float(values.mean()), spread, spread / root, n)
    if selection.reduce == "median":
        # for a normal distribution, its variance is π/2 times that of the mean
        return Number(float(np.median(values)), spread, sqrt(pi / 2) * spread / root, n)
    if selection.reduce == "sd":
        return Number(spread, spread, _error_of_spread(spread, n), n)
    assert selection.limit is not None
    is_beyond = np.greater if selection.reduce == "share_above" else np.less
    share = float(is_beyond(values, selection.limit).mean())
    variance = share * (1 - share)
    return Number(share, sqrt(variance), sqrt((variance + 0.25 / n) / n), n)


_FEW = 6  # labels at most that are listed one by one

PRESET = "a synthetic preset replaces the paper's data"


def compare(
    study: papers.PaperStudy, results: Results, *, is_real: bool | None = None
) -> Iterator[report.ComparedNumber]:
    """Compare every published number of a study with our result.

    ``is_real`` says whether the results are of the paper's data, where these replace a preset.

    The paper's number agrees if it is in the 95 % prediction interval of such a computation. Our
    mean is over the people we sampled and the paper's over its own, so the interval includes both
    standard errors, half the last digit that the paper prints, and the stated tolerance. A number
    that does not agree is explained if our result agrees when computed as in the paper. Numbers
    from presets, and numbers that depend on something the paper does not state, are reported but
    not compared. Raises ConfigError if the results have no such variable or dimension.
    """
    reproduces = study.is_real if is_real is None else is_real
    for published in study.published:
        for figure in published.figures():
            ours = find_or_none(results, figure.selection)
            if ours is None:
                continue
            as_in_paper = find_or_none(results, figure.as_in_paper)
            allowed = partial(_largest_difference, study, published, figure)
            own, room = ours.known_error, allowed(ours)
            verdict, why = report.NOT_REPRODUCED, published.differs
            if not reproduces:
                verdict, why = report.NOT_COMPARED, PRESET
            elif published.unstated:
                verdict, why = report.NOT_COMPARED, published.unstated
            elif abs(ours.value - figure.value) <= room:
                verdict, why = report.AGREES, ""
            elif as_in_paper and abs(as_in_paper.value - figure.value) <= allowed(as_in_paper):
                verdict = report.EXPLAINED
            yield report.ComparedNumber(
                item=published.item,
                source=published.source,
                setting=_describe(figure.selection),
                paper=figure.value,
                step=published.step,
                ours=ours.value,
                low=ours.value - ours.quantile * own if own else nan,
                high=ours.value + ours.quantile * own if own else nan,
                room=room,
                verdict=verdict,
                why=why,
                as_in_paper=nan if as_in_paper is None else as_in_paper.value,
            )


def find_or_none(results: Results, selection: papers.ResultSelection | None) -> Number | None:
    """Return our number, or None if a quick run omits it."""
    try:
        return None if selection is None else results.find(selection)
    except NotComputed:
        return None


def _largest_difference(
    study: papers.PaperStudy,
    published: papers.PublishedNumbers,
    figure: papers.Figure,
    ours: Number,
) -> float:
    """Return the largest difference between our number and the paper's that counts as agreement."""
    people = published.people or (ours.n if figure.selection.of == "utility" else study.people)
    own = ours.known_error
    both = hypot(own, ours.error_of(people) if own else 0.0)
    systematic = published.tolerance * abs(figure.value) + published.allowance
    return ours.quantile * both + published.step / 2 + systematic + 1e-9


def _describe(selection: papers.ResultSelection) -> str:
    """Return a description of which results a number is computed from."""
    what = selection.of.replace("_", " ")
    if selection.reduce.startswith("share"):
        what = f"share with {what} {selection.reduce.removeprefix('share_')} {selection.limit:g}"
    elif selection.reduce != "mean":
        what = f"{selection.reduce} of {what}"
    where = [_label(dim, label, selection.take) for dim, label in selection.at.items()]
    text = " · ".join([what, *where])
    if selection.over:
        others = (_label(dim, label, selection.take) for dim, label in selection.over.items())
        text += f", divided by that of {' · '.join(others)}"
    return text


def _label(dim: str, label: papers.Label | tuple[papers.Label, ...], take: str) -> str:
    if not isinstance(label, tuple):
        return str(label)
    if len(label) > _FEW:
        text = f"{len(label)} {dim}s from {label[0]} to {label[-1]}"
    else:
        text = " or ".join(map(str, label))
    return f"mean over {text}" if take == "mean" else text


@dataclass(frozen=True, slots=True)
class _Margin:
    """Margin for one selection of labels, its 95 % half-width, and the compared numbers as text."""

    value: float
    half: float
    text: str


def check_claims(study: papers.PaperStudy, results: Results) -> Iterator[report.ClaimRow]:
    """Check every claim of a study, and yield its smallest margin over all labels.

    A claim holds if the margin is positive everywhere. It fails if a margin's 95 % interval is
    below 0. Otherwise it is undecided, for example if there is only one person, or if two numbers
    that should differ are equal. Labels that a quick run omits are skipped. Raises ConfigError if
    the results have no such variable or dimension.
    """
    for claim in study.claims:
        margins = list(_margins(claim, results))
        if not margins:
            continue
        worst = min(margins, key=lambda margin: margin.value)
        broken = any(margin.value + margin.half < 0 for margin in margins)
        verdict = report.BREAKS if broken else report.HOLDS if worst.value > 0 else report.OPEN
        half = worst.half if isfinite(worst.half) else 0.0
        why = "" if verdict == report.HOLDS else claim.differs
        source = ", ".join(filter(None, (claim.item, claim.source)))
        yield report.ClaimRow(claim.text, source, worst.value, half, worst.text, verdict, why)


def _margins(claim: papers.Claim, results: Results) -> Iterator[_Margin]:
    for labels in product(*claim.each.values()):
        at = {**claim.at, **dict(zip(claim.each, labels, strict=True))}
        if claim.along:
            yield from _steps(claim, at, results)
            continue
        try:
            yield _relation(claim, at, results)
        except NotComputed:
            continue


def _steps(claim: papers.Claim, at: papers.Labels, results: Results) -> Iterator[_Margin]:
    """Yield the margin of each step of a trend; labels that a quick run omits are skipped."""
    sign = 1 if claim.relation == "rise" else -1
    found = (
        find_or_none(results, claim.where({**at, claim.along: label})) for label in claim.labels
    )
    numbers = [number for number in found if number is not None]
    text = ", ".join(f"{number.value:.3g}" for number in numbers)
    for before, after in pairwise(numbers):
        step = sign * (after.value - before.value) + claim.tolerance
        yield _Margin(step, _half(before, after), text)


def _relation(claim: papers.Claim, at: papers.Labels, results: Results) -> _Margin:
    """Return by how far a number is on the claimed side of another number or of a constant."""
    number = results.find(claim.where(at))
    if isinstance(claim.than, Mapping):
        other = results.find(claim.where({**at, **claim.than}))
        bound, half = other.value, _half(number, other)
    else:
        assert claim.than is not None, "a claim that is no trend has it"
        bound, half = claim.than, _half(number)
    difference = number.value - bound
    margin = {"above": difference, "below": -difference, "near": -abs(difference)}[claim.relation]
    text = f"{number.value:.3g}, {claim.relation} {bound:.3g}"
    return _Margin(margin + claim.tolerance, half, text)


def _half(*numbers: Number) -> float:
    """Return the half-width of the interval of a difference, infinite if a number has n = 1."""
    if any(number.n == 1 for number in numbers):
        return inf
    quantile = max(number.quantile for number in numbers)
    return quantile * hypot(*(number.known_error for number in numbers))
