"""The papers' figures from our results: the numbers of each series, and those of the paper."""

from collections.abc import Iterator, Sequence
from math import nan

import numpy as np

from clusterscale.papers import study as papers
from clusterscale.papers.compare import NotComputed, Results, find_or_none
from clusterscale.reporting.figures import Floats, PaperPlot, PlotPoint, PlotSeries
from clusterscale.reporting.traits import loading_panels

_Printed = Sequence[tuple[papers.ResultSelection, float]]
_OF_PEOPLE = ("cumulative", "boxes")


def plot_figures(study: papers.PaperStudy, results: Results) -> Iterator[PaperPlot]:
    """Yield what each panel of a study's figures shows, without what a quick run omits.

    Raises ConfigError if the results have no such variable or dimension.
    """
    numbers = (number for published in study.published for number in published.figures())
    printed = [(number.selection, number.value) for number in numbers]
    for figure in study.figures:
        panels = _cells if figure.kind == "cells" else _series
        for title, series, cells in panels(figure, results, printed):
            yield PaperPlot(
                item=figure.item,
                title=title,
                kind=figure.kind,
                x=figure.x,
                y=figure.y,
                log=figure.log,
                ticks=figure.ticks,
                series=series,
                cells=cells,
                claims=tuple(claim.text for claim in study.claims if _concerns(claim, figure)),
            )


def _concerns(claim: papers.Claim, figure: papers.PaperFigure) -> bool:
    """Return whether a claim names a figure, or else is about its variable at no other labels."""
    if claim.item:
        return claim.item == figure.item
    return claim.of == figure.of and all(
        figure.at.get(dim, label) in (label, papers.ALL) for dim, label in claim.at.items()
    )


_Panel = tuple[str, tuple[PlotSeries, ...], Floats | None]


def _cells(figure: papers.PaperFigure, results: Results, printed: _Printed) -> Iterator[_Panel]:
    traits, view = results.dataset(figure.of), figure.at.get("view", 0)
    if isinstance(view, int) and view < traits.sizes["view"]:
        for who, title, loading in loading_panels(traits, view):
            if figure.at.get("who", who) == who:
                yield f"{figure.title}, {title}", (), loading


def _series(figure: papers.PaperFigure, results: Results, printed: _Printed) -> Iterator[_Panel]:
    for title, several in figure.panels():
        found = ((one, list(_points(figure, one, results, printed))) for one in several)
        series = tuple(
            PlotSeries(one.name, points, _shares(one, printed)) for one, points in found if points
        )
        if series:
            yield title, series, None


def _points(
    figure: papers.PaperFigure, chosen: papers.SeriesSelection, results: Results, printed: _Printed
) -> Iterator[PlotPoint]:
    """Yield the points of a series, without those that were not computed."""
    first = chosen.selections[0]
    if figure.along and first.at.get(figure.along) == papers.ALL:
        try:
            values = results.values(first, figure.along)
        except NotComputed:
            return
        yield from (PlotPoint(i, value) for i, value in enumerate(values.tolist()))
        return
    ticks: Sequence[papers.Tick] = chosen.ticks if figure.along else ("mean",)
    for i, (tick, selection) in enumerate(zip(ticks, chosen.selections, strict=True)):
        number = find_or_none(results, selection)
        if number is None:
            continue
        yield PlotPoint(
            tick,
            number.value,
            error=number.error,
            printed=next((value for other, value in printed if other == selection), nan),
            loss=_loss(chosen.losses[i], results) if chosen.losses else nan,
            people=results.values(selection) if figure.kind in _OF_PEOPLE else np.empty(0),
        )


def _loss(utility: papers.ResultSelection, results: Results) -> float:
    """Return the distance of a measure of utility from its best value."""
    best = results.dataset("utility")["ideal"].sel(measure=utility.at["measure"])
    return abs(results.find(utility).value - float(best))


def _shares(chosen: papers.SeriesSelection, printed: _Printed) -> tuple[tuple[float, float], ...]:
    """Return the printed shares below a limit of the people of a distribution."""
    first = chosen.selections[0]
    return tuple(
        (other.limit, 1 - value if other.reduce == "share_above" else value)
        for other, value in printed
        if other.limit is not None and (other.of, other.at) == (first.of, first.at)
    )
