"""Figures: Bokeh models described as JSON inside the page, drawn by the page's script.

Text that comes from the data never becomes a label of a figure: BokehJS would read ``$$…$$`` in
it as mathematics and ask the network for a renderer. Such text stands in HTML beside the figure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bokeh.embed import json_item
from bokeh.models import FixedTicker, HoverTool, Range1d, Span
from bokeh.plotting import figure
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.report.section import fill

__all__ = ["boxes", "distributions", "legend", "plot"]

# Each has a contrast of at least 3 with the light and with the dark page, so that a printed or a
# switched page needs no second drawing; dashes tell them apart without colour.
_COLOURS = ("#2f7fc4", "#cf6a1f", "#1d9a6c", "#b35cc4", "#8a8420", "#d0527c", "#2a96a5", "#83776c")
_DASHES = ("solid", "dashed", "dotdash", "dotted")
_NEUTRAL = "#767676"
_MAX_POINTS = 400

Floats = NDArray[np.float64]


def colour(index: int) -> str:
    """Return the colour of the series ``index``."""
    return _COLOURS[index % len(_COLOURS)]


def dash(index: int) -> str:
    """Return the dash pattern of the series ``index``."""
    return _DASHES[(index + index // len(_COLOURS)) % len(_DASHES)]  # no pair returns before 32


def legend(names: Sequence[str], *, dashed: bool = True) -> Markup:
    """Name the series in HTML, in the order of their colours."""
    marks = [(name, colour(i), dash(i) if dashed else "box") for i, name in enumerate(names)]
    return fill("legend.html.j2", marks=marks)


def plot(model: Any, *, slug: str, title: str, description: str) -> Markup:
    """Embed a Bokeh model with its title and its alternative in words.

    ``slug`` is unique on the page; it makes the model's identifiers the same in every rendering.
    """
    item = _stable(json_item(model), slug)
    text = json.dumps(item, separators=(",", ":")).replace("<", "\\u003c")
    return fill(
        "figure.html.j2", slug=slug, title=title, description=description, item=Markup(text)
    )


def distributions(series: Mapping[int, Floats], names: Sequence[str], *, start: float) -> Any:
    """Draw the CDF over targets of the AUC of each attack (NDSS18 Figs 2 and 4).

    ``series`` maps the index of an attack to the AUC of its finished targets, ``start`` is the
    left end of the axis.
    """
    panel = _panel(
        height=250,
        x_range=Range1d(start, 1.005),
        y_range=Range1d(0, 1.01),
        x_axis_label="AUC of a target",
        y_axis_label="share of targets",
    )
    panel.xaxis.ticker = FixedTicker(ticks=[round(0.1 * i, 1) for i in range(11)])
    panel.add_layout(Span(location=0.5, dimension="height", line_color=_NEUTRAL, line_dash="4 4"))
    lines = []
    for index, values in series.items():
        x, y = _steps(values, start)
        data = {"auc": x, "share": y}
        line = panel.step(
            "auc",
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
        ("attack", "@attack"),
        ("share of targets", "@share{0 %}"),
        ("AUC up to", "@auc{0.000}"),
    ]
    panel.add_tools(HoverTool(renderers=lines, tooltips=tips, line_policy="prev"))
    return panel


def boxes(groups: Sequence[tuple[int, Mapping[int, Floats]]], names: Sequence[str]) -> Any:
    """Draw the privacy loss of targets as boxes, by group size and attack (NDSS18 Fig. 3).

    A box spans the quartiles, whiskers reach the furthest target within 1.5 times its height
    (Tukey), circles are targets beyond, the diamond is the mean.
    """
    panel = _panel(
        height=300,
        y_range=Range1d(-0.03, 1.03),
        x_axis_label="group size",
        y_axis_label="privacy loss",
    )
    width, ticks = len(names) + 1, {}
    summaries: list[dict[str, Any]] = []
    beyond: list[tuple[float, float, str]] = []
    for position, (size, series) in enumerate(groups):
        ticks[position * width + (len(names) - 1) / 2] = str(size)
        for index, values in series.items():
            x = position * width + index
            box = _box(values) | {"x": x, "attack": names[index], "size": size}
            summaries.append(box | {"colour": colour(index)})
            outside = values[(values < box["low"]) | (values > box["high"])]
            beyond += [(x, float(value), colour(index)) for value in np.unique(outside)]
    panel.x_range = Range1d(-1, len(groups) * width - 1)
    panel.xaxis.ticker = FixedTicker(ticks=list(ticks))
    panel.xaxis.major_label_overrides = ticks
    panel.xgrid.grid_line_color = None
    _draw_boxes(panel, summaries, beyond)
    return panel


def _draw_boxes(
    panel: Any, summaries: list[dict[str, Any]], beyond: list[tuple[float, float, str]]
) -> None:
    data = {key: [box[key] for box in summaries] for key in summaries[0]}
    line = {"line_color": "colour", "line_width": 1.5, "source": data}
    panel.segment("x", "low", "x", "q1", **line)
    panel.segment("x", "q3", "x", "high", **line)
    body = panel.vbar("x", 0.72, "q3", "q1", fill_color="colour", fill_alpha=0.28, **line)
    half = 0.36
    data["left"] = [x - half for x in data["x"]]
    data["right"] = [x + half for x in data["x"]]
    panel.segment(
        "left", "median", "right", "median", line_color="colour", line_width=3, source=data
    )
    panel.scatter("x", "mean", marker="diamond", size=8, color="colour", source=data)
    x, y, colours = zip(*beyond, strict=True) if beyond else ((), (), ())
    panel.scatter(list(x), list(y), size=4, line_color=list(colours), fill_color=None)
    tips = [("attack", "@attack"), ("group size", "@size"), ("targets", "@n")]
    tips += [(name, f"@{name}{{0.000}}") for name in ("median", "mean", "q1", "q3")]
    panel.add_tools(HoverTool(renderers=[body], tooltips=tips))


def _panel(**options: Any) -> Any:
    panel = figure(
        tools="",
        toolbar_location=None,
        sizing_mode="stretch_width",
        min_width=200,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        **options,
    )
    for axis in panel.axis:
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_color = axis.major_label_text_color = _NEUTRAL
        axis.axis_line_color = axis.major_tick_line_color = _NEUTRAL
        axis.minor_tick_line_color = None
    panel.grid.grid_line_color = _NEUTRAL
    panel.grid.grid_line_alpha = 0.22
    return panel


def _steps(values: Floats, start: float) -> tuple[list[float], list[float]]:
    x, counts = np.unique(values, return_counts=True)
    y = np.cumsum(counts) / len(values)
    if len(x) > _MAX_POINTS:
        # the curve cannot show more steps than it has pixels
        keep = np.unique(np.linspace(0, len(x) - 1, _MAX_POINTS).astype(int))
        x, y = x[keep], y[keep]
    # four digits are finer than a pixel and keep the file small
    return [start, *np.round(x, 4).tolist(), 1.01], [0.0, *np.round(y, 4).tolist(), 1.0]


def _box(values: Floats) -> dict[str, Any]:
    q1, median, q3 = (float(q) for q in np.quantile(values, (0.25, 0.5, 0.75)))
    reach = 1.5 * (q3 - q1)
    inside = values[(values >= q1 - reach) & (values <= q3 + reach)]
    ends = {"low": float(inside.min()), "high": float(inside.max())}
    middle = {"q1": q1, "median": median, "q3": q3, "mean": float(values.mean())}
    return ends | middle | {"n": len(values)}


def _stable(item: Any, slug: str) -> Any:
    """Count identifiers from 1 within the figure; Bokeh counts through the whole process."""
    known: dict[str, str] = {}

    def walk(node: Any) -> Any:
        if isinstance(node, list):
            return [walk(part) for part in node]
        if not isinstance(node, dict):
            return node
        return {key: rename(v) if key in ("id", "root_id") else walk(v) for key, v in node.items()}

    def rename(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return known.setdefault(value, f"{slug}-{len(known) + 1}")

    return walk(dict(item))
