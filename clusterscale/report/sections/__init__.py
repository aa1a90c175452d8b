"""The sections of the page, in order: a new one is one file and one line here."""

from clusterscale.report.section import Build
from clusterscale.report.sections import (
    configuration,
    distributions,
    exposed,
    failures,
    gains,
    losses,
    overview,
    promises,
    provenance,
    reading,
    sure,
    table,
    tradeoff,
    utility,
)

__all__ = ["SECTIONS"]

SECTIONS: tuple[Build, ...] = (
    overview.build,
    failures.build,
    gains.build,
    utility.build,
    tradeoff.build,
    promises.build,
    sure.build,
    distributions.build,
    losses.build,
    table.build,
    exposed.build,
    configuration.build,
    provenance.build,
    reading.build,
)
