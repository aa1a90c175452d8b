"""Reproduction of papers: compares our results with published numbers, and checks claims."""

from clusterscale.papers.compare import NotComputed, Number, Results, check_claims, compare
from clusterscale.papers.driver import REAL, Cubes, report_without_results, reproduce
from clusterscale.papers.study import (
    CABS,
    PAPERS,
    Claim,
    PaperStudy,
    PublishedNumbers,
    ResultSelection,
)
from clusterscale.papers.validation import find_faults

__all__ = [
    "CABS",
    "PAPERS",
    "REAL",
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
