"""The report of one or more runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import xarray as xr
import yaml
from markupsafe import Markup

from clusterscale.report import audit, recovery, screening, traits
from clusterscale.report.page import PageEntry, page, write
from clusterscale.report.run import Results, Run, entitle, runs_of
from clusterscale.report.section import (
    Column,
    Section,
    Table,
    breakable,
    fill,
    join,
    json_attribute,
)

__all__ = ["render", "write_report"]


@dataclass(frozen=True, slots=True)
class Kind:
    """How a page presents results of one kind.

    ``tell`` returns its part of the first screen and its sections. ``heading`` is the heading of
    these sections on a page with several kinds. ``word`` and ``title`` are the type and title of a
    page whose first kind this is. ``plan`` labels the plan, ``gist`` summarises the method in a
    sentence, and the template ``reading`` explains the terms.
    """

    word: str
    title: str
    heading: str
    tell: Callable[[xr.Dataset], tuple[Markup, list[Section]]]
    plan: str
    gist: str
    reading: str


_KINDS: Mapping[str, Kind] = {
    "audit": Kind(
        "audit report",
        "Membership audit of published counts",
        "Targets under attack",
        audit.render_sections,
        "Plan of the audit",
        "An audit plays a guessing game many times and measures how often the adversary is right.",
        "reading.html.j2",
    ),
    "screen": Kind(
        "screen report",
        "Exposure of all users by published counts",
        "Screen of all users",
        screening.render_sections,
        "Plan of the screen",
        "A screen compares, for every user, the same groups with and without that user.",
        "screen_reading.html.j2",
    ),
    "traits": Kind(
        "report of traits",
        "What exposes people in published counts",
        "Traits of exposed users",
        traits.render_sections,
        "Plan of the trait analysis",
        "The most exposed users are compared with the least exposed "
        "to find what they have in common.",
        "traits_reading.html.j2",
    ),
    "recovery": Kind(
        "recovery report",
        "Locations recovered from published counts",
        "Recovered locations",
        recovery.render_sections,
        "Plan of the recovery",
        "A recovery infers each user’s locations from the counts of "
        "all users, and measures the error.",
        "recovery_reading.html.j2",
    ),
}


_WORDS = (
    "This page describes mechanisms and priors in words. The table lists the exact settings, which "
    "also appear when the pointer is over a description. "
)
_SETTING_COLUMNS = (
    Column("Description", number=False, header=True, wide=True),
    Column("Setting", number=False, wide=True),
)


def configuration(run: Run) -> Section | None:
    """Build the settings behind titles, and the plans as YAML; None if there are no plans."""
    folds = []
    for name, dataset in run.parts():
        if plan := json_attribute(dataset, "plan"):
            text = yaml.safe_dump(dict(plan), sort_keys=False, allow_unicode=True, width=88)
            label = _KINDS[name].plan
            folds.append((label, fill("code.html.j2", text=text, label=label)))
    if not folds:
        return None
    rows = [[title, breakable(label)] for label, title in run.titles.items()]
    table = Table(
        "Mechanisms and priors, described and as configured", _SETTING_COLUMNS, [("", rows)]
    ).html
    return Section(
        "configuration",
        "Configuration",
        (_WORDS if rows else "")
        + "The plan that was run. The same plan, cube, seed and versions give the same results.",
        (table if rows else Markup("")) + fill("folds.html.j2", folds=folds),
    )


_CUBE = {
    "source": "Source",
    "when": "Time",
    "n_users": "Users",
    "n_rois": "Regions of interest",
    "n_epochs": "Epochs",
    "n_events": "Events",
    "null_roi": "Null region",
}
_RUN = {
    "cube_fingerprint": "Cube fingerprint",
    "plan_digest": "Plan digest",
    "seed": "Root seed",
}


def provenance(run: Run) -> Section:
    """Build the lists of data, run and software, with instructions to repeat the run."""
    folds = [(_KINDS[name].heading, _lists(dataset)) for name, dataset in run.parts()]
    return Section(
        "provenance",
        "Provenance",
        "Runs with the same fingerprint, digest, seed and versions give the same results. To "
        "repeat this run, install the versions below, add the keys cube and output to the "
        "configuration above, and run clusterscale with it.",
        fill("folds.html.j2", folds=folds),
    )


def _lists(results: xr.Dataset) -> Markup:
    cube = json_attribute(results, "cube")
    known = {title: _text(cube[key]) for key, title in _CUBE.items() if key in cube}
    known |= {key: _text(value) for key, value in cube.items() if key not in _CUBE}
    about = {title: str(results.attrs.get(key, "not recorded")) for key, title in _RUN.items()}
    versions = json_attribute(results, "versions")
    lists = {
        "Data": known or {"Cube": "not recorded"},
        "Run": about,
        "Software": {key: str(versions[key]) for key in sorted(versions)}
        or {"Versions": "not recorded"},
    }
    return fill("definitions.html.j2", lists=lists)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_text(part)}" for key, part in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(part) for part in value)
    return "not recorded" if value is None else str(value)


def reading(run: Run) -> Section:
    """Build the definitions, which depend only on the kinds of results."""
    kinds = [_KINDS[name] for name, _ in run.parts()]
    folds = [(kind.heading, fill(kind.reading)) for kind in kinds]
    return Section(
        "reading", "How to read this report", kinds[0].gist, fill("folds.html.j2", folds=folds)
    )


_CLOSING: tuple[Callable[[Run], Section | None], ...] = (configuration, provenance, reading)


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
    first = _KINDS[next(iter(runs[0].parts()))[0]]
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
    parts = [(_KINDS[name], _KINDS[name].tell(dataset)) for name, dataset in run.parts()]
    findings = join([overview for _, (overview, _) in parts])
    groups: list[tuple[str, list[Section]]] = [
        ("", [Section("overview", "Findings", "", findings)])
    ]
    groups += [(kind.heading, sections) for kind, (_, sections) in parts]
    closing = (build(run) for build in _CLOSING)
    groups.append(("About this report", [section for section in closing if section is not None]))
    if len(parts) == 1:
        groups = [("", [section for _, sections in groups for section in sections])]
    return PageEntry(run.name, groups)
