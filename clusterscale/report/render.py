"""The report of results: sections of whatever a run has found."""

from __future__ import annotations

from pathlib import Path

from clusterscale.report.about import CLOSING
from clusterscale.report.kinds import KINDS
from clusterscale.report.page import PageEntry, page, write
from clusterscale.report.run import Results, Run, runs_of
from clusterscale.report.section import Section, join
from clusterscale.report.titles import entitle

__all__ = ["render", "write_report"]


def render(results: Results, *, title: str | None = None) -> str:
    """Return the report of results as one HTML page that needs nothing but itself.

    Parameters
    ----------
    results
        Dataset of an audit, a screen, traits or a recovery, which keeps
        :data:`clusterscale.schema.RESULTS` or its kin; or several as a
        :class:`~clusterscale.report.Run`; or several runs. Their attributes describe the plan, the
        cube and the software.
    title
        Heading of the page.

    Returns
    -------
    str
        HTML, the same for the same results.

    Raises
    ------
    FormatError
        If they are none of these.
    """
    runs = entitle(runs_of(results))
    told = [_tell(run) for run in runs]
    if len(told) > 1:
        told = [each.within(f"run-{i + 1}-") for i, each in enumerate(told)]
    first = KINDS[next(iter(runs[0].parts()))[0]]
    settings = {title: label for run in runs for label, title in run.titles.items()}
    return page(told, kind=first.word, title=title or first.title, settings=settings)


def write_report(results: Results, uri: str | Path, *, title: str | None = None) -> str:
    """Write the report of results and return where it is.

    The file appears whole or not at all: an older report stays in place until the new one is
    complete.

    Parameters
    ----------
    results, title
        As for :func:`render`.
    uri
        File to write, a local path or fsspec URL; its folder is made when absent.

    Raises
    ------
    FormatError
        As :func:`render`.
    StoreError
        If it cannot be written; says so if the place is full.
    """
    return write(render(results, title=title), uri)


def _tell(run: Run) -> PageEntry:
    """Build the sections of a run: findings of all kinds first, then each kind, then the rest."""
    told = [(KINDS[name], KINDS[name].tell(dataset)) for name, dataset in run.parts()]
    findings = join([found for _, (found, _) in told])
    groups: list[tuple[str, list[Section]]] = [
        ("", [Section("overview", "Findings", "", findings)])
    ]
    groups += [(kind.heading, sections) for kind, (_, sections) in told]
    closing = (build(run) for build in CLOSING)
    groups.append(("About this report", [section for section in closing if section is not None]))
    if len(told) == 1:
        groups = [("", [section for _, sections in groups for section in sections])]
    return PageEntry(run.name, groups)
