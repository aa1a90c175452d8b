"""Ours beside the paper's: its number should lie where one more such computation would."""

from __future__ import annotations

from collections.abc import Iterator
from math import hypot, nan

from clusterscale.papers.extract import NotComputed, Number, Results
from clusterscale.papers.published import Figure, Label, PublishedNumbers, ResultSelection
from clusterscale.papers.study import PaperStudy
from clusterscale.report.papers import AGREES, DIFFERS, EXPLAINED, NOT_COMPARED, ComparedNumber

__all__ = ["compare"]

_FEW = 6  # labels, which are all told

PRESET = "a preset stands for the data, which are not public"


def compare(study: PaperStudy, results: Results) -> Iterator[ComparedNumber]:
    """Yield every published number of a study beside ours.

    The paper's number agrees where it lies in the interval that 95 % of such computations would
    come out in: ours is a mean over the people whom we have drawn, the paper's one over its own, so
    the errors of both count; then half the last digit that the paper prints, and the tolerance that
    is stated with it. A number that does not agree is explained where ours would, computed as the
    paper's was. Numbers of presets are told, but not compared, nor are those that hang on what the
    paper does not state.

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
    """Return a number of ours, None where a quick run leaves it out."""
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
    """Return how far a number of ours may be from the paper's and still agree."""
    people = published.people or (ours.n if figure.place.of == "utility" else study.people)
    own = ours.known_error
    both = hypot(own, ours.error_of(people) if own else 0.0)
    beside_chance = published.tolerance * abs(figure.value) + published.allowance
    return ours.quantile * both + published.step / 2 + beside_chance + 1e-9


def _tell(place: ResultSelection) -> str:
    """Say in words where a number is found."""
    what = place.of.replace("_", " ")
    if place.reduce.startswith("share"):
        what = f"share with {what} {place.reduce.removeprefix('share_')} {place.limit:g}"
    elif place.reduce != "mean":
        what = f"{place.reduce} of {what}"
    where = [_label(dim, each, place.take) for dim, each in place.at.items()]
    told = " · ".join([what, *where])
    if place.over:
        others = (_label(dim, each, place.take) for dim, each in place.over.items())
        told += f", over that of {' · '.join(others)}"
    return told


def _label(dim: str, label: Label | tuple[Label, ...], take: str) -> str:
    if not isinstance(label, tuple):
        return str(label)
    if len(label) > _FEW:
        told = f"{len(label)} {dim}s from {label[0]} to {label[-1]}"
    else:
        told = " or ".join(map(str, label))
    return f"mean over {told}" if take == "mean" else told
