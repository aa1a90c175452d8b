"""Line plots over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bokeh.models import HoverTool
from numpy.typing import NDArray

from clusterscale.report.figures.frame import Floats, panel
from clusterscale.report.figures.styles import colour, dash

__all__ = ["curves"]


def curves(
    epochs: NDArray[Any],
    series: Mapping[int, Floats],
    names: Sequence[str],
    *,
    axis: str = "mean error",
) -> Any:
    """Draw a number in each epoch, a line per name (PETS17 Fig. 6, POMACS20 Fig. 4).

    ``series`` maps the index of a name to its number in each of ``epochs``; ``axis`` is the label
    of the vertical axis.
    """
    drawn = panel(height=250, x_axis_label="epoch", y_axis_label=axis)
    lines = []
    for index, values in series.items():
        data = {"epoch": epochs.tolist(), "number": [float(f"{v:.4g}") for v in values]}
        line = drawn.line(
            "epoch",
            "number",
            source=data,
            name=names[index],
            line_color=colour(index),
            line_width=1.5,
            line_dash=dash(index),
        )
        lines.append(line)
    tips = [("curve", "$name"), ("epoch", "@epoch"), (axis, "@number{0.0000}")]
    drawn.add_tools(HoverTool(renderers=lines, tooltips=tips))
    return drawn
