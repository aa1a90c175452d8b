"""The sections of the page about a recovery, in order."""

import xarray as xr

from clusterscale.report.recovered import curves, gains, overview, table
from clusterscale.report.section import Build, Section, fill
from clusterscale.report.sections import configuration, provenance

__all__ = ["RECOVERY_SECTIONS"]


def _reading(found: xr.Dataset) -> Section:
    """Build the definitions; they do not depend on the results."""
    return Section(
        "reading",
        "How to read this report",
        "A recovery tells each user's whereabouts from the counts of all, and says how far off "
        "that is.",
        fill("recovery_reading.html.j2"),
    )


RECOVERY_SECTIONS: tuple[Build, ...] = (
    overview.build,
    curves.spread,
    curves.hours,
    gains.build,
    table.build,
    configuration.build,
    provenance.build,
    _reading,
)
