"""Comparison of our results with a paper's numbers, within their statistical errors."""

from __future__ import annotations

from collections.abc import Iterator
from math import hypot, nan

from clusterscale.papers.extract import NotComputed, Number, Results
from clusterscale.papers.published import Figure, Label, PublishedNumbers, ResultSelection
from clusterscale.papers.study import PaperStudy
from clusterscale.report.papers import AGREES, DIFFERS, EXPLAINED, NOT_COMPARED, ComparedNumber

__all__ = ["compare"]

_FEW = 6  # labels at most that are listed one by one

PRESET = "a synthetic preset replaces the data, which are not public"


def compare(study: PaperStudy, results: Results) -> Iterator[ComparedNumber]:
    """Yield every published number of a study with our result.

    The paper's number agrees if it is in the 95 % prediction interval of such a computation. Our
    mean is over the people we sampled and the paper's over its own, so the interval includes both
    standard errors, half the last digit that the paper prints, and the stated tolerance. A number
    that does not agree is explained if our result agrees when computed as in the paper. Numbers
    from presets, and numbers that depend on something the paper does not state, are reported but
    not compared.

    Raises
    ------
    ConfigError
        If the results have no such variable or dimension.
    """
    for published in study.published:
        for figure in published.figures():
            ours = _find(results, figure.place)
            if ours is not None:
                as_in_paper = (
                    None if figure.as_in_paper is None else _find(results, figure.as_in_paper)
                )
                yield _beside(study, published, figure, ours, as_in_paper)


def _find(results: Results, place: ResultSelection) -> Number | None:
    """Return our number, or None if a quick run omits it."""
    try:
        return results.find(place)
    except NotComputed:
        return None


def _beside(
    study: PaperStudy,
    published: PublishedNumbers,
    figure: Figure,
    ours: Number,
    as_in_paper: Number | None,
) -> ComparedNumber:
    own = ours.known_error
    room = _room(study, published, figure, ours)
    verdict, why = DIFFERS, published.differs
    if not study.is_real:
        verdict, why = NOT_COMPARED, PRESET
    elif published.unstated:
        verdict, why = NOT_COMPARED, published.unstated
    elif abs(ours.value - figure.value) <= room:
        verdict, why = AGREES, ""
    elif as_in_paper is not None and abs(as_in_paper.value - figure.value) <= _room(
        study, published, figure, as_in_paper
    ):
        verdict = EXPLAINED
    return ComparedNumber(
        item=published.item,
        source=published.source,
        setting=_tell(figure.place),
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


def _room(study: PaperStudy, published: PublishedNumbers, figure: Figure, ours: Number) -> float:
    """Return the largest difference between our number and the paper's that counts as agreement."""
    people = published.people or (ours.n if figure.place.of == "utility" else study.people)
    own = ours.known_error
    both = hypot(own, ours.error_of(people) if own else 0.0)
    systematic = published.tolerance * abs(figure.value) + published.allowance
    return ours.quantile * both + published.step / 2 + systematic + 1e-9


def _tell(place: ResultSelection) -> str:
    """Return a description of which results a number is computed from."""
    what = place.of.replace("_", " ")
    if place.reduce.startswith("share"):
        what = f"share with {what} {place.reduce.removeprefix('share_')} {place.limit:g}"
    elif place.reduce != "mean":
        what = f"{place.reduce} of {what}"
    where = [_label(dim, label, place.take) for dim, label in place.at.items()]
    text = " · ".join([what, *where])
    if place.over:
        others = (_label(dim, label, place.take) for dim, label in place.over.items())
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
