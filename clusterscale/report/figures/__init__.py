"""Figures: Bokeh models as JSON in the page, or small pictures without script.

Text from the data is never a label of a figure, because BokehJS would interpret ``$$…$$`` as
mathematics and request a renderer from the network. Such text is HTML next to the figure.
"""

from clusterscale.report.figures.boxes import boxes, quartiles
from clusterscale.report.figures.curves import curves
from clusterscale.report.figures.distributions import distributions
from clusterscale.report.figures.frame import Floats, plot
from clusterscale.report.figures.heat import heatmap, map_of, scale
from clusterscale.report.figures.strips import strip
from clusterscale.report.figures.styles import colour, dash, legend, marks, style_of
from clusterscale.report.figures.time_series import (
    Course,
    ReleaseAxis,
    course_legend,
    draw_time_series,
    verdict_mark,
)
from clusterscale.report.figures.tradeoff import Axis, Point, axis, tradeoff

__all__ = [
    "Axis",
    "Course",
    "Floats",
    "Point",
    "ReleaseAxis",
    "axis",
    "boxes",
    "colour",
    "course_legend",
    "curves",
    "dash",
    "distributions",
    "draw_time_series",
    "heatmap",
    "legend",
    "map_of",
    "marks",
    "plot",
    "quartiles",
    "scale",
    "strip",
    "style_of",
    "tradeoff",
    "verdict_mark",
]
