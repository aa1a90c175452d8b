"""Numbers over epochs, and over releases with the verdict on each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, Range1d
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.reporting.figures.frame import Floats, colour, dash, panel
from clusterscale.reporting.section import fill


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
class ReleaseAxis:
    """The releases along the axis: their names in tooltips, and verdicts with display words."""

    names: Sequence[str]
    periods: Sequence[str]
    verdicts: Sequence[str]
    words: Sequence[str]


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
    return fill("verdict.html.j2", word=word, colour=hue, shape=shape)


def course_legend(names: Sequence[str], verdicts: Mapping[str, str]) -> Markup:
    """Return the legend of series and verdict marks as HTML."""
    lines = [(name, colour(i), dash(i)) for i, name in zip(_LINES, names, strict=False)]
    marks = [verdict_mark(verdict, word) for verdict, word in verdicts.items()]
    return fill("course_legend.html.j2", lines=lines, marks=marks)


def draw_time_series(
    drawn: Sequence[Course],
    judged: ReleaseAxis,
    *,
    axis: str,
    span: tuple[float, float] | None = None,
) -> Any:
    """Draw up to three numbers over releases, a line each, with verdict marks on the first.

    With a ``span`` of the vertical axis, a release without a number is marked at its low end;
    otherwise it is not drawn. Bars are intervals.
    """
    n = len(judged.names)
    box = panel(height=300 if span else 250, x_axis_label="release, in order", y_axis_label=axis)
    box.x_range = Range1d(0.4, n + 0.6)
    box.xaxis.ticker = FixedTicker(ticks=_ticks(n))
    if span:
        reach = 0.03 * (span[1] - span[0])
        box.y_range = Range1d(span[0] - reach, span[1] + reach)
    data: dict[str, list[Any]] = {"place": list(range(1, n + 1))}
    data |= {f"y{i}": [_short(value) for value in course.values] for i, course in enumerate(drawn)}
    source = ColumnDataSource(dict(data))
    for index, course in enumerate(drawn):
        look = {"line_color": colour(_LINES[index]), "line_dash": dash(_LINES[index])}
        box.line("place", f"y{index}", source=source, line_width=1.5, **look)
        _bars(box, course, colour(_LINES[index]))
        if index and n <= _ROOMY:  # a number between unknown ones has no line
            box.scatter("place", f"y{index}", source=source, size=3, color=colour(_LINES[index]))
    marks = _marks(box, data, judged, span[0] if span else None)
    tips = [("release", "@release"), ("period", "@period"), ("verdict", "@verdict")]
    tips += [(course.name, f"@y{index}{{0.000}}") for index, course in enumerate(drawn)]
    box.add_tools(HoverTool(renderers=marks, tooltips=tips))
    return box


def _ticks(n: int) -> list[int]:
    """Return at most a dozen whole numbers up to n, round ones if there are many."""
    step = next(s * 10**k for k in range(12) for s in (1, 2, 5) if n <= _N_TICKS * s * 10**k)
    return list(range(step, n + 1, step))


def _marks(
    box: Any, numbers: Mapping[str, list[Any]], judged: ReleaseAxis, floor: float | None
) -> list[Any]:
    """Mark every release on the first line, in the order of verdicts, with the worst on top."""
    labels = {"release": judged.names, "period": judged.periods, "verdict": judged.words}
    data, drawn = {**numbers, **labels}, []
    for verdict, (hue, shape, size) in _MARKS.items():
        chosen = [i for i, name in enumerate(judged.verdicts) if name == verdict]
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
