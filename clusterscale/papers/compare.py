"""Ours beside the paper's: its number should lie where one more such computation would."""

from __future__ import annotations

from collections.abc import Iterator
from math import hypot, nan

from clusterscale.papers.found import Absence, Number, Results, Z
from clusterscale.papers.published import Figure, Label, Place, Published
from clusterscale.papers.study import Study
from clusterscale.report.reproduced import AGREES, DIFFERS, NOT_COMPARED, Compared

__all__ = ["compare"]

_FEW = 6  # labels, which are all told

PRESET = "a preset stands for the data, which are not public"


def compare(study: Study, results: Results) -> Iterator[Compared]:
    """Yield every published number of a study beside ours.

    The paper's number agrees where it lies in the interval that 95 % of such computations would
    come out in: ours is a mean over the people whom we have drawn, the paper's one over its own, so
    the errors of both count; then half the last digit that the paper prints, and the tolerance that
    is stated with it. Numbers of presets are told, but not compared.

    Raises
    ------
    ConfigError
        If the results have no such variable or dimension.
    """
    for published in study.published:
        for figure in published.figures():
            try:
                ours = results.find(figure.place)
            except Absence:  # not in a quick run
                continue
            yield _beside(study, published, figure, ours)


def _beside(study: Study, published: Published, figure: Figure, ours: Number) -> Compared:
    people = published.people or (ours.n if figure.place.of == "utility" else study.people)
    own = ours.known_error
    both = hypot(own, ours.error_of(people) if own else 0.0)
    room = Z * both + published.step / 2 + published.tolerance * abs(figure.value)
    agrees = abs(ours.value - figure.value) <= room + 1e-9
    verdict, why = (AGREES, "") if agrees else (DIFFERS, published.differs)
    if not study.is_real:
        verdict, why = NOT_COMPARED, PRESET
    return Compared(
        item=published.item,
        source=published.source,
        setting=_tell(figure.place),
        paper=figure.value,
        step=published.step,
        ours=ours.value,
        low=ours.value - Z * own if own else nan,
        high=ours.value + Z * own if own else nan,
        room=room,
        verdict=verdict,
        why=why,
    )


def _tell(place: Place) -> str:
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
