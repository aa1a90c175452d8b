"""Distributions of a number over people: cumulative curves, box plots, and small strips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

import numpy as np
from bokeh.models import FixedTicker, HoverTool, Range1d, Span
from markupsafe import Markup

from clusterscale.reporting.figures.frame import NEUTRAL, Floats, colour, dash, panel, style_of
from clusterscale.reporting.section import fill, number

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
        mark.name = "guessing"
        drawn.add_layout(mark)
    lines = []
    for index, values in series.items():
        x, y = _cumulate(values, start)
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


def _cumulate(values: Floats, start: float) -> tuple[list[float], list[float]]:
    x, counts = np.unique(values, return_counts=True)
    y = np.cumsum(counts) / len(values)
    if len(x) > _MAX_POINTS:
        # the curve cannot show more steps than it has pixels
        keep = np.unique(np.linspace(0, len(x) - 1, _MAX_POINTS).astype(int))
        x, y = x[keep], y[keep]
    # four digits are finer than a pixel and keep the file small
    return [start, *np.round(x, 4).tolist(), 1.01], [0.0, *np.round(y, 4).tolist(), 1.0]


def boxes(
    groups: Sequence[tuple[int, Mapping[int, Floats]]],
    names: Sequence[str],
    *,
    across: str = "group size",
) -> Any:
    """Draw the privacy loss of targets as box plots, by attack and the horizontal axis.

    ``across`` is the label of that axis: the group size (NDSS18 Fig. 3) or the number of a period
    (Fig. 11). A box spans the quartiles, whiskers extend to the furthest target within 1.5 times
    its height (Tukey), circles are targets beyond, and the diamond is the mean.
    """
    drawn = panel(
        height=300,
        y_range=Range1d(-0.03, 1.03),
        x_axis_label=across,
        y_axis_label="privacy loss",
    )
    width, ticks = len(names) + 1, {}
    summaries: list[dict[str, Any]] = []
    beyond: list[tuple[float, float, str]] = []
    for position, (size, series) in enumerate(groups):
        ticks[position * width + (len(names) - 1) / 2] = str(size)
        for index, values in series.items():
            x = position * width + index
            box = quartiles(values) | {"x": x, "attack": names[index], "size": size}
            summaries.append(box | {"colour": colour(index)})
            outside = values[(values < box["low"]) | (values > box["high"])]
            beyond += [(x, float(value), colour(index)) for value in np.unique(outside)]
    drawn.x_range = Range1d(-1, len(groups) * width - 1)
    drawn.xaxis.ticker = FixedTicker(ticks=list(ticks))
    drawn.xaxis.major_label_overrides = ticks
    drawn.xgrid.grid_line_color = None
    _draw_boxes(drawn, summaries, beyond, across)
    return drawn


def brackets(lows: Floats, ceilings: Floats) -> Any:
    """Draw a line from the lower limit of the AUC of each person to the ceiling, in that order.

    Parameters
    ----------
    lows, ceilings
        Lower limit of the AUC of the best attack, and the highest of any adversary, float64, shape
        (person,).
    """
    low, high = (np.round(values, 4).tolist() for values in (lows, ceilings))
    at = list(range(1, len(low) + 1))
    drawn = panel(
        height=240,
        x_range=Range1d(0, len(at) + 1),
        y_range=Range1d(min(0.4, *low) - 0.02, 1.02),
        x_axis_label="people, in the order of their ceilings",
        y_axis_label="AUC",
    )
    drawn.xaxis.ticker = FixedTicker(ticks=[])
    drawn.xgrid.grid_line_color = None
    mark = Span(location=0.5, dimension="width", line_color=NEUTRAL, line_dash="4 4")
    mark.name = "guessing"
    drawn.add_layout(mark)
    source = {"x": at, "low": low, "high": high, "hue": [NEUTRAL] * len(at)}
    drawn.segment("x", "low", "x", "high", source=source, line_color="hue", line_width=1)
    tips = [("at least", "@low{0.000}"), ("certified", "@high{0.000}")]
    for index, name in enumerate(("low", "high")):
        hue, shape = style_of(index)
        look = {"marker": shape, "line_color": hue, "fill_color": hue, "fill_alpha": 0.4}
        dots = drawn.scatter("x", name, size=5, source=source, **look)
        drawn.add_tools(HoverTool(renderers=[dots], tooltips=tips))
    return drawn


def quartiles(values: Floats) -> dict[str, Any]:
    """Return the numbers of a box, ``low q1 median q3 high mean``, and ``n`` values."""
    q1, median, q3 = (float(q) for q in np.quantile(values, (0.25, 0.5, 0.75)))
    reach = 1.5 * (q3 - q1)
    inside = values[(values >= q1 - reach) & (values <= q3 + reach)]
    ends = {"low": float(inside.min()), "high": float(inside.max())}
    middle = {"q1": q1, "median": median, "q3": q3, "mean": float(values.mean())}
    return ends | middle | {"n": len(values)}


def _draw_boxes(
    drawn: Any,
    summaries: list[dict[str, Any]],
    beyond: list[tuple[float, float, str]],
    across: str,
) -> None:
    data = {key: [box[key] for box in summaries] for key in summaries[0]}
    line = {"line_color": "colour", "line_width": 1.5, "source": data}
    drawn.segment("x", "low", "x", "q1", **line)
    drawn.segment("x", "q3", "x", "high", **line)
    body = drawn.vbar("x", 0.72, "q3", "q1", fill_color="colour", fill_alpha=0.28, **line)
    half = 0.36
    data["left"] = [x - half for x in data["x"]]
    data["right"] = [x + half for x in data["x"]]
    drawn.segment(
        "left", "median", "right", "median", line_color="colour", line_width=3, source=data
    )
    drawn.scatter("x", "mean", marker="diamond", size=8, color="colour", source=data)
    x, y, colours = zip(*beyond, strict=True) if beyond else ((), (), ())
    drawn.scatter(list(x), list(y), size=4, line_color=list(colours), fill_color=None)
    tips = [("attack", "@attack"), (across, "@size"), ("targets", "@n")]
    tips += [(name, f"@{name}{{0.000}}") for name in ("median", "mean", "q1", "q3")]
    drawn.add_tools(HoverTool(renderers=[body], tooltips=tips))


_LEFT, _WIDTH = 2.0, 96.0  # per cent, so that marks at the ends are not cut off


def strip(values: Floats, colour: str) -> Markup:
    """Draw values between 0 and 1 as a box with Tukey's whiskers; nothing if there are none."""
    if not len(values):
        return Markup("")
    box = quartiles(values)
    outside = values[(values < box["low"]) | (values > box["high"])]
    positions = {key: _place(box[key]) for key in ("low", "q1", "median", "q3", "high", "mean")}
    return fill(
        "box.html.j2",
        colour=colour,
        width=_percent(_WIDTH * (box["q3"] - box["q1"])),
        zero=_place(0.0),
        one=_place(1.0),
        # hundredths are finer than a pixel and keep the file small
        beyond=sorted({_place(round(float(value), 2)) for value in outside}),
        **positions,
    )


def _place(share: float) -> str:
    return _percent(_LEFT + _WIDTH * min(max(share, 0.0), 1.0))


def boxed(values: Floats, colour: str) -> dict[str, object]:
    """Return the strip of values with their median and mean as text, for a row of a table."""
    known = len(values) > 0
    median, mean = (float(np.median(values)), float(values.mean())) if known else (nan, nan)
    return {"strip": strip(values, colour), "median": number(median), "mean": number(mean)}


def _percent(value: float) -> str:
    return f"{value:.1f}%"
