"""Check whether our results confirm or contradict the claims of a paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from math import hypot, inf, isfinite

from clusterscale.papers.claims import Claim
from clusterscale.papers.extract import NotComputed, Number, Results
from clusterscale.papers.published import Label
from clusterscale.papers.study import PaperStudy
from clusterscale.report.papers import BREAKS, HOLDS, OPEN, ClaimRow

__all__ = ["check_claims"]


@dataclass(frozen=True, slots=True)
class _Margin:
    """Margin for one selection of labels, its 95 % half-width, and the compared numbers as text."""

    value: float
    half: float
    told: str


def check_claims(study: PaperStudy, results: Results) -> Iterator[ClaimRow]:
    """Yield every claim of a study, with its smallest margin over all labels.

    A claim holds if the margin is positive everywhere. It fails if a margin's 95 % interval is
    below 0. Otherwise it is undecided, for example if there is only one person, or if two numbers
    that should differ are equal. Labels that a quick run omits are skipped.

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
        yield ClaimRow(claim.text, claim.source, worst.value, half, worst.told, verdict, why)


def _margins(claim: Claim, results: Results) -> Iterator[_Margin]:
    for labels in product(*claim.each.values()):
        at = {**claim.at, **dict(zip(claim.each, labels, strict=True))}
        try:
            yield from list(_along(claim, at, results) if claim.along else _at(claim, at, results))
        except NotComputed:
            continue


def _along(
    claim: Claim, at: dict[str, Label | tuple[Label, ...]], results: Results
) -> Iterator[_Margin]:
    """Yield the margin of each step; labels that a quick run omits are skipped."""
    sign = 1 if claim.relation == "rise" else -1
    numbers = list(_there(claim, at, results))
    text = ", ".join(f"{number.value:.3g}" for number in numbers)
    for before, after in pairwise(numbers):
        step = sign * (after.value - before.value) + claim.tolerance
        yield _Margin(step, _half(before, after), text)


def _there(
    claim: Claim, at: dict[str, Label | tuple[Label, ...]], results: Results
) -> Iterator[Number]:
    for label in claim.labels:
        try:
            yield results.find(claim.where({**at, claim.along: label}))
        except NotComputed:
            continue


def _at(
    claim: Claim, at: dict[str, Label | tuple[Label, ...]], results: Results
) -> Iterator[_Margin]:
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
    yield _Margin(margin + claim.tolerance, _half(*numbers), text)


def _half(*numbers: Number) -> float:
    """Return the half-width of the interval of a difference, infinite if a number has n = 1."""
    if any(number.n == 1 for number in numbers):
        return inf
    quantile = max(number.quantile for number in numbers)
    return quantile * hypot(*(number.known_error for number in numbers))
