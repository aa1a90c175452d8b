"""The page over papers: what agrees, what does not and why, study by study."""

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

_TITLE = "Four papers, computed again"


def render_reproduced(told: Sequence[StudyReport], *, title: str | None = None) -> str:
    """Return the page of all studies as one HTML file that needs nothing but itself.

    Parameters
    ----------
    told
        What each study tells, the studies of one paper after each other.
    title
        Heading of the page.

    Returns
    -------
    str
        HTML, the same for the same studies.
    """
    groups: list[tuple[str, Sequence[Section]]] = [("", list(_overview(told)))]
    for _, studies in groupby(told, key=lambda each: each.paper):
        several = list(studies)
        heading = f"{several[0].paper} · {several[0].paper_title}"
        groups.append((heading, [_study(each) for each in several]))
    reading = Section("reading", "How to read this page", "", fill("reproduced_reading.html.j2"))
    groups.append(("About this page", [reading]))
    return pages.page([pages.PageEntry("", groups)], kind="reproduction", title=title or _TITLE)


def write_reproduced(
    told: Sequence[StudyReport], uri: str | Path, *, title: str | None = None
) -> str:
    """Write the page of all studies whole or not at all, and return where it is.

    Parameters
    ----------
    told, title
        As for :func:`render_reproduced`.
    uri
        File to write, a local path or fsspec URL; its folder is made when absent.

    Raises
    ------
    StoreError
        If it cannot be written; says so if the place is full.
    """
    return pages.write(render_reproduced(told, title=title), uri)


def _overview(told: Sequence[StudyReport]) -> Iterable[Section]:
    agree, explained, differ = (
        sum(each.count(verdict) for each in told) for verdict in (AGREES, EXPLAINED, DIFFERS)
    )
    kept = [each for study in told for each in study.kept]
    body = fill(
        "reproduced.html.j2",
        percent=percent,
        n_compared=agree + explained + differ,
        n_agree=agree,
        n_explained=explained,
        n_hold=sum(each.verdict == HOLDS for each in kept),
        n_break=sum(each.verdict == BREAKS for each in kept),
        n_statements=len(kept),
        table=papers_table(told),
    )
    yield Section("overview", "Findings", "", body)
    if explained + differ:
        intro = (
            "Every number that ours does not agree with, and the reason where one is known; where "
            "ours can be computed as the paper's was, what that comes to."
        )
        yield Section("differences", "What differs", intro, differences(told))


def _study(told: StudyReport) -> Section:
    about = fill("reproduced_study.html.j2", told=told, cost=quantity(told.core_seconds))
    tables = [build(told) for build in (numbers_table, statements_table, missing_table)]
    body = join([about, *(table for table in tables if table is not None)])
    return Section(f"study-{told.name.replace('/', '-')}", told.title, "", body)
