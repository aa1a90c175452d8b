"""One self-contained HTML file from the results of an audit."""

from clusterscale.report.render import render, write_report

__all__ = ["render", "write_report"]
