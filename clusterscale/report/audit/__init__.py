"""Sections of an audit, in order; a new section needs a function, and one line here."""

import xarray as xr
from markupsafe import Markup

from clusterscale.report.audit import gains, guarantees, reliability, targets
from clusterscale.report.audit.overview import findings
from clusterscale.report.section import Build, Section, build_all

__all__ = ["render_sections"]

_SECTIONS: tuple[Build, ...] = (
    reliability.build_failures,
    gains.build_gains,
    gains.build_utility,
    gains.build_tradeoff,
    guarantees.build_guarantees,
    reliability.build_reliability,
    targets.build_distributions,
    targets.build_losses,
    targets.build_periods,
    reliability.build_results,
    targets.build_exposed,
)


def render_sections(results: xr.Dataset) -> tuple[Markup, list[Section]]:
    """Return an audit's part of the first screen of a page, and its sections."""
    results = results.compute()
    return findings(results), build_all(results, _SECTIONS)
