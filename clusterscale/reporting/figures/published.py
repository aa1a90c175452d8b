"""Figures of papers, drawn from our results, with the numbers that the paper prints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor, isfinite, nan, pi
from typing import Any, Self

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.reporting.figures import single
from clusterscale.reporting.figures.curves import boxes, curves, distributions
from clusterscale.reporting.figures.planar import Point, axis, heatmap, scale, tradeoff


@dataclass(frozen=True, slots=True, eq=False)
class PlotPoint:
    """One number of ours at a tick of the horizontal axis.

    Attributes
    ----------
    tick, value
        Where on the axis, and our number.
    error
        Its standard error, NaN if unknown.
    printed
        The paper's number, NaN if it prints none.
    loss
        The loss of utility there, NaN if none is drawn.
    people
        Values of people, float64, shape (person,); empty if none are drawn.
    """

    tick: str | float
    value: float
    error: float = nan
    printed: float = nan
    loss: float = nan
    people: single.Floats = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, slots=True)
class PlotSeries:
    """A series in the legend; ``shares`` are printed points (value, share) of a distribution."""

    name: str
    points: Sequence[PlotPoint]
    shares: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, slots=True)
class PaperPlot:
    """What a panel of a paper's figure shows.

    ``kind``, ``x``, ``y``, ``log`` and ``ticks`` are as in the study; ``cells`` are values of
    a heatmap, float64, shape (row, column); ``claims`` are texts of claims on the same results.
    """

    item: str
    title: str
    kind: str
    x: str
    y: str
    log: str = ""
    ticks: Sequence[str | float] = ()
    series: Sequence[PlotSeries] = ()
    cells: single.Floats | None = None
    claims: Sequence[str] = ()

    def merge(self, other: Self) -> Self:
        """Return the same panel with the series of another study, those of one name together."""
        series = {one.name: one for one in self.series}
        for one in other.series:
            if one.name in series:
                points = (*series[one.name].points, *one.points)
                series[one.name] = replace(series[one.name], points=points)
            else:
                series[one.name] = one
        claims = tuple(dict.fromkeys((*self.claims, *other.claims)))
        return replace(self, series=tuple(series.values()), claims=claims)

    @property
    def heading(self) -> str:
        """The title, or what the axes are."""
        return self.title or f"{self.y} by {self.x}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the series in the order of their colours."""
        return tuple(one.name for one in self.series)

    @property
    def legend(self) -> Markup:
        """The legend as HTML; nothing for a single series."""
        if self.kind == "cells":
            return scale("low", "high")
        if len(self.series) < 2:
            return Markup("")
        if self.kind == "points":
            return single.marks(self.names, line="")
        return single.legend(self.names, dashed=self.kind in ("lines", "cumulative"))


_PRINTED = "printed in the paper"


def draw(plot: PaperPlot) -> Any:
    """Draw a panel as a Bokeh figure; what the paper prints are hollow marks."""
    drawn, marked = _DRAW[plot.kind](plot)
    if marked:
        look = {"marker": "circle", "size": 9, "line_width": 2, "fill_color": None}
        source = _source(marked, "x", "y", "hue")
        drawn.scatter("x", "y", line_color="hue", source=source, name=_PRINTED, **look)
    return drawn


def _source(rows: Sequence[tuple[Any, ...]], *names: str) -> ColumnDataSource:
    """Return the columns of rows as Bokeh takes them."""
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return ColumnDataSource({name: list(one) for name, one in zip(names, columns, strict=True)})


_Marks = list[tuple[float, float, str]]
"""Position and colour of each number that the paper prints."""

_Points = Sequence[tuple[int, float, PlotPoint]]
"""Index of the series, horizontal position, and number."""


def _ticks(plot: PaperPlot) -> list[str | float]:
    """Return the ticks of all series, in the order of the study."""
    drawn = dict.fromkeys(point.tick for one in plot.series for point in one.points)
    order = [tick for tick in plot.ticks if tick in drawn]
    return [*order, *(tick for tick in drawn if tick not in order)]


def _word(tick: str | float) -> str:
    return tick if isinstance(tick, str) else f"{tick:,g}"


def _label(drawn: Any, places: NDArray[Any], ticks: Sequence[str | float]) -> None:
    at = [float(place) for place in places]
    drawn.xaxis.ticker = FixedTicker(ticks=at)
    drawn.xaxis.major_label_overrides = dict(zip(at, map(_word, ticks), strict=True))


