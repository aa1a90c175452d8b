"""The reproduction page: published numbers and claims of papers, compared with our results."""

from clusterscale.report.papers.render import render_reproduced, write_reproduced
from clusterscale.report.papers.studies import (
    AGREES,
    BREAKS,
    DIFFERS,
    EXPLAINED,
    HOLDS,
    NOT_COMPARED,
    OPEN,
    ClaimRow,
    ComparedNumber,
    Missing,
    StudyReport,
)

__all__ = [
    "AGREES",
    "BREAKS",
    "DIFFERS",
    "EXPLAINED",
    "HOLDS",
    "NOT_COMPARED",
    "OPEN",
    "ClaimRow",
    "ComparedNumber",
    "Missing",
    "StudyReport",
    "render_reproduced",
    "write_reproduced",
]
