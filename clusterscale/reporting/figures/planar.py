"""Heatmaps, maps of regions, and privacy gain against utility loss."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

import h3
import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, LinearColorMapper, Span
from bokeh.palettes import Cividis256, linear_palette
from markupsafe import Markup

from clusterscale.reporting.figures.single import NEUTRAL, WARNING, Floats, panel, style_of
from clusterscale.reporting.section import fill_part

_PALETTE = linear_palette(Cividis256, 64)  # readable for the colour-blind and in grey print
_KM = 111.195  # per degree of latitude


def scale(low: str, high: str) -> Markup:
    """Return the legend of the colour scale as HTML, with labels for its ends."""
    return fill_part("legends.scale", stops=_PALETTE[::9], low=low, high=high)


_MOST_CELLS = (120, 168)  # rows and columns that a panel can show


def heatmap(values: Floats, *, across: str, up: str) -> Any:
    """Draw values, shape (row, column), as shares of the largest, the first row at the bottom.

    ``across`` and ``up`` are labels for columns and rows.
    """
    n_rows, n_columns = values.shape
    drawn = panel(280, across, up, x=(0, n_columns), y=(0, n_rows))
    drawn.grid.grid_line_color = None
    # hundredths as bytes take an eighth of the space without a visible difference
    cells = np.round(100 * shrink(np.nan_to_num(values))).astype(np.uint8)
    image = drawn.image(
        image=[cells], x=0, y=0, dw=n_columns, dh=n_rows, color_mapper=_mapper(0, 100)
    )
    tips = [(across, "$x{0}"), (up, "$y{0}"), ("of the largest", "@image{0} %")]
    drawn.add_tools(HoverTool(renderers=[image], tooltips=tips))
    return drawn


def shrink(values: Floats) -> Floats:
    """Return means of neighbouring cells if a panel cannot show all rows or columns."""
    for axis, most in enumerate(_MOST_CELLS):
        n = values.shape[axis]
        if n > most:
            edges = np.linspace(0, n, most + 1).astype(int)
            sums = np.add.reduceat(values, edges[:-1], axis=axis)
            values = sums / np.expand_dims(np.diff(edges), 1 - axis)
    peak = float(values.max(initial=0.0))
    return values / peak if peak > 0 else values


def map_of(
    names: Sequence[str], lon: Floats, lat: Floats, values: Floats, shapes: Mapping[str, Any]
) -> Any:
    """Draw a map of regions, coloured by shares of the largest value, at positions in degrees.

    ``shapes`` are ``{"kind": "grid", "width": …, "height": …}`` in degrees, ``{"kind": "h3"}``,
    where names are H3 indexes, or ``{"kind": "points"}``.
    """
    middle_lon, middle_lat = float(np.mean(lon)), float(np.mean(lat))
    stretch = _KM * float(np.cos(np.radians(middle_lat)))

    def place(degrees_east: Floats, degrees_north: Floats) -> tuple[Floats, Floats]:
        return (degrees_east - middle_lon) * stretch, (degrees_north - middle_lat) * _KM

    drawn = panel(420, "km east", "km north", match_aspect=True)
    order = np.argsort(values, kind="stable")  # the largest values are drawn on top
    names, values = [names[i] for i in order], values[order]
    x, y = place(lon[order], lat[order])
    data = {"x": np.round(x, 3).tolist(), "y": np.round(y, 3).tolist(), "name": names}
    source = ColumnDataSource(data | {"value": np.round(values, 3).tolist()})
    looks = {"fill_color": {"field": "value", "transform": _mapper(0, 1)}, "line_color": None}
    kind = shapes.get("kind")
    if kind == "grid":
        width, height = float(shapes["width"]) * stretch, float(shapes["height"]) * _KM
        regions = drawn.rect("x", "y", width, height, source=source, **looks)
    elif kind == "h3":
        rings = [np.array(h3.cell_to_boundary(name)) for name in names]
        edges = [place(ring[:, 1], ring[:, 0]) for ring in rings]
        source.data["xs"] = [np.round(east, 3).tolist() for east, _ in edges]
        source.data["ys"] = [np.round(north, 3).tolist() for _, north in edges]
        regions = drawn.patches("xs", "ys", source=source, **looks)
    else:
        regions = drawn.scatter("x", "y", size=9, source=source, **looks)
    tips = [("region", "@name"), ("of the largest", "@value{0 %}")]
    drawn.add_tools(HoverTool(renderers=[regions], tooltips=tips))
    return drawn


def _mapper(low: float, high: float) -> Any:
    return LinearColorMapper(palette=list(_PALETTE), low=low, high=high)


_DECADES = 6  # more would compress the informative ones


@dataclass(frozen=True, slots=True)
class Point:
    """One mark: the index of its series, its name in the tooltip, its loss and its gain.

    ``empty`` describes a (nearly) empty release, whose mark is crossed out.
    """

    index: int
    name: str
    loss: float
    gain: float
    empty: str = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """A horizontal axis; with a ``floor`` it is logarithmic, and lower values are at the floor."""

    start: float
    end: float
    ticks: dict[float, str]
    floor: float | None = None

    def place(self, value: float) -> float:
        """Return the coordinate at which ``value`` is drawn."""
        return value if self.floor is None else max(value, self.floor)


def axis(values: Floats, *, log: bool) -> Axis:
    """Return an axis for non-negative ``values``; a ``log`` axis shows zeros too."""
    known = values[np.isfinite(values)]
    positive = known[known > 0]
    if not log or not len(positive):
        end = max(1.0, float(known.max(initial=0.0)))
        step = 0.2 if end <= 1.2 else 0.5 if end <= 3 else 10.0 ** floor(log10(end))
        step = step if step <= end else step / 10  # the logarithm was rounded up
        ticks = {round(i * step, 3): f"{i * step:g}" for i in range(floor(end / step) + 1)}
        return Axis(-0.03 * end, 1.03 * end, ticks)
    top = ceil(log10(float(positive.max())) + 1e-9)
    low = max(floor(log10(float(positive.min()))), top - _DECADES)
    zero = 10.0 ** (low - 1)
    # the decade below the least positive value has the zeros, usually raw counts
    step = 1 if top - low <= 4 else 2  # labels must not overlap
    ticks = {10.0**power: f"{10.0**power:g}" for power in range(top, low - 1, -step)}
    ticks = {zero: "0"} | dict(sorted(ticks.items()))
    return Axis(zero / 1.5, 1.2 * 10.0**top, ticks, zero)


def tradeoff(points: Sequence[Point], guess: float, across: Axis) -> Any:
    """Draw mean privacy gain against utility loss, a mark per mechanism (POMACS20 Figs 7 to 10).

    Marks of (nearly) empty releases are hollow and crossed out. ``guess`` is the loss of a random
    guess, a dashed line; NaN for none.
    """
    kind, ends = "linear" if across.floor is None else "log", (across.start, across.end)
    labels = "utility loss", "mean privacy gain"
    drawn = panel(280, *labels, x=ends, y=(-0.05, 1.05), x_axis_type=kind)
    drawn.xaxis.ticker = FixedTicker(ticks=list(across.ticks))
    drawn.xaxis.major_label_overrides = across.ticks
    drawn.yaxis.ticker = FixedTicker(ticks=[round(0.2 * i, 1) for i in range(6)])
    if np.isfinite(guess):
        line = Span(location=across.place(guess), dimension="height", name="random guess")
        line.line_color = NEUTRAL
        line.line_dash, line.line_width = "4 4", 1.5
        drawn.add_layout(line)
    looks = [style_of(point.index) for point in points]
    data = {
        "x": [across.place(point.loss) for point in points],
        "gain": [point.gain for point in points],
        "loss": [point.loss for point in points],
        "mechanism": [
            f"{point.name} ({point.empty} release)" if point.empty else point.name
            for point in points
        ],
        "fill": [0.0 if point.empty else 0.55 for point in points],
        "colour": [colour for colour, _ in looks],
        "shape": [shape for _, shape in looks],
    }
    look_of = {"marker": "shape", "line_color": "colour", "fill_color": "colour"}
    dots = drawn.scatter("x", "gain", size=11, fill_alpha="fill", source=data, **look_of)
    crossed = [(across.place(point.loss), point.gain) for point in points if point.empty]
    if crossed:
        x, y = map(list, zip(*crossed, strict=True))
        look = {"marker": "x", "size": 17, "line_width": 2, "line_color": WARNING}
        drawn.scatter(x, y, name="(nearly) empty release", **look)
    tips = [("mechanism", "@mechanism"), ("mean privacy gain", "@gain{0.000}")]
    tips += [("utility loss", "@loss{0.000}")]
    drawn.add_tools(HoverTool(renderers=[dots], tooltips=tips))
    return drawn


def front(groups: Sequence[Sequence[tuple[float, float, str]]]) -> Any:
    """Draw exposure against score, a mark per candidate in the style of its group.

    ``groups`` have (score, exposure, name) of each candidate; later groups are drawn below.
    """
    pairs = np.array([pair[:2] for group in groups for pair in group])
    low, high = pairs.min(axis=0), pairs.max(axis=0)
    margin = np.maximum(0.05 * (high - low), 0.01)
    across, up = zip((low - margin).tolist(), (high + margin).tolist(), strict=True)
    drawn = panel(320, "score", "mean privacy loss", x=across, y=up)
    for index, group in reversed(list(enumerate(groups))):
        if not group:
            continue
        hue, shape = style_of(index)
        x, y, names = map(list, zip(*group, strict=True))
        look = {"marker": shape, "line_color": hue, "fill_color": hue, "fill_alpha": 0.4}
        source = {"x": x, "y": y, "name": names}
        size = 15 if index == 0 else 9
        dots = drawn.scatter("x", "y", size=size, source=source, **look)
        tips = [("candidate", "@name"), ("score", "@x{0.000}"), ("mean privacy loss", "@y{0.000}")]
        drawn.add_tools(HoverTool(renderers=[dots], tooltips=tips))
    return drawn
