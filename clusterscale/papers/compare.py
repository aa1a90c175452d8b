"""Comparison of our results with a paper's numbers and claims, within statistical errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from math import hypot, inf, isfinite, nan

from clusterscale.papers.extract import NotComputed, Number, Results
from clusterscale.papers.published import (
    Claim,
    Figure,
    Label,
    Labels,
    PublishedNumbers,
    ResultSelection,
)
from clusterscale.papers.study import PaperStudy
from clusterscale.reporting.papers import (
    AGREES,
    BREAKS,
    DIFFERS,
    EXPLAINED,
    HOLDS,
    NOT_COMPARED,
    OPEN,
    ClaimRow,
    ComparedNumber,
)

_FEW = 6  # labels at most that are listed one by one

PRESET = "a synthetic preset replaces the data, which are not public"


def compare(study: PaperStudy, results: Results) -> Iterator[ComparedNumber]:
    """Compare every published number of a study with our result.

    The paper's number agrees if it is in the 95 % prediction interval of such a computation. Our
    mean is over the people we sampled and the paper's over its own, so the interval includes both
    standard errors, half the last digit that the paper prints, and the stated tolerance. A number
    that does not agree is explained if our result agrees when computed as in the paper. Numbers
    from presets, and numbers that depend on something the paper does not state, are reported but
    not compared.

    Parameters
    ----------
    study, results
        The study, and our results.

    Yields
    ------
    ComparedNumber
        One for each published number.

    Raises
    ------
    ConfigError
        If the results have no such variable or dimension.
    """
    for published in study.published:
        for figure in published.figures():
            ours = _find(results, figure.selection)
            if ours is not None:
                as_in_paper = _find(results, figure.as_in_paper)
                yield _compare_one(study, published, figure, ours, as_in_paper)


def _find(results: Results, selection: ResultSelection | None) -> Number | None:
    """Return our number, or None if a quick run omits it."""
    try:
        return None if selection is None else results.find(selection)
    except NotComputed:
        return None


def _compare_one(
    study: PaperStudy,
    published: PublishedNumbers,
    figure: Figure,
    ours: Number,
    as_in_paper: Number | None,
) -> ComparedNumber:
    own = ours.known_error
    room = _largest_difference(study, published, figure, ours)
    verdict, why = DIFFERS, published.differs
    if not study.is_real:
        verdict, why = NOT_COMPARED, PRESET
    elif published.unstated:
        verdict, why = NOT_COMPARED, published.unstated
    elif abs(ours.value - figure.value) <= room:
        verdict, why = AGREES, ""
    elif as_in_paper is not None and abs(as_in_paper.value - figure.value) <= _largest_difference(
        study, published, figure, as_in_paper
    ):
        verdict = EXPLAINED
    return ComparedNumber(
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


def _largest_difference(
    study: PaperStudy, published: PublishedNumbers, figure: Figure, ours: Number
) -> float:
    """Return the largest difference between our number and the paper's that counts as agreement."""
    people = published.people or (ours.n if figure.selection.of == "utility" else study.people)
    own = ours.known_error
    both = hypot(own, ours.error_of(people) if own else 0.0)
    systematic = published.tolerance * abs(figure.value) + published.allowance
    return ours.quantile * both + published.step / 2 + systematic + 1e-9


def _describe(selection: ResultSelection) -> str:
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


def _label(dim: str, label: Label | tuple[Label, ...], take: str) -> str:
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


def check_claims(study: PaperStudy, results: Results) -> Iterator[ClaimRow]:
    """Check every claim of a study.

    A claim holds if the margin is positive everywhere. It fails if a margin's 95 % interval is
    below 0. Otherwise it is undecided, for example if there is only one person, or if two numbers
    that should differ are equal. Labels that a quick run omits are skipped.

    Parameters
    ----------
    study, results
        The study, and our results.

    Yields
    ------
    ClaimRow
        A claim with its smallest margin over all labels.

    Raises
    ------
    ConfigError
        If the results have no such variable or dimension.
    """
    for claim in study.claims:
        margins = list(_margins(claim, results))
        if not margins:
            continue
        worst = min(margins, key=lambda margin: margin.value)
        broken = any(margin.value + margin.half < 0 for margin in margins)
        verdict = BREAKS if broken else HOLDS if worst.value > 0 else OPEN
        half = worst.half if isfinite(worst.half) else 0.0
        why = "" if verdict == HOLDS else claim.differs
        yield ClaimRow(claim.text, claim.source, worst.value, half, worst.text, verdict, why)


def _margins(claim: Claim, results: Results) -> Iterator[_Margin]:
    for labels in product(*claim.each.values()):
        at = {**claim.at, **dict(zip(claim.each, labels, strict=True))}
        if claim.along:
            yield from _steps(claim, at, results)
            continue
        try:
            yield _relation(claim, at, results)
        except NotComputed:
            continue


def _steps(claim: Claim, at: Labels, results: Results) -> Iterator[_Margin]:
    """Yield the margin of each step of a trend; labels that a quick run omits are skipped."""
    sign = 1 if claim.relation == "rise" else -1
    found = (_find(results, claim.where({**at, claim.along: label})) for label in claim.labels)
    numbers = [number for number in found if number is not None]
    text = ", ".join(f"{number.value:.3g}" for number in numbers)
    for before, after in pairwise(numbers):
        step = sign * (after.value - before.value) + claim.tolerance
        yield _Margin(step, _half(before, after), text)


def _relation(claim: Claim, at: Labels, results: Results) -> _Margin:
    number, other = results.find(claim.where(at)), claim.than
    numbers = [number]
    if isinstance(other, Mapping):
        numbers.append(results.find(claim.where({**at, **other})))
        bound = numbers[-1].value
    else:
        assert other is not None
        bound = other
    difference = number.value - bound
    margin = {"above": difference, "below": -difference, "near": -abs(difference)}[claim.relation]
    text = f"{number.value:.3g}, {claim.relation} {bound:.3g}"
    return _Margin(margin + claim.tolerance, _half(*numbers), text)


def _half(*numbers: Number) -> float:
    """Return the half-width of the interval of a difference, infinite if a number has n = 1."""
    if any(number.n == 1 for number in numbers):
        return inf
    quantile = max(number.quantile for number in numbers)
    return quantile * hypot(*(number.known_error for number in numbers))
