"""The last sections of a page, about all results of a run: what was asked, of what, in which words.

Each is built from a :class:`~clusterscale.report.run.Run`; None where there is nothing to say.
"""

from collections.abc import Callable

from clusterscale.report.about.configuration import configuration
from clusterscale.report.about.provenance import provenance
from clusterscale.report.about.reading import reading
from clusterscale.report.run import Run
from clusterscale.report.section import Section

__all__ = ["CLOSING"]

CLOSING: tuple[Callable[[Run], Section | None], ...] = (configuration, provenance, reading)
