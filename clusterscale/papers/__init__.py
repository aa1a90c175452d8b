"""Reproduction of papers: compares our results with published numbers, and checks claims."""

from clusterscale.papers.driver import REAL, Cubes, report_without_results, reproduce
from clusterscale.papers.study import CABS, PAPERS, PaperStudy
