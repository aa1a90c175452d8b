"""One self-contained HTML file from the results of an audit; and what notebooks show of them.

Once this package is imported, any dataset of results has an accessor: ``results.clusterscale``
shows the findings in short, ``results.clusterscale.report(path)`` writes the report.
"""

from clusterscale.report.notebook import Findings
from clusterscale.report.render import render, write_report

__all__ = ["Findings", "render", "write_report"]
