"""Sections of a recovery, in order."""

import xarray as xr
from markupsafe import Markup

from clusterscale.report.recovery import curves, gains, table
from clusterscale.report.recovery.overview import findings
from clusterscale.report.section import Build, Section, build_all

__all__ = ["render_sections"]

_SECTIONS: tuple[Build, ...] = (curves.spread, curves.hours, gains.build, table.build)


def render_sections(recovered: xr.Dataset) -> tuple[Markup, list[Section]]:
    """Return a recovery's part of the first screen of a page, and its sections."""
    recovered = recovered.compute()
    return findings(recovered), build_all(recovered, _SECTIONS)
