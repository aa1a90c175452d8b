"""How numbers go over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bokeh.models import HoverTool
from numpy.typing import NDArray

from clusterscale.report.figures.frame import Floats, panel
from clusterscale.report.figures.looks import colour, dash

__all__ = ["curves"]


def curves(epochs: NDArray[Any], series: Mapping[int, Floats], names: Sequence[str]) -> Any:
    """Draw the mean error of each epoch, a line a strategy (PETS17 Fig. 6).

    ``series`` maps the index of a strategy to its error in each of ``epochs``.
    """
    drawn = panel(height=250, x_axis_label="epoch", y_axis_label="mean error")
    lines = []
    for index, values in series.items():
        data = {"epoch": epochs.tolist(), "error": np.round(values, 4).tolist()}
        line = drawn.line(
            "epoch",
            "error",
            source=data,
            name=names[index],
            line_color=colour(index),
            line_width=1.5,
            line_dash=dash(index),
        )
        lines.append(line)
    tips = [("strategy", "$name"), ("epoch", "@epoch"), ("error", "@error{0.000}")]
    drawn.add_tools(HoverTool(renderers=lines, tooltips=tips))
    return drawn
