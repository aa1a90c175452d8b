"""The sections of the page, in order: a new one is one file and one line here."""

from clusterscale.report.section import Build
from clusterscale.report.sections import (
    configuration,
    distributions,
    exposed,
    failures,
    losses,
    overview,
    provenance,
    reading,
    table,
)

__all__ = ["SECTIONS"]

SECTIONS: tuple[Build, ...] = (
    overview.build,
    failures.build,
    distributions.build,
    losses.build,
    table.build,
    exposed.build,
    configuration.build,
    provenance.build,
    reading.build,
)