def _draw_lines(plot: PaperPlot) -> tuple[Any, _Marks]:
    ticks = _ticks(plot)
    numeric = not any(isinstance(tick, str) for tick in ticks)
    place: Mapping[Any, float] = {tick: tick if numeric else i for i, tick in enumerate(ticks)}  # type: ignore[misc]
    x = np.array([place[tick] for tick in ticks])
    series = {}
    for i, one in enumerate(plot.series):
        values = {point.tick: point.value for point in one.points}
        series[i] = np.array([values.get(tick, nan) for tick in ticks])
    drawn = curves(x, series, plot.names, axis=plot.y, across=plot.x, log=plot.log)
    if len(x) <= _FEW:
        _label(drawn, x, ticks)
    elif plot.ticks:  # words that divide a curve into equal parts
        _label(drawn, np.linspace(0, len(x), len(plot.ticks), endpoint=False), plot.ticks)
    points = [(i, place[p.tick], p) for i, one in enumerate(plot.series) for p in one.points]
    _draw_errors(drawn, points)
    if len(x) <= _FEW:  # a number beside unknown ones has no line
        dots = [(x, p.value, single.colour(i)) for i, x, p in points]
        drawn.scatter("x", "y", color="hue", size=6, source=_source(dots, "x", "y", "hue"))
    return drawn, _printed(points)


_FEW = 24  # ticks of an axis with a label each, and rows of a table


def _printed(points: _Points) -> _Marks:
    return [(x, p.printed, single.colour(i)) for i, x, p in points if isfinite(p.printed)]


def _draw_errors(drawn: Any, points: _Points) -> None:
    ends = [
        (x, p.value - p.error, p.value + p.error, single.colour(i))
        for i, x, p in points
        if isfinite(p.error)
    ]
    if ends:
        source = _source(ends, "x", "low", "high", "hue")
        drawn.segment("x", "low", "x", "high", line_color="hue", line_width=1.5, source=source)


def _draw_columns(plot: PaperPlot) -> tuple[Any, _Marks]:
    """Draw boxes or bars, those of a tick side by side."""
    ticks, width = _ticks(plot), len(plot.series) + 1
    points = [
        (i, ticks.index(p.tick) * width + i, p)
        for i, one in enumerate(plot.series)
        for p in one.points
    ]
    if plot.kind == "boxes":
        groups = [(_word(t), {i: p.people for i, _, p in points if p.tick == t}) for t in ticks]
        drawn = boxes(groups, plot.names, across=plot.x, axis=plot.y)
    else:
        drawn = _bars(plot, points)
        _label(drawn, width * np.arange(len(ticks)) + width / 2 - 1, ticks)
        _draw_errors(drawn, points)
    if sum(len(_word(tick)) + 2 for tick in ticks) > _FEW * 3:
        drawn.xaxis.major_label_orientation = pi / 3
        drawn.height += 80
    return drawn, _printed(points)


def _bars(plot: PaperPlot, points: _Points) -> Any:
    drawn = single.panel(300, plot.x, plot.y)
    bars = [(x, point.value, 0.0, single.colour(i)) for i, x, point in points]
    source = _source(bars, "x", "top", "bottom", "hue")
    look = {"fill_color": "hue", "line_color": "hue", "fill_alpha": 0.45}
    drawn.vbar("x", 0.8, "top", "bottom", source=source, **look)
    drawn.xgrid.grid_line_color = None
    return drawn


def _draw_cumulative(plot: PaperPlot) -> tuple[Any, _Marks]:
    series = {i: one.points[0].people for i, one in enumerate(plot.series)}
    everyone = np.concatenate(list(series.values()))
    end = max(1.0, float(everyone.max()))
    start = floor(10 * min(float(everyone.min()), 0.95)) / 10 if end == 1 else 0.0
    drawn = distributions(
        series, plot.names, start=start, end=end, axis=plot.x, among="people", chance=None
    )
    drawn.yaxis.axis_label = plot.y
    means = [(one.points[0].value, 0.03, single.colour(i)) for i, one in enumerate(plot.series)]
    source = _source(means, "x", "y", "hue")
    drawn.scatter("x", "y", color="hue", size=5, source=source, name="means")
    marked = [(x, y, single.colour(i)) for i, one in enumerate(plot.series) for x, y in one.shares]
    points = [(i, nan, one.points[0]) for i, one in enumerate(plot.series)]
    return drawn, marked + [(mean, 0.03, hue) for _, mean, hue in _printed(points)]


def _draw_points(plot: PaperPlot) -> tuple[Any, _Marks]:
    both = [(i, point) for i, one in enumerate(plot.series) for point in one.points]
    across = axis(np.array([point.loss for _, point in both]), log="x" in plot.log)
    shown = [Point(i, _word(p.tick), p.loss, p.value) for i, p in both]
    drawn = tradeoff(shown, nan, across)
    drawn.xaxis.axis_label, drawn.yaxis.axis_label = plot.x, plot.y
    return drawn, _printed([(i, across.place(p.loss), p) for i, p in both])


def _draw_cells(plot: PaperPlot) -> tuple[Any, _Marks]:
    assert plot.cells is not None, "cells have them"
    return heatmap(plot.cells, across=plot.x, up=plot.y), []


_DRAW = {
    "lines": _draw_lines,
    "bars": _draw_columns,
    "boxes": _draw_columns,
    "cumulative": _draw_cumulative,
    "points": _draw_points,
    "cells": _draw_cells,
}
