"""Numbers over people, epochs and releases: cumulative curves, boxes, strips, time series."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, Span
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.phrases import RELEASE_VERDICTS, at_most
from clusterscale.release.verdict import Verdict
from clusterscale.reporting.figures.single import NEUTRAL, Floats, colour, dash, panel, style_of
from clusterscale.reporting.section import fill_part, number

_MAX_POINTS = 400


def distributions(
    series: Mapping[int, Floats],
    names: Sequence[str],
    *,
    start: float,
    end: float = 1.0,
    axis: str = "AUC of a target",
    among: str = "targets",
    chance: float | None = 0.5,
) -> Any:
    """Draw CDFs of a number from ``start`` to ``end`` (NDSS18 Figs 2, 4, PETS17 Figs 1 to 5).

    ``series`` maps the index of a name to the numbers, ``axis`` is their label, ``among`` a noun
    for the people, and ``chance`` the value marked on the axis.
    """
    drawn = panel(250, axis, f"share of {among}", x=(start, 1.005 * end), y=(0, 1.01))
    if end == 1:
        drawn.xaxis.ticker = FixedTicker(ticks=[round(0.1 * i, 1) for i in range(11)])
    if chance is not None:
        _mark_guessing(drawn, chance, "height")
    lines = []
    for index, values in series.items():
        x, y = _cumulate(values, start, end)
        look = _look(index, names) | {"source": {"number": x, "share": y}}
        lines.append(drawn.step("number", "share", mode="after", line_width=2, **look))
    tips = [
        ("curve", "$name"),
        (f"share of {among}", "@share{0 %}"),
        ("up to", "@number{0.000}"),
    ]
    drawn.add_tools(HoverTool(renderers=lines, tooltips=tips, line_policy="prev"))
    return drawn


def _mark_guessing(drawn: Any, location: float, dimension: str) -> None:
    mark = Span(location=location, dimension=dimension, line_color=NEUTRAL, line_dash="4 4")
    mark.name = "guessing"
    drawn.add_layout(mark)


def _look(index: int, names: Sequence[str]) -> dict[str, Any]:
    """Return the name, colour and dashes of the line of a series."""
    return {"name": names[index], "line_color": colour(index), "line_dash": dash(index)}


def _cumulate(values: Floats, start: float, end: float) -> tuple[list[float], list[float]]:
    x, counts = np.unique(values, return_counts=True)
    y = np.cumsum(counts) / len(values)
    if len(x) > _MAX_POINTS:
        # the curve cannot show more steps than it has pixels
        keep = np.unique(np.linspace(0, len(x) - 1, _MAX_POINTS).astype(int))
        x, y = x[keep], y[keep]
    # four digits are finer than a pixel and keep the file small
    return [start, *np.round(x, 4).tolist(), 1.01 * end], [0.0, *np.round(y, 4).tolist(), 1.0]


def boxes(
    groups: Sequence[tuple[int | str, Mapping[int, Floats]]],
    names: Sequence[str],
    *,
    across: str = "group size",
    axis: str = "privacy loss",
) -> Any:
    """Draw numbers of targets as box plots, by series and the horizontal axis.

    ``across`` is its label, as the group size in NDSS18 Fig. 3; ``axis`` is that of the number.
    Whiskers extend to the furthest target within 1.5 times the box (Tukey); the diamond is the
    mean.
    """
    width, ticks = len(names) + 1, {}
    drawn = panel(300, across, axis, x=(-1, len(groups) * width - 1), y=(-0.03, 1.03))
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
    drawn.xaxis.ticker = FixedTicker(ticks=list(ticks))
    drawn.xaxis.major_label_overrides = ticks
    drawn.xgrid.grid_line_color = None
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
    at, numbers, colours = ([one[i] for one in beyond] for i in range(3))
    drawn.scatter(at, numbers, size=4, line_color=colours, fill_color=None)
    tips = [("attack", "@attack"), (across, "@size"), ("targets", "@n")]
    tips += [(name, f"@{name}{{0.000}}") for name in ("median", "mean", "q1", "q3")]
    drawn.add_tools(HoverTool(renderers=[body], tooltips=tips))
    return drawn


def brackets(lows: Floats, ceilings: Floats) -> Any:
    """Draw a line from the lower limit of the AUC of each person to the ceiling, in that order.

    ``lows`` and ``ceilings``: float64, shape (person,).
    """
    low, high = np.round(lows, 4).tolist(), (np.ceil(1e4 * ceilings - 1e-5) / 1e4).tolist()
    at = list(range(1, len(low) + 1))
    across, bottom = "people, in the order of their ceilings", min(0.4, *low) - 0.02
    drawn = panel(240, across, "AUC", x=(0, len(at) + 1), y=(bottom, 1.02))
    drawn.xaxis.ticker = FixedTicker(ticks=[])
    drawn.xgrid.grid_line_color = None
    _mark_guessing(drawn, 0.5, "width")
    told = list(map(at_most, ceilings))
    source = {"x": at, "low": low, "high": high, "told": told, "hue": [NEUTRAL] * len(at)}
    drawn.segment("x", "low", "x", "high", source=source, line_color="hue", line_width=1)
    tips = [("at least", "@low{0.000}"), ("certified", "@told")]
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


_LEFT, _WIDTH = 2.0, 96.0  # per cent, so that marks at the ends are not cut off


def strip(values: Floats, colour: str) -> Markup:
    """Draw values between 0 and 1 as a box with Tukey's whiskers; nothing if there are none."""
    if not len(values):
        return Markup("")
    box = quartiles(values)
    outside = values[(values < box["low"]) | (values > box["high"])]
    positions = {key: _place(box[key]) for key in ("low", "q1", "median", "q3", "high", "mean")}
    return fill_part(
        "cells.box",
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


def curves(
    epochs: NDArray[Any],
    series: Mapping[int, Floats],
    names: Sequence[str],
    *,
    axis: str = "mean error",
    across: str = "epoch",
    log: str = "",
) -> Any:
    """Draw a number in each epoch, a line per name (PETS17 Fig. 6, POMACS20 Fig. 4).

    ``series`` maps the index of a name to its number in each of ``epochs``, or other values;
    ``across`` and ``axis`` are the labels of the axes, and ``log`` has those that are logarithmic.
    """
    kinds: Any = {f"{side}_axis_type": "log" if side in log else "linear" for side in "xy"}
    drawn = panel(250, across, axis, **kinds)
    lines = []
    for index, values in series.items():
        data = {"epoch": epochs.tolist(), "number": [float(f"{v:.4g}") for v in values]}
        look = _look(index, names) | {"source": data}
        lines.append(drawn.line("epoch", "number", line_width=1.5, **look))
    tips = [("curve", "$name"), (across, "@epoch"), (axis, "@number{0.0000}")]
    drawn.add_tools(HoverTool(renderers=lines, tooltips=tips))
    return drawn


_LINES = (0, 3, 6)  # styles of the series, in colours that no verdict has
# Verdicts differ in shape and size as well as colour: marks of passed releases are small.
_MARKS = {
    "pass": (colour(2), "circle", 5),
    "warn": (colour(1), "triangle", 10),
    "fail": (colour(5), "square", 10),
}
_ROOMY = 80  # releases beyond which marks are smaller
_N_TICKS = 12


@dataclass(frozen=True, slots=True)
class Course:
    """A number of each release, NaN = unknown, and the ends of its interval, if any."""

    name: str
    values: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


def verdict_mark(verdict: str, word: str) -> Markup:
    """Return the word of a verdict after its mark in figures."""
    hue, shape, _ = _MARKS[verdict]
    return fill_part("cells.verdict", word=word, colour=hue, shape=shape)


def course_legend(names: Sequence[str]) -> Markup:
    """Return the legend of series and verdict marks as HTML."""
    lines = [(name, colour(i), dash(i)) for i, name in zip(_LINES, names, strict=False)]
    marks = [verdict_mark(verdict, word) for verdict, word in RELEASE_VERDICTS.items()]
    return fill_part("legends.courses", lines=lines, marks=marks)


def draw_time_series(
    drawn: Sequence[Course],
    releases: Sequence[Verdict],
    *,
    axis: str,
    span: tuple[float, float] | None = None,
) -> Any:
    """Draw up to three numbers over releases, a line each, with verdict marks on the first.

    With a ``span`` of the vertical axis, a release without a number is marked at its low end;
    otherwise it is not drawn. Bars are intervals.
    """
    n = len(releases)
    reach = 0.03 * (span[1] - span[0]) if span else 0.0
    up = (span[0] - reach, span[1] + reach) if span else None
    box = panel(300 if span else 250, "release, in order", axis, x=(0.4, n + 0.6), y=up)
    box.xaxis.ticker = FixedTicker(ticks=_ticks(n))
    data: dict[str, list[Any]] = {"place": list(range(1, n + 1))}
    data |= {f"y{i}": [_short(value) for value in course.values] for i, course in enumerate(drawn)}
    source = ColumnDataSource(dict(data))
    for index, course in enumerate(drawn):
        look = {"line_color": colour(_LINES[index]), "line_dash": dash(_LINES[index])}
        box.line("place", f"y{index}", source=source, line_width=1.5, **look)
        _bars(box, course, colour(_LINES[index]))
        if index and n <= _ROOMY:  # a number between unknown ones has no line
            box.scatter("place", f"y{index}", source=source, size=3, color=colour(_LINES[index]))
    marks = _marks(box, data, releases, span[0] if span else None)
    tips = [("release", "@release"), ("period", "@period"), ("verdict", "@verdict")]
    tips += [(course.name, f"@y{index}{{0.000}}") for index, course in enumerate(drawn)]
    box.add_tools(HoverTool(renderers=marks, tooltips=tips))
    return box


def _ticks(n: int) -> list[int]:
    """Return at most a dozen whole numbers up to n, round ones if there are many."""
    step = next(s * 10**k for k in range(12) for s in (1, 2, 5) if n <= _N_TICKS * s * 10**k)
    return list(range(step, n + 1, step))


def _marks(
    box: Any, numbers: Mapping[str, list[Any]], releases: Sequence[Verdict], floor: float | None
) -> list[Any]:
    """Mark every release on the first line, in the order of verdicts, with the worst on top."""
    data, drawn = {**numbers}, []
    data |= {name: [getattr(one, name) for one in releases] for name in ("release", "period")}
    data["verdict"] = [RELEASE_VERDICTS[one.verdict] for one in releases]
    for verdict, (hue, shape, size) in _MARKS.items():
        chosen = [i for i, one in enumerate(releases) if one.verdict == verdict]
        if floor is None:
            chosen = [i for i in chosen if isfinite(data["y0"][i])]
        if not chosen:
            continue
        part = {name: [values[i] for i in chosen] for name, values in data.items()}
        part["mark"] = [y if isfinite(y) else floor for y in part["y0"]]
        drawn.append(
            box.scatter(
                "place",
                "mark",
                source=ColumnDataSource(part),
                marker=shape,
                size=size if len(data["place"]) <= _ROOMY else 0.6 * size,
                color=hue,
            )
        )
    return drawn


def _bars(box: Any, course: Course, hue: str) -> None:
    if course.low is None or course.high is None:
        return
    ends = [
        (place, _short(low), _short(high))
        for place, (low, high) in enumerate(zip(course.low, course.high, strict=True), 1)
        if isfinite(low) and isfinite(high)
    ]
    place, low, high = ([end[i] for end in ends] for i in range(3))
    box.segment(place, low, place, high, line_color=hue, line_width=4, line_alpha=0.35)


def _short(value: float) -> float:
    # four digits are finer than a pixel; infinite values cannot be drawn
    return float(f"{value:.4g}") if isfinite(value) else float("nan")
