"""Empty panels, embedding of figures in a page, and the styles that distinguish series."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh import __version__
from bokeh.document import Document
from bokeh.plotting import figure
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.reporting.section import fill

# Each has a contrast of at least 3 with the light and with the dark page, so that figures need not
# be redrawn for either; dashes and shapes distinguish series without colour.
_COLOURS = ("#2f7fc4", "#cf6a1f", "#1d9a6c", "#b35cc4", "#8a8420", "#d0527c", "#2a96a5", "#83776c")
_DASHES = ("solid", "dashed", "dotdash", "dotted")
_SHAPES = ("circle", "square", "triangle", "diamond", "inverted_triangle")
NEUTRAL = "#767676"
WARNING = "#d0342c"


def colour(index: int) -> str:
    """Return the colour of the series ``index``."""
    return _COLOURS[index % len(_COLOURS)]


def dash(index: int) -> str:
    """Return the dash pattern of the series ``index``."""
    return _DASHES[(index + index // len(_COLOURS)) % len(_DASHES)]  # no pair repeats before 32


def style_of(index: int) -> tuple[str, str]:
    """Return the colour and the shape of the mark ``index``; no pair repeats before 40."""
    return colour(index), _SHAPES[(index + index // len(_COLOURS)) % len(_SHAPES)]


def legend(names: Sequence[str], *, dashed: bool = True) -> Markup:
    """Return the legend of series as HTML, in the order of their colours."""
    series = [(name, colour(i), dash(i) if dashed else "box") for i, name in enumerate(names)]
    return fill("legend.html.j2", marks=series)


def marks(names: Sequence[str], *, line: str, crossed: str = "") -> Markup:
    """Return the legend of a scatter plot as HTML: its marks in order, and its dashed line.

    ``crossed`` explains marks that are crossed out; empty if there are none.
    """
    series = [(name, *style_of(i)) for i, name in enumerate(names)]
    colours = {"neutral": NEUTRAL, "warning": WARNING}
    return fill("marks.html.j2", marks=series, line=line, crossed=crossed, **colours)


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
    document = Document(title="")
    document.add_root(model)
    item = _stable(
        {  # as from bokeh.embed.json_item, which takes half as long again
            "target_id": None,
            "root_id": model.id,
            "doc": document.to_json(deferred=False),
            "version": __version__,
        }
    )
    document.remove_root(model)
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

    return walk(item)
