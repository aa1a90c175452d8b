"""The trend page: verdicts on many releases, and exposure over time."""

from clusterscale.report.trend.render import render_trend, write_trend

__all__ = ["render_trend", "write_trend"]
