"""Empty panels, and embedding of figures in a page."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from bokeh.embed import json_item
from bokeh.plotting import figure
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.report.figures.styles import NEUTRAL
from clusterscale.report.section import fill

__all__ = ["Floats", "panel", "plot"]

Floats = NDArray[np.float64]


def panel(**options: Any) -> Any:
    """Return an empty Bokeh figure in the style of the page."""
    drawn = figure(
        tools="",
        toolbar_location=None,
        sizing_mode="stretch_width",
        min_width=200,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        **options,
    )
    for axis in drawn.axis:
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_color = axis.major_label_text_color = NEUTRAL
        axis.axis_line_color = axis.major_tick_line_color = NEUTRAL
        axis.minor_tick_line_color = None
    drawn.grid.grid_line_color = NEUTRAL
    drawn.grid.grid_line_alpha = 0.22
    return drawn


def plot(model: Any, *, slug: str, title: str, description: str) -> Markup:
    """Return a Bokeh model as HTML, with its title and a description for screen readers.

    ``slug`` identifies the figure. The model's identifiers are the same in every rendering.
    """
    item = _stable(json_item(model))
    text = json.dumps(item, separators=(",", ":")).replace("<", "\\u003c")
    return fill(
        "figure.html.j2", slug=slug, title=title, description=description, item=Markup(text)
    )


def _stable(item: Any) -> Any:
    """Return the model with identifiers counted from 1; Bokeh counts over the whole process.

    The page's script adds the figure's position as a prefix, so that they are unique on the page.
    """
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
        return known.setdefault(value, str(len(known) + 1))

    return walk(dict(item))
