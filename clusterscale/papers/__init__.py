"""Reproduction of papers: compares our results with published numbers, and checks claims."""

from clusterscale.papers.compare import check_claims, compare
from clusterscale.papers.cubes import Cubes
from clusterscale.papers.driver import report_without_results, reproduce
from clusterscale.papers.extract import NotComputed, Number, Results
from clusterscale.papers.published import Claim, PublishedNumbers, ResultSelection
from clusterscale.papers.study import CABS, PAPERS, Absent, PaperStudy
from clusterscale.papers.validation import find_faults

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
    "report_without_results",
    "reproduce",
]
