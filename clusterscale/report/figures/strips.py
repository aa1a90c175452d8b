"""Horizontal box plots in table cells, without script."""

from __future__ import annotations

from markupsafe import Markup

from clusterscale.report.figures.boxes import quartiles
from clusterscale.report.figures.frame import Floats
from clusterscale.report.section import fill

__all__ = ["strip"]

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


def _percent(value: float) -> str:
    return f"{value:.1f}%"
