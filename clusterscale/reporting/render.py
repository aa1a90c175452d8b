"""The report of one or more runs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import xarray as xr

from clusterscale.reporting import certificates
from clusterscale.reporting import page as pages
from clusterscale.reporting.run import Results, Run, runs_of
from clusterscale.reporting.section import Section, join

_COORDINATES = ("mechanism", "prior")
_VARIABLES = ("compared_mechanism", "compared_prior", "view_mechanism", "view_prior")


def render(results: Results, *, title: str | None = None) -> str:
    """Return the report of results as one self-contained HTML page, the same for the same results.

    ``results`` are a dataset of an audit, a screen, traits or a recovery, which conforms to its
    schema, or a ``Run`` of several, or several runs; raises FormatError if they are not.
    """
    runs = entitle(runs_of(results))
    entries = [_entry(run) for run in runs]
    if len(entries) > 1:
        entries = [entry.within(f"run-{i + 1}-") for i, entry in enumerate(entries)]
    first = _parts(runs[0])[0].page
    settings = {title: label for run in runs for label, title in run.titles.items()}
    return pages.page(entries, kind=first.word, title=title or first.title, settings=settings)


def write_report(results: Results, uri: str | Path, *, title: str | None = None) -> str:
    """Write the report of results and return its location.

    The file is written atomically: an older report is replaced only when the new one is complete.

    Parameters
    ----------
    results
        Dataset of an analysis, or several datasets as a :class:`~clusterscale.reporting.Run`, or
        several runs.
    uri
        File to write, a local path or fsspec URL; its folder is created if absent.
    title
        Heading of the page.

    Returns
    -------
    str
        ``uri``.

    Raises
    ------
    FormatError
        If the results are not of known kinds.
    StoreError
        If it cannot be written, for example because the store is full.
    """
    return pages.write_page(render(results, title=title), uri)


def _parts(run: Run) -> list[pages.Part]:
    """Return how to present each dataset of a run, with the dataset."""
    parts = []
    for name, dataset in run.parts():
        found = pages.page_of(name)
        sections = found.sections or partial(pages.plain_sections, name)
        build: Any = resolve_name(sections) if isinstance(sections, str) else sections
        if "run" in signature(build).parameters:  # it shows other datasets of the run, too
            build = partial(build, run=run)
        parts.append(pages.Part(found, dataset, build))
    return parts


def _entry(run: Run) -> pages.PageEntry:
    """Build the sections of a run: findings of all kinds first, then each kind, then the rest."""
    parts = _parts(run)
    built = [(part.page, part.build(part.dataset)) for part in parts]
    findings = join([overview for _, (overview, _) in built])
    closing = *pages.configuration(parts, run.titles), pages.provenance(parts), pages.reading(parts)
    groups: list[tuple[str, Sequence[Section]]] = [
        ("", [Section("overview", "Findings", "", findings), *certificates.bracket_sections(run)]),
        *((shown.heading, sections) for shown, (_, sections) in built),
        ("About this report", closing),
    ]
    if len(parts) == 1:
        groups = [("", [section for _, sections in groups for section in sections])]
    return pages.PageEntry(run.name, groups)


def entitle(runs: Sequence[Run]) -> list[Run]:
    """Return the runs with titles in place of the labels of mechanisms and priors.

    A label stays where there is no title, or where another label on the page has the same one.
    """
    read = [dict.fromkeys(_titles_of(run)) for run in runs]
    pairs = dict.fromkeys(pair for titled in read for pair in titled)
    n_uses = Counter(name for pair in pairs for name in pair)
    titles = {label: title for label, title in pairs if n_uses[label] == 1 and n_uses[title] == 1}
    shown = []
    for run, own in zip(runs, read, strict=True):
        used = {label: titles[label] for label, _ in own if label in titles}
        parts = ((kind, data) for kind, data in run.parts() if kind not in run.others)
        renamed: Any = {kind: _rename(data, titles) for kind, data in parts}
        shown.append(replace(run, titles=used, **renamed))
    return shown


def _rename(results: xr.Dataset, titles: Mapping[str, str]) -> xr.Dataset:
    def renamed(names: Sequence[str]) -> dict[str, Any]:
        return {
            name: (
                results[name].dims,
                np.array([titles.get(str(v), str(v)) for v in results[name].values], dtype=object),
            )
            for name in names
            if name in results.variables
        }

    return results.assign_coords(renamed(_COORDINATES)).assign(renamed(_VARIABLES))


def _titles_of(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the label and the title of each mechanism and prior of a run."""
    for _, results in run.parts():
        for name in (*_COORDINATES, *_VARIABLES):
            pair = f"{name}_label", f"{name}_title"
            if all(each in results.variables for each in pair):
                both = zip(*(results[each].values.tolist() for each in pair), strict=True)
                yield from ((label, title) for label, title in both if title not in ("", label))
