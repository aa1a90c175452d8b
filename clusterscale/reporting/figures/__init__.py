"""Figures: Bokeh models as JSON in the page, or small pictures without script.

Text from the data is never a label of a figure, because BokehJS would interpret ``$$…$$`` as
mathematics and request a renderer from the network. Such text is HTML next to the figure.
"""

from clusterscale.reporting.figures.curves import (
    Course,
    boxed,
    boxes,
    brackets,
    course_legend,
    curves,
    distributions,
    draw_time_series,
    verdict_mark,
)
from clusterscale.reporting.figures.planar import (
    Axis,
    Point,
    axis,
    front,
    heatmap,
    map_of,
    scale,
    tradeoff,
)
from clusterscale.reporting.figures.published import PaperPlot, PlotPoint, PlotSeries, draw
from clusterscale.reporting.figures.single import (
    Figure,
    Figures,
    Floats,
    colour,
    legend,
    marks,
    plot,
    style_of,
)
