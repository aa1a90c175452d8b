"""Definitions of the terms and measures, with sources."""

from __future__ import annotations

from clusterscale.report.kinds import KINDS
from clusterscale.report.run import Run
from clusterscale.report.section import Section, fill


def reading(run: Run) -> Section:
    """Build the definitions, which depend only on the kinds of results."""
    kinds = [KINDS[name] for name, _ in run.parts()]
    folds = [(kind.heading, fill(kind.reading)) for kind in kinds]
    return Section(
        "reading", "How to read this report", kinds[0].gist, fill("folds.html.j2", folds=folds)
    )
