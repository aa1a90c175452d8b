"""Box plots of a number over targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bokeh.models import FixedTicker, HoverTool, Range1d

from clusterscale.report.figures.frame import Floats, panel
from clusterscale.report.figures.styles import colour

__all__ = ["boxes", "quartiles"]


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
