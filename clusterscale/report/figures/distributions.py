"""Cumulative distributions of a number over people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bokeh.models import FixedTicker, HoverTool, Range1d, Span

from clusterscale.report.figures.frame import Floats, panel
from clusterscale.report.figures.styles import NEUTRAL, colour, dash

__all__ = ["distributions"]

_MAX_POINTS = 400


def distributions(
    series: Mapping[int, Floats],
    names: Sequence[str],
    *,
    start: float,
    axis: str = "AUC of a target",
    among: str = "targets",
    chance: float | None = 0.5,
) -> Any:
    """Draw CDFs of a number from ``start`` to 1 over people (NDSS18 Figs 2, 4, PETS17 Figs 1 to 5).

    ``series`` maps the index of a name to the numbers, ``axis`` is their label, ``among`` a noun
    for the people, and ``chance`` the value marked on the axis.
    """
    drawn = panel(
        height=250,
        x_range=Range1d(start, 1.005),
        y_range=Range1d(0, 1.01),
        x_axis_label=axis,
        y_axis_label=f"share of {among}",
    )
    drawn.xaxis.ticker = FixedTicker(ticks=[round(0.1 * i, 1) for i in range(11)])
    if chance is not None:
        mark = Span(location=chance, dimension="height", line_color=NEUTRAL, line_dash="4 4")
        drawn.add_layout(mark)
    lines = []
    for index, values in series.items():
        x, y = _steps(values, start)
        data = {"number": x, "share": y}
        line = drawn.step(
            "number",
            "share",
            source=data,
            mode="after",
            name=names[index],
            line_color=colour(index),
            line_width=2,
            line_dash=dash(index),
        )
        lines.append(line)
    tips = [
        ("curve", "$name"),
        (f"share of {among}", "@share{0 %}"),
        ("up to", "@number{0.000}"),
    ]
    drawn.add_tools(HoverTool(renderers=lines, tooltips=tips, line_policy="prev"))
    return drawn


def _steps(values: Floats, start: float) -> tuple[list[float], list[float]]:
    x, counts = np.unique(values, return_counts=True)
    y = np.cumsum(counts) / len(values)
    if len(x) > _MAX_POINTS:
        # the curve cannot show more steps than it has pixels
        keep = np.unique(np.linspace(0, len(x) - 1, _MAX_POINTS).astype(int))
        x, y = x[keep], y[keep]
    # four digits are finer than a pixel and keep the file small
    return [start, *np.round(x, 4).tolist(), 1.01], [0.0, *np.round(y, 4).tolist(), 1.0]
