"""Scatter plots of privacy gain against utility loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

import numpy as np
from bokeh.models import FixedTicker, HoverTool, Range1d, Span

from clusterscale.report.figures.frame import Floats, panel
from clusterscale.report.figures.styles import NEUTRAL, WARNING, style_of

__all__ = ["Axis", "Point", "axis", "tradeoff"]

_DECADES = 6  # more would compress the informative ones


@dataclass(frozen=True, slots=True)
class Point:
    """One mark: the index of its series, its name in the tooltip, its loss and its gain.

    ``empty`` describes a (nearly) empty release, whose mark is crossed out.
    """

    index: int
    name: str
    loss: float
    gain: float
    empty: str = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """A horizontal axis; with a ``floor`` it is logarithmic, and lower values are at the floor."""

    start: float
    end: float
    ticks: dict[float, str]
    floor: float | None = None

    def place(self, value: float) -> float:
        """Return the coordinate at which ``value`` is drawn."""
        return value if self.floor is None else max(value, self.floor)


def axis(values: Floats, *, log: bool) -> Axis:
    """Return an axis for non-negative ``values``; a ``log`` axis shows zeros too."""
    known = values[np.isfinite(values)]
    positive = known[known > 0]
    if not log or not len(positive):
        end = max(1.0, float(known.max(initial=0.0)))
        step = 0.2 if end <= 1.2 else 0.5 if end <= 3 else 10.0 ** floor(log10(end))
        step = step if step <= end else step / 10  # the logarithm was rounded up
        ticks = {round(i * step, 3): f"{i * step:g}" for i in range(floor(end / step) + 1)}
        return Axis(-0.03 * end, 1.03 * end, ticks)
    top = ceil(log10(float(positive.max())) + 1e-9)
    low = max(floor(log10(float(positive.min()))), top - _DECADES)
    zero = 10.0 ** (low - 1)
    # the decade below the least positive value has the zeros, usually raw counts
    step = 1 if top - low <= 4 else 2  # labels must not overlap
    ticks = {10.0**power: f"{10.0**power:g}" for power in range(top, low - 1, -step)}
    ticks = {zero: "0"} | dict(sorted(ticks.items()))
    return Axis(zero / 1.5, 1.2 * 10.0**top, ticks, zero)


def tradeoff(points: Sequence[Point], guess: float, across: Axis) -> Any:
    """Draw mean privacy gain against utility loss, a mark per mechanism (POMACS20 Figs 7 to 10).

    Marks of (nearly) empty releases are hollow and crossed out. ``guess`` is the loss of a random
    guess, a dashed line; NaN for none.
    """
    drawn = panel(
        height=280,
        x_range=Range1d(across.start, across.end),
        y_range=Range1d(-0.05, 1.05),
        x_axis_type="linear" if across.floor is None else "log",
        x_axis_label="utility loss",
        y_axis_label="mean privacy gain",
    )
    drawn.xaxis.ticker = FixedTicker(ticks=list(across.ticks))
    drawn.xaxis.major_label_overrides = across.ticks
    drawn.yaxis.ticker = FixedTicker(ticks=[round(0.2 * i, 1) for i in range(6)])
    if np.isfinite(guess):
        line = Span(location=across.place(guess), dimension="height", line_color=NEUTRAL)
        line.line_dash, line.line_width = "4 4", 1.5
        drawn.add_layout(line)
    looks = [style_of(point.index) for point in points]
    data = {
        "x": [across.place(point.loss) for point in points],
        "gain": [point.gain for point in points],
        "loss": [point.loss for point in points],
        "mechanism": [
            f"{point.name} ({point.empty} release)" if point.empty else point.name
            for point in points
        ],
        "fill": [0.0 if point.empty else 0.55 for point in points],
        "colour": [colour for colour, _ in looks],
        "shape": [shape for _, shape in looks],
    }
    look_of = {"marker": "shape", "line_color": "colour", "fill_color": "colour"}
    dots = drawn.scatter("x", "gain", size=11, fill_alpha="fill", source=data, **look_of)
    crossed = [(across.place(point.loss), point.gain) for point in points if point.empty]
    if crossed:
        x, y = map(list, zip(*crossed, strict=True))
        drawn.scatter(x, y, marker="x", size=17, line_width=2, line_color=WARNING)
    tips = [("mechanism", "@mechanism"), ("mean privacy gain", "@gain{0.000}")]
    tips += [("utility loss", "@loss{0.000}")]
    drawn.add_tools(HoverTool(renderers=[dots], tooltips=tips))
    return drawn
