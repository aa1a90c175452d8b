"""Heatmaps of regions and epochs, and maps of regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import h3
import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, LinearColorMapper, Range1d
from bokeh.palettes import Cividis256, linear_palette
from markupsafe import Markup

from clusterscale.report.figures.frame import Floats, panel
from clusterscale.report.section import fill

__all__ = ["heatmap", "map_of", "scale"]

_PALETTE = linear_palette(Cividis256, 64)  # readable for the colour-blind and in grey print
_KM = 111.195  # per degree of latitude


def scale(low: str, high: str) -> Markup:
    """Return the legend of the colour scale as HTML, with labels for its ends."""
    return fill("scale.html.j2", stops=_PALETTE[::9], low=low, high=high)


def heatmap(values: Floats, size: tuple[int, int], *, across: str, up: str) -> Any:
    """Draw shares of the largest value, shape (row, column), the first row at the bottom.

    ``across`` and ``up`` are labels for columns and rows; ``size`` is the numbers of rows and
    columns before neighbours were merged.
    """
    n_rows, n_columns = size
    drawn = panel(
        height=280,
        x_range=Range1d(0, n_columns),
        y_range=Range1d(0, n_rows),
        x_axis_label=across,
        y_axis_label=up,
    )
    drawn.grid.grid_line_color = None
    # hundredths as bytes take an eighth of the space without a visible difference
    cells = np.round(100 * np.nan_to_num(values)).astype(np.uint8)
    image = drawn.image(
        image=[cells], x=0, y=0, dw=n_columns, dh=n_rows, color_mapper=_mapper(0, 100)
    )
    tips = [(across, "$x{0}"), (up, "$y{0}"), ("of the largest", "@image{0} %")]
    drawn.add_tools(HoverTool(renderers=[image], tooltips=tips))
    return drawn


def map_of(
    names: Sequence[str], lon: Floats, lat: Floats, values: Floats, shapes: Mapping[str, Any]
) -> Any:
    """Draw a map of regions, coloured by shares of the largest value.

    Parameters
    ----------
    names, lon, lat, values
        One per region; positions in degrees, values from 0 to 1.
    shapes
        Shapes of regions: ``{"kind": "grid", "width": …, "height": …}`` in degrees,
        ``{"kind": "h3"}``, where names are H3 indexes, or ``{"kind": "points"}``.
    """
    middle_lon, middle_lat = float(np.mean(lon)), float(np.mean(lat))
    stretch = _KM * float(np.cos(np.radians(middle_lat)))

    def place(degrees_east: Floats, degrees_north: Floats) -> tuple[Floats, Floats]:
        return (degrees_east - middle_lon) * stretch, (degrees_north - middle_lat) * _KM

    drawn = panel(height=420, match_aspect=True, x_axis_label="km east", y_axis_label="km north")
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
