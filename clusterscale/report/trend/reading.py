"""Definitions of the page's terms and measures."""

from __future__ import annotations

from collections.abc import Sequence

from clusterscale.report.section import Section, fill
from clusterscale.report.trend.releases import Series

__all__ = ["reading"]


def reading(series: Sequence[Series]) -> Section:
    """Build the definitions, which are the same for all series."""
    return Section(
        "reading",
        "How to read this page",
        "Each release is audited once, and compared with a policy and with earlier releases.",
        fill("trend_reading.html.j2"),
    )
