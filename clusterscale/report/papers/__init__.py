"""The page over papers: every figure and table again, ours beside the published number."""

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
