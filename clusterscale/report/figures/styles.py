"""Styles that distinguish series: colours, dashes and marks, with legends in HTML."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from clusterscale.report.section import fill

__all__ = ["NEUTRAL", "WARNING", "colour", "dash", "legend", "marks", "style_of"]

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
