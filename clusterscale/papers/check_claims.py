"""Statements held to account: do our numbers keep them, break them, or leave it open."""

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
    """How much is left at one place, half the 95 % interval of that, and the numbers it is of."""

    value: float
    half: float
    told: str


def check_claims(study: PaperStudy, results: Results) -> Iterator[ClaimRow]:
    """Yield every statement of a study, with its margin at the worst place.

    A statement holds where the margin is positive everywhere. It breaks where the margin is
    negative by more than chance, 95 % of the time; else it is open, as it is where there is one
    person only, or where what should differ is the same.
    Places that a quick run leaves out are passed over.

    Raises
    ------
    ConfigError
        If the results have no such variable or dimension.
    """
    for claim in study.claims:
        margins = list(_margins(claim, results))
        if not margins:
            continue
        worst = min(margins, key=lambda each: each.value)
        broken = any(each.value + each.half < 0 for each in margins)
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
    """Yield the margin of each step; what a quick run leaves out is stepped over."""
    sign = 1 if claim.relation == "rise" else -1
    numbers = list(_there(claim, at, results))
    told = ", ".join(f"{number.value:.3g}" for number in numbers)
    for before, after in pairwise(numbers):
        step = sign * (after.value - before.value) + claim.tolerance
        yield _Margin(step, _half(before, after), told)


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
    apart = number.value - bound
    left = {"above": apart, "below": -apart, "near": -abs(apart)}[claim.relation]
    told = f"{number.value:.3g}, {claim.relation} {bound:.3g}"
    yield _Margin(left + claim.tolerance, _half(*numbers), told)


def _half(*numbers: Number) -> float:
    """Return half the interval of a difference; without limit where one person tells of nobody."""
    if any(number.n == 1 for number in numbers):
        return inf
    return max(each.quantile for each in numbers) * hypot(*(each.known_error for each in numbers))
