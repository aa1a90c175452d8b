"""Sections of traits: what the most exposed users have in common."""

from __future__ import annotations

import xarray as xr
from markupsafe import Markup

from clusterscale.report.risk_factors import cells, characteristics, places, times
from clusterscale.report.risk_factors.comparisons import findings
from clusterscale.report.section import Build, Section, build_all

__all__ = ["render_sections"]

_SECTIONS: tuple[Build, ...] = (characteristics.build, places.build, cells.build, times.build)


def render_sections(traits: xr.Dataset) -> tuple[Markup, list[Section]]:
    """Return the traits' part of the first screen of a page, and its sections.

    The characteristics of single users are not read; the page shows only their summaries.
    """
    summaries = traits.drop_vars("value").compute()
    return findings(summaries), build_all(summaries, _SECTIONS)
