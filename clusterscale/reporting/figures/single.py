"""One figure: a Bokeh panel, a part of the page, or a picture that matplotlib draws.

The Bokeh model is read and drawn again: lines, steps, bars, segments, marks and images, which is
all that figures have. Text is drawn as it is, never as mathematics.
"""

import io
import json
import re
import textwrap
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from bokeh import __version__
from bokeh.document import Document
from bokeh.models import BasicTickFormatter, FixedTicker, LogScale, Range1d, Span
from bokeh.plotting import figure
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.errors import InputError, PackageError
from clusterscale.reporting.section import fill, fill_part
from clusterscale.storage import put

_MOST = 12  # pictures of a list in a notebook


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """A figure of the page, which can also be shown or saved alone.

    Attributes
    ----------
    model
        The Bokeh figure.
    slug, title, description
        Identifier, title, and a description for screen readers.
    setting
        What it shows: the parts of the setting that vary, empty if there is only one.
    names
        Names of the series in the order of their colours, where the model itself has no names.
    """

    model: Any
    slug: str
    title: str
    description: str
    setting: str = ""
    names: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"Figure({self.slug}: {self.heading})"

    @property
    def heading(self) -> str:
        """The title, after the setting if there are several."""
        return f"{self.setting} · {self.title}" if self.setting else self.title

    @property
    def html(self) -> Markup:
        """The figure as a part of a page, whose script draws it."""
        return plot(self.model, slug=self.slug, title=self.title, description=self.description)

    def _repr_png_(self) -> tuple[bytes, dict[str, Any]] | None:
        """Return the picture for notebooks, its size and description; None without matplotlib."""
        try:
            png = to_bytes(self.model, self.heading, self.names, "png")
        except PackageError:
            return None
        # The header has the size, which is twice that on the page, for screens with small pixels.
        width, height = (int.from_bytes(png[at : at + 4]) // 2 for at in (16, 20))
        return png, {"width": width, "height": height, "alt": self.description}

    def save(self, path: str | Path) -> str:
        """Write the figure as a picture, with title and legend.

        Parameters
        ----------
        path
            Local path or fsspec URL that ends in ``.png``, ``.svg`` or ``.pdf``.

        Returns
        -------
        str
            The path.

        Raises
        ------
        InputError
            If the path has another ending.
        PackageError
            If matplotlib is not installed: ``pip install 'clusterscale[figures]'``.
        StoreError
            If the file cannot be written.
        """
        form = str(path).rpartition(".")[2]
        if form not in ("png", "svg", "pdf"):
            raise InputError(f"{path} does not end in .png, .svg or .pdf")
        put(str(path), to_bytes(self.model, self.heading, self.names, form))
        return str(path)


class Figures(list[Figure]):
    """Figures, which a notebook shows one below the other."""

    def _repr_html_(self) -> str | None:
        """Return the first pictures for notebooks; None without matplotlib."""
        parts = []
        for one in self[:_MOST]:
            picture = one._repr_png_()
            if picture is None:
                return None
            png, shown = picture
            looks = "".join(f' {key}="{escape(str(value))}"' for key, value in shown.items())
            parts.append(
                f'<img{looks} style="max-width: 100%; height: auto" '
                f'src="data:image/png;base64,{b64encode(png).decode()}">'
            )
        if len(self) > _MOST:
            parts.append(f"and {len(self) - _MOST:,} more")
        return "<br>".join(parts)


_SIZE = (5.0, 2.8)  # inches, without the legend; a column of a paper is about 3.4 wide
_LEGEND_LINE = 0.19  # inches
_DPI = 200
_LINE = 60  # characters of a title, or of a line of the legend
_LINESTYLES = {(): "solid", (6,): "dashed", (2, 4): "dotted", (2, 4, 6, 4): "dashdot"}
_MARKERS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D", "inverted_triangle": "v"}
_MARKERS |= {"x": "x"}


def to_bytes(model: Any, title: str, names: Sequence[str], form: str) -> bytes:
    """Return a Bokeh figure as a picture, ``png``, ``svg`` or ``pdf``.

    Without ``names``, those of the lines are the names of the series. Raises PackageError if
    matplotlib is not installed.
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
        axes.set_title(textwrap.fill(title, _LINE), fontsize="medium", parse_math=False)
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
    dash = _LINESTYLES.get(tuple(glyph.line_dash), "solid")
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
    mark = glyph.marker if glyph.marker in _MARKERS else _values(glyph, "marker", data)
    size = _values(glyph, "size", data)
    opaque = _values(glyph, "fill_alpha", data)
    for i, at in enumerate(zip(x, y, strict=True)):
        hue, body, shape, alpha = (_at(value, i) for value in (line, inner, mark, opaque))
        face = "none" if body is None or not alpha else body
        look = {"markersize": 0.6 * size, "color": hue, "markerfacecolor": face}
        axes.plot(*at, _MARKERS[shape], **look, label="" if i else name)


def _image(axes: Any, glyph: Any, data: Any, name: str) -> None:
    mapper = glyph.color_mapper
    colours = [tuple(int(hue[i : i + 2], 16) for i in (1, 3, 5)) for hue in mapper.palette]
    top = len(colours) - 1
    for image in _values(glyph, "image", data):
        share = (np.asarray(image, np.float64) - mapper.low) / (mapper.high - mapper.low)
        pixels = np.array(colours, np.uint8)[np.clip(share * top, 0, top).round().astype(int)]
        extent = (glyph.x, glyph.x + glyph.dw, glyph.y, glyph.y + glyph.dh)
        axes.imshow(pixels, extent=extent, origin="lower", aspect="auto")


def _at(value: Any, index: int) -> Any:
    return value if isinstance(value, str | float | int) or value is None else value[index]


_DRAW = {"Step": _line, "Line": _line, "Segment": _segments, "VBar": _bars, "Scatter": _scatter}
_DRAW |= {"Image": _image}


def _frame(axes: Any, model: Any) -> None:
    """Draw the axes of a figure: labels, ranges, ticks and the lines that mark a value."""
    for side, drawn in (("x", axes.xaxis), ("y", axes.yaxis)):
        axis, limits = getattr(model, f"{side}axis")[0], getattr(model, f"{side}_range")
        getattr(axes, f"set_{side}label")(axis.axis_label, parse_math=False)
        if isinstance(getattr(model, f"{side}_scale"), LogScale):
            axes.set(**{f"{side}scale": "log"})
            axes.minorticks_off()
        if isinstance(axis.ticker, FixedTicker):
            ticks = list(axis.ticker.ticks)
            drawn.set_ticks(ticks, [axis.major_label_overrides.get(t, f"{t:g}") for t in ticks])
        low, high = limits.start, limits.end
        if isinstance(low, int | float) and isinstance(high, int | float) and low < high:
            axes.set(**{f"{side}lim": (low, high)})
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
        series = [Line2D([], [], color=hue, marker=_MARKERS[m], linestyle="") for hue, m in looks]
        lines, shown = series + lines, [*names, *shown]
    if not lines:
        return 0
    shown = [textwrap.fill(name, _LINE) for name in shown]
    below = {"loc": "outside lower center", "frameon": False}
    for text in drawn.legend(lines, shown, fontsize="small", **below).get_texts():
        text.set_parse_math(False)
    return sum(name.count("\n") + 1 for name in shown)


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
    return fill_part("legends.series", marks=series)


def marks(names: Sequence[str], *, line: str, crossed: str = "") -> Markup:
    """Return the legend of a scatter plot as HTML: its marks in order, and its dashed line.

    ``crossed`` explains marks that are crossed out; empty if there are none.
    """
    series = [(name, *style_of(i)) for i, name in enumerate(names)]
    colours = {"neutral": NEUTRAL, "warning": WARNING}
    return fill_part("legends.marks", marks=series, line=line, crossed=crossed, **colours)


Floats = NDArray[np.float64]


Ends = tuple[float, float]


def panel(
    height: int,
    across: str,
    up: str,
    *,
    x: Ends | None = None,
    y: Ends | None = None,
    **look: Any,
) -> Any:
    """Return an empty Bokeh figure in the style of the page.

    ``across`` and ``up`` are the labels of its axes, ``x`` and ``y`` their ends.
    """
    look |= {"x_range": Range1d(*x)} if x else {}
    look |= {"y_range": Range1d(*y)} if y else {}
    drawn = figure(
        height=height,
        x_axis_label=across,
        y_axis_label=up,
        tools="",
        toolbar_location=None,
        sizing_mode="stretch_width",
        min_width=200,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        **look,
    )
    for axis in drawn.axis:
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_color = axis.major_label_text_color = NEUTRAL
        axis.axis_line_color = axis.major_tick_line_color = NEUTRAL
        axis.minor_tick_line_color = None
        if isinstance(axis.formatter, BasicTickFormatter):
            axis.formatter.power_limit_low = -5  # .0005 is shorter than 5.000e-4
    drawn.grid.grid_line_color = NEUTRAL
    drawn.grid.grid_line_alpha = 0.22
    return drawn


def plot(model: Any, *, slug: str, title: str, description: str) -> Markup:
    """Return a Bokeh model as HTML, with its title and a description for screen readers.

    ``slug`` identifies the figure. The model's identifiers are the same in every rendering.
    """
    document = Document(title="")
    document.add_root(model)
    item = {  # as from bokeh.embed.json_item, which takes half as long again
        "target_id": None,
        "root_id": model.id,
        "doc": document.to_json(deferred=False),
        "version": __version__,
    }
    document.remove_root(model)
    # Bokeh counts over the whole process; the page's script adds the figure's position. A quote in
    # a text of the data is escaped, so that no text is taken for an identifier.
    known = dict[str, str]()
    text = re.sub(
        r'"(id|root_id)":"(\w+)"',
        lambda found: f'"{found[1]}":"{known.setdefault(found[2], str(len(known) + 1))}"',
        json.dumps(item, separators=(",", ":")).replace("<", "\\u003c"),
    )
    return fill(
        "figure.html.j2", slug=slug, title=title, description=description, item=Markup(text)
    )
