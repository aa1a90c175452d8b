"""Sections of an audit, in order; a new section needs a function, and one line here."""

from collections.abc import Callable

import xarray as xr
from markupsafe import Markup

from clusterscale.reporting.audit import gains, guarantees, reliability, targets
from clusterscale.reporting.audit.model import AuditReport
from clusterscale.reporting.audit.overview import findings
from clusterscale.reporting.section import Section

__all__ = ["AuditReport", "render_sections"]

_SECTIONS: tuple[Callable[[AuditReport], Section | None], ...] = (
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
    audit = AuditReport.of(results)
    sections = (build(audit) for build in _SECTIONS)
    return findings(audit), [section for section in sections if section is not None]
