"""The reproduction page: agreement with the papers, study by study."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from clusterscale.report import page as pages
from clusterscale.report.papers.studies import (
    AGREES,
    BREAKS,
    DIFFERS,
    EXPLAINED,
    HOLDS,
    StudyReport,
)
from clusterscale.report.papers.tables import (
    differences,
    missing_table,
    numbers_table,
    papers_table,
    statements_table,
)
from clusterscale.report.section import Section, fill, join, percent, quantity

__all__ = ["render_reproduced", "write_reproduced"]

_TITLE = "Four papers reproduced"


def render_reproduced(told: Sequence[StudyReport], *, title: str | None = None) -> str:
    """Return the page of all studies as one self-contained HTML file.

    Parameters
    ----------
    told
        Reports of the studies; those of one paper are consecutive.
    title
        Heading of the page.

    Returns
    -------
    str
        HTML, the same for the same studies.
    """
    groups: list[tuple[str, Sequence[Section]]] = [("", list(_overview(told)))]
    for _, studies in groupby(told, key=lambda study: study.paper):
        several = list(studies)
        heading = f"{several[0].paper} · {several[0].paper_title}"
        groups.append((heading, [_study(study) for study in several]))
    reading = Section("reading", "How to read this page", "", fill("reproduced_reading.html.j2"))
    groups.append(("About this page", [reading]))
    return pages.page([pages.PageEntry("", groups)], kind="reproduction", title=title or _TITLE)


def write_reproduced(
    told: Sequence[StudyReport], uri: str | Path, *, title: str | None = None
) -> str:
    """Write the page of all studies atomically and return its location.

    Parameters
    ----------
    told, title
        As for :func:`render_reproduced`.
    uri
        File to write, a local path or fsspec URL; its folder is created if absent.

    Raises
    ------
    StoreError
        If it cannot be written, for example because the store is full.
    """
    return pages.write(render_reproduced(told, title=title), uri)


def _overview(reports: Sequence[StudyReport]) -> Iterable[Section]:
    agree, explained, differ = (
        sum(study.count(verdict) for study in reports) for verdict in (AGREES, EXPLAINED, DIFFERS)
    )
    kept = [claim for study in reports for claim in study.kept]
    body = fill(
        "reproduced.html.j2",
        percent=percent,
        n_compared=agree + explained + differ,
        n_agree=agree,
        n_explained=explained,
        n_hold=sum(claim.verdict == HOLDS for claim in kept),
        n_break=sum(claim.verdict == BREAKS for claim in kept),
        n_statements=len(kept),
        table=papers_table(reports),
    )
    yield Section("overview", "Findings", "", body)
    if explained + differ:
        intro = (
            "Published numbers that our results do not agree with, and the reason if known; if our "
            "result can be computed as in the paper, that result too."
        )
        yield Section("differences", "Differences", intro, differences(reports))


def _study(report: StudyReport) -> Section:
    about = fill("reproduced_study.html.j2", report=report, cost=quantity(report.core_seconds))
    tables = [build(report) for build in (numbers_table, statements_table, missing_table)]
    body = join([about, *(table for table in tables if table is not None)])
    return Section(f"study-{report.name.replace('/', '-')}", report.title, "", body)
