"""Reports of results: one self-contained HTML file, tables, and summaries in notebooks.

The verdicts of many releases have a page of their own: :func:`render_trend`.

Importing this package adds an accessor to datasets of results: ``results.clusterscale`` shows a
summary of the findings, and ``results.clusterscale.report(path)`` writes the report.
"""

from clusterscale.reporting.notebook import Findings
from clusterscale.reporting.page import write_page
from clusterscale.reporting.releases import render_checks
from clusterscale.reporting.render import render, write_report
from clusterscale.reporting.run import Run, open_run
from clusterscale.reporting.sign_off import describe, render_sign_off
from clusterscale.reporting.tables import write_tables
from clusterscale.reporting.trend import render_trend
