"""A page about many releases: what each was judged, and how exposure goes over time."""

from clusterscale.report.trend.render import render_trend, write_trend

__all__ = ["render_trend", "write_trend"]
