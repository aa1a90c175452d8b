"""What results say: one self-contained HTML file, or tables."""

from clusterscale.report.render import render, write_report
from clusterscale.report.run import Run
from clusterscale.report.tables import write_tables

__all__ = ["Run", "render", "write_report", "write_tables"]
