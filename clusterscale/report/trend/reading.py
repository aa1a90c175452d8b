"""What the words and numbers of the page mean."""

from __future__ import annotations

from collections.abc import Sequence

from clusterscale.report.section import Section, fill
from clusterscale.report.trend.releases import Series

__all__ = ["reading"]


def reading(series: Sequence[Series]) -> Section:
    """Build the definitions; they are the same for all series."""
    return Section(
        "reading",
        "How to read this page",
        "Each release is audited once, held against a policy and against those before it.",
        fill("trend_reading.html.j2"),
    )
