"""The papers computed again: ours beside every published number, and statements held to account."""

from clusterscale.papers.check_claims import check_claims
from clusterscale.papers.claims import Claim
from clusterscale.papers.compare import compare
from clusterscale.papers.cubes import Cubes
from clusterscale.papers.driver import reproduce, tell_without
from clusterscale.papers.extract import NotComputed, Number, Results
from clusterscale.papers.faults import find_faults
from clusterscale.papers.published import PublishedNumbers, ResultSelection
from clusterscale.papers.study import CABS, PAPERS, Absent, PaperStudy

__all__ = [
    "CABS",
    "PAPERS",
    "Absent",
    "Claim",
    "Cubes",
    "NotComputed",
    "Number",
    "PaperStudy",
    "PublishedNumbers",
    "ResultSelection",
    "Results",
    "check_claims",
    "compare",
    "find_faults",
    "reproduce",
    "tell_without",
]
