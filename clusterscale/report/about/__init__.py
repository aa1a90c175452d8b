"""Closing sections of a page: configuration, provenance and definitions.

Each is built from a :class:`~clusterscale.report.run.Run`, or None if it does not apply.
"""

from collections.abc import Callable

from clusterscale.report.about.configuration import configuration
from clusterscale.report.about.provenance import provenance
from clusterscale.report.about.reading import reading
from clusterscale.report.run import Run
from clusterscale.report.section import Section

__all__ = ["CLOSING"]

CLOSING: tuple[Callable[[Run], Section | None], ...] = (configuration, provenance, reading)
