"""Pictures of figures for papers: PNG, SVG or PDF, drawn by matplotlib.

The Bokeh model of a figure is read and drawn again: lines, steps, bars, segments and marks, which
is all that figures of audits have. Text is drawn as it is, never as mathematics.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import Any

from bokeh.models import FixedTicker, LogScale, Span

from clusterscale.errors import PackageError
from clusterscale.reporting.figures.frame import colour, style_of

_SIZE = (5.0, 2.8)  # inches, without the legend; a column of a paper is about 3.4 wide
_LEGEND_LINE = 0.19  # inches
_DPI = 200
_LINE = 60  # characters of a title, or of a line of the legend
_DASHES = {(): "solid", (6,): "dashed", (2, 4): "dotted", (2, 4, 6, 4): "dashdot"}
_MARKS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D", "inverted_triangle": "v"}
_MARKS |= {"x": "x"}


def to_bytes(model: Any, title: str, names: Sequence[str], form: str) -> bytes:
    """Return a figure as a picture.

    Parameters
    ----------
    model
        A Bokeh figure.
    title, names
        Title, and names of the series in the order of their colours; without names, they are
        those of the lines.
    form
        ``png``, ``svg`` or ``pdf``.

    Raises
    ------
    PackageError
        If matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise PackageError(
            "a figure is saved by matplotlib: pip install 'clusterscale[figures]'"
        ) from None
    content = io.BytesIO()
    # Text stays text in SVG; the fixed salt and absent date make equal figures equal files.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "clusterscale"}):
        drawn = Canvas(figsize=_SIZE, layout="constrained")
        FigureCanvasAgg(drawn)
        axes = drawn.add_subplot()
        for glyph, data, name in _glyphs(model):
            _DRAW[type(glyph).__name__](axes, glyph, data, name)
        _frame(axes, model)
        axes.set_title(fill(title, _LINE), fontsize="medium", parse_math=False)
        n_lines = _legend(drawn, axes, model, names)
        drawn.set_figheight(_SIZE[1] + n_lines * _LEGEND_LINE)
        date = {"CreationDate": None} if form == "pdf" else {"Date": None} if form == "svg" else {}
        drawn.savefig(content, format=form, dpi=_DPI, metadata=date)
    return content.getvalue()


def _glyphs(model: Any) -> Iterator[tuple[Any, Any, str]]:
    for renderer in model.renderers:
        yield renderer.glyph, renderer.data_source.data, renderer.name or ""


def _values(glyph: Any, key: str, data: Any) -> Any:
    """Return a property of a glyph: the values of its field, or its one value."""
    value = getattr(glyph, key)
    if isinstance(value, str):
        return data.get(value, value)
    field = getattr(value, "field", None)
    return data[field] if field is not None else getattr(value, "value", value)


def _line(axes: Any, glyph: Any, data: Any, name: str) -> None:
    x, y = _values(glyph, "x", data), _values(glyph, "y", data)
    dash = _DASHES.get(tuple(glyph.line_dash), "solid")
    look = {"color": _values(glyph, "line_color", data), "linestyle": dash, "label": name}
    if type(glyph).__name__ == "Step":
        look["drawstyle"] = "steps-post"
    axes.plot(x, y, linewidth=1.4, **look)


def _segments(axes: Any, glyph: Any, data: Any, name: str) -> None:
    ends = [_values(glyph, key, data) for key in ("x0", "y0", "x1", "y1")]
    colours = _values(glyph, "line_color", data)
    for x0, y0, x1, y1, hue in zip(*ends, colours, strict=True):
        axes.plot([x0, x1], [y0, y1], color=hue, linewidth=0.7 * glyph.line_width)


def _bars(axes: Any, glyph: Any, data: Any, name: str) -> None:
    x, top, bottom = (_values(glyph, key, data) for key in ("x", "top", "bottom"))
    heights = [high - low for high, low in zip(top, bottom, strict=True)]
    body, line = _values(glyph, "fill_color", data), _values(glyph, "line_color", data)
    width = _values(glyph, "width", data)
    axes.bar(x, heights, width, bottom, color=body, alpha=glyph.fill_alpha)
    axes.bar(x, heights, width, bottom, fill=False, edgecolor=line)


def _scatter(axes: Any, glyph: Any, data: Any, name: str) -> None:
    x, y = list(_values(glyph, "x", data)), list(_values(glyph, "y", data))
    line, inner = _values(glyph, "line_color", data), _values(glyph, "fill_color", data)
    # "x" is a mark, although data usually have a column of this name.
    mark = glyph.marker if glyph.marker in _MARKS else _values(glyph, "marker", data)
    size = _values(glyph, "size", data)
    opaque = _values(glyph, "fill_alpha", data)
    for i, at in enumerate(zip(x, y, strict=True)):
        hue, body, shape, alpha = (_at(value, i) for value in (line, inner, mark, opaque))
        face = "none" if body is None or not alpha else body
        look = {"markersize": 0.6 * size, "color": hue, "markerfacecolor": face}
        axes.plot(*at, _MARKS[shape], **look, label="" if i else name)


def _at(value: Any, index: int) -> Any:
    return value if isinstance(value, str | float | int) or value is None else value[index]


_DRAW = {"Step": _line, "Line": _line, "Segment": _segments, "VBar": _bars, "Scatter": _scatter}


def _frame(axes: Any, model: Any) -> None:
    """Draw the axes of a figure: labels, ranges, ticks and the lines that mark a value."""
    axes.set_xlabel(model.xaxis[0].axis_label, parse_math=False)
    axes.set_ylabel(model.yaxis[0].axis_label, parse_math=False)
    if isinstance(model.x_scale, LogScale):
        axes.set_xscale("log")
        axes.minorticks_off()
    for side, limits, axis in (
        (axes.xaxis, model.x_range, model.xaxis[0]),
        (axes.yaxis, model.y_range, model.yaxis[0]),
    ):
        if isinstance(axis.ticker, FixedTicker):
            ticks = list(axis.ticker.ticks)
            side.set_ticks(ticks, [axis.major_label_overrides.get(t, f"{t:g}") for t in ticks])
        low, high = limits.start, limits.end
        if isinstance(low, int | float) and isinstance(high, int | float) and low < high:
            (axes.set_xlim if side is axes.xaxis else axes.set_ylim)(low, high)
    for mark in model.center:
        if isinstance(mark, Span):
            look = {"color": mark.line_color, "linestyle": "dashed", "linewidth": 1}
            axes.axvline(mark.location, **look, label=mark.name or "")
    axes.spines[["top", "right"]].set_visible(False)


def _legend(drawn: Any, axes: Any, model: Any, names: Sequence[str]) -> int:
    """Write the names of series and marked values below a figure, and return how many lines."""
    from matplotlib.lines import Line2D

    lines, shown = axes.get_legend_handles_labels()
    if names:
        boxed = any(type(glyph).__name__ == "VBar" for glyph, _, _ in _glyphs(model))
        looks = [(colour(i), "square") if boxed else style_of(i) for i in range(len(names))]
        series = [Line2D([], [], color=hue, marker=_MARKS[m], linestyle="") for hue, m in looks]
        lines, shown = series + lines, [*names, *shown]
    if not lines:
        return 0
    shown = [fill(name, _LINE) for name in shown]
    below = {"loc": "outside lower center", "frameon": False}
    for text in drawn.legend(lines, shown, fontsize="small", **below).get_texts():
        text.set_parse_math(False)
    return sum(name.count("\n") + 1 for name in shown)
