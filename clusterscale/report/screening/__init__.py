"""Sections of a screen: the exposure of all users by mechanism, and the most exposed users."""

from __future__ import annotations

import xarray as xr
from markupsafe import Markup

from clusterscale.report.screening.exposure import read_places
from clusterscale.report.screening.findings import findings
from clusterscale.report.screening.people import people
from clusterscale.report.screening.spread import spread
from clusterscale.report.section import Section

__all__ = ["render_sections"]


def render_sections(screened: xr.Dataset) -> tuple[Markup, list[Section]]:
    """Return a screen's part of the first screen of a page, and its sections.

    The dataset may be lazy and larger than memory: it is read once, one mechanism at a time.
    """
    places = list(read_places(screened))
    return findings(screened, places), [spread(places), people(places)]
