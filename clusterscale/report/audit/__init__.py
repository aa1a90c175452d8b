"""Sections of an audit, in order; a new section needs one file, and one line here."""

import xarray as xr
from markupsafe import Markup

from clusterscale.report.audit import (
    distributions,
    exposed,
    failures,
    gains,
    losses,
    periods,
    promises,
    table,
    tradeoff,
    utility,
)
from clusterscale.report.audit import (
    reliability as sure,
)
from clusterscale.report.audit.overview import findings
from clusterscale.report.section import Build, Section, build_all

__all__ = ["render_sections"]

_SECTIONS: tuple[Build, ...] = (
    failures.build,
    gains.build,
    utility.build,
    tradeoff.build,
    promises.build,
    sure.build,
    distributions.build,
    losses.build,
    periods.build,
    table.build,
    exposed.build,
)


def render_sections(results: xr.Dataset) -> tuple[Markup, list[Section]]:
    """Return an audit's part of the first screen of a page, and its sections."""
    results = results.compute()
    return findings(results), build_all(results, _SECTIONS)
