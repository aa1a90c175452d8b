"""What the words and numbers mean, with their sources."""

from __future__ import annotations

import xarray as xr

from clusterscale.report.section import Section, fill


def build(results: xr.Dataset) -> Section:
    """Build the definitions; they do not depend on the results."""
    return Section(
        "reading",
        "How to read this report",
        "An audit plays a guessing game many times and counts how often the guesser is right.",
        fill("reading.html.j2"),
    )
