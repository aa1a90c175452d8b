"""The report of one or more runs."""

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
    """Return the report of results as one self-contained HTML page.

    Parameters
    ----------
    results
        Dataset of an audit, a screen, traits or a recovery, which conforms to
        :data:`clusterscale.schema.RESULTS` or the corresponding schema; or several datasets as a
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
        If the results are not of these kinds.
    """
    runs = entitle(runs_of(results))
    entries = [_tell(run) for run in runs]
    if len(entries) > 1:
        entries = [entry.within(f"run-{i + 1}-") for i, entry in enumerate(entries)]
    first = KINDS[next(iter(runs[0].parts()))[0]]
    settings = {title: label for run in runs for label, title in run.titles.items()}
    return page(entries, kind=first.word, title=title or first.title, settings=settings)


def write_report(results: Results, uri: str | Path, *, title: str | None = None) -> str:
    """Write the report of results and return its location.

    The file is written atomically: an older report is replaced only when the new one is complete.

    Parameters
    ----------
    results, title
        As for :func:`render`.
    uri
        File to write, a local path or fsspec URL; its folder is created if absent.

    Raises
    ------
    FormatError
        As :func:`render`.
    StoreError
        If it cannot be written, for example because the store is full.
    """
    return write(render(results, title=title), uri)


def _tell(run: Run) -> PageEntry:
    """Build the sections of a run: findings of all kinds first, then each kind, then the rest."""
    parts = [(KINDS[name], KINDS[name].tell(dataset)) for name, dataset in run.parts()]
    findings = join([overview for _, (overview, _) in parts])
    groups: list[tuple[str, list[Section]]] = [
        ("", [Section("overview", "Findings", "", findings)])
    ]
    groups += [(kind.heading, sections) for kind, (_, sections) in parts]
    closing = (build(run) for build in CLOSING)
    groups.append(("About this report", [section for section in closing if section is not None]))
    if len(parts) == 1:
        groups = [("", [section for _, sections in groups for section in sections])]
    return PageEntry(run.name, groups)
