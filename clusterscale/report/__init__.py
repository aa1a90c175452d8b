"""What results say: one self-contained HTML file, tables, and what notebooks show.

Many releases, each with its verdict, have a page of their own: :func:`render_trend`.

Once this package is imported, any dataset of results has an accessor: ``results.clusterscale``
shows the findings in short, ``results.clusterscale.report(path)`` writes the report.
"""

from clusterscale.report.notebook import Findings
from clusterscale.report.render import render, write_report
from clusterscale.report.run import Run
from clusterscale.report.tables import write_tables
from clusterscale.report.trend import render_trend, write_trend

__all__ = [
    "Findings",
    "Run",
    "render",
    "render_trend",
    "write_report",
    "write_tables",
    "write_trend",
]
