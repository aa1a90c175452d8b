"""HTML pages: sections in order, with style sheet and scripts, and the sections of any results."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

import numpy as np
import xarray as xr
import yaml
from bokeh.resources import Resources
from markdown_it import MarkdownIt
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.models import dump_yaml
from clusterscale.reporting import section as html
from clusterscale.storage import put
from clusterscale.study import Page, find_kind

_PIECE = 1 << 20  # values in memory at once
_TERM = re.compile(r"<li><strong>(.*?)</strong>: (.*?)</li>", re.DOTALL)
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


@dataclass(frozen=True, slots=True)
class PageEntry:
    """One run on a page; ``groups`` are lists of sections, each with its heading."""

    name: str
    groups: Sequence[tuple[str, Sequence[html.Section]]]

    def within(self, prefix: str) -> Self:
        """Return a copy whose anchors have a prefix."""
        groups = [(title, [s.within(prefix) for s in sections]) for title, sections in self.groups]
        return replace(self, groups=groups)


def page(
    runs: Sequence[PageEntry], *, kind: str, title: str, settings: Mapping[str, str] | None = None
) -> str:
    """Return a self-contained HTML page of runs, whose names are shown if there are several.

    ``kind`` is shown above the title; ``settings`` are exact settings by title, which a script
    shows when the pointer is over the title.
    """
    return str(
        html.fill(
            "page.html.j2",
            kind=kind,
            title=title,
            runs=runs,
            style=html.asset("page.css"),
            settings=html.embedded(settings) if settings else "",
            scripts=[html.asset("tables.js"), *_bokeh(runs)],
        )
    )


def write_page(text: str, uri: str | Path) -> str:
    """Write a page atomically and return its location; errors are those of ``put``."""
    put(str(uri), text.encode())
    return str(uri)


def _bokeh(runs: Sequence[PageEntry]) -> list[Markup]:
    # the library is most of the file, so a report without figures omits it
    bodies = (section.body for run in runs for _, sections in run.groups for section in sections)
    if not any("data-figure" in body for body in bodies):
        return []
    library = Markup(Resources(mode="inline", components=["bokeh"]).js_raw[0])
    return [library, html.asset("figures.js")]


@dataclass(frozen=True, slots=True)
class Part:
    """A dataset on a page, how it is presented, and the function that builds its sections."""

    page: Page
    dataset: xr.Dataset
    build: Callable[[xr.Dataset], tuple[Markup, list[html.Section]]]


Parts = Sequence[Part]


def page_of(name: str) -> Page:
    """Return how a page presents an analysis: as its class says, else as `pages.yaml` does."""
    kind = find_kind(name)
    if kind is not None and kind.page is not None:
        return kind.page
    others = {key: text.format(name) for key, text in _pages()["*"].items()}
    return Page(**_pages().get(name, others))


@cache
def _pages() -> Mapping[str, Mapping[str, str]]:
    return yaml.safe_load(str(html.asset("pages.yaml")))  # type: ignore[no-any-return]


def plain_sections(name: str, results: xr.Dataset) -> tuple[Markup, list[html.Section]]:
    """Return the first screen and the section of an analysis without sections of its own."""
    names = [*results.coords, *results.data_vars]
    rows = [_summary(results[name]) for name in names]
    sizes = {str(dim): f"{size:,}" for dim, size in results.sizes.items()}
    table = html.table("variables", [("", rows)], name=name)
    section = html.section("variables", table, anchor=f"{name}-variables", name=name)
    return html.fill("plain.html.j2", name=name, n_variables=len(rows), sizes=sizes), [section]


def _summary(variable: xr.DataArray) -> dict[str, object]:
    """Return what is known of a variable; text and times are only counted."""
    n, total, low, high = 0, 0.0, np.inf, -np.inf
    for values in _pieces(variable):
        if values.dtype.kind not in "biuf":
            n += int((values.astype(str) != "").sum())
            continue
        known = values[np.isfinite(values)].astype(np.float64)
        n, total = n + known.size, total + float(known.sum())
        low, high = min(low, known.min(initial=np.inf)), max(high, known.max(initial=-np.inf))
    return {"variable": variable, "n": n, "low": low, "mean": total / max(n, 1), "high": high}


def _pieces(variable: xr.DataArray) -> Iterator[NDArray[Any]]:
    """Yield the values of a variable that may be larger than memory."""
    if not variable.dims:
        yield np.atleast_1d(variable.values)
        return
    dim, length = variable.dims[0], variable.shape[0]
    step = max(1, _PIECE * length // max(1, variable.size))
    for start in range(0, length, step):
        yield variable.isel({dim: slice(start, start + step)}).values


def configuration(parts: Parts, titles: Mapping[str, str]) -> Iterator[html.Section]:
    """Build the settings behind titles, and the plans as YAML; none if there are no plans."""
    folds = []
    for part in parts:
        if plan := html.json_attribute(part.dataset, "plan"):
            text = dump_yaml(dict(plan), allow_unicode=True, width=88)
            label = part.page.plan
            folds.append((label, html.fill_part("layout.code", text=text, label=label)))
    if folds:
        settings = html.table("settings", [("", titles.items())]) if titles else Markup("")
        yield html.section("configuration", settings + html.folded(folds), titles=titles)


def provenance(parts: Parts) -> html.Section:
    """Build the lists of data, run and software, with instructions to repeat the run."""
    folds = [(part.page.heading, _lists(part.dataset)) for part in parts]
    return html.section("provenance", html.folded(folds))


def _lists(results: xr.Dataset) -> Markup:
    cube = html.json_attribute(results, "cube")
    known = {title: _text(cube[key]) for key, title in _CUBE.items() if key in cube}
    shown = {*_CUBE, "calendar"}  # which the time describes
    known |= {key: _text(value) for key, value in cube.items() if key not in shown}
    lists = {"Data": known or {"Cube": "not recorded"}, "Run": digests(results)}
    lists["Software"] = versions_of(results)
    return html.fill_part("layout.definitions", lists=lists)


def digests(results: xr.Dataset) -> dict[str, str]:
    """Return fingerprint, digest and seed of results, by title."""
    return {title: str(results.attrs.get(key, "not recorded")) for key, title in _RUN.items()}


def versions_of(results: xr.Dataset) -> dict[str, str]:
    """Return the versions of the software that computed results, by package."""
    versions = html.json_attribute(results, "versions")
    known = {key: str(versions[key]) for key in sorted(versions)}
    return known or {"Versions": "not recorded"}


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


def reading(parts: Parts) -> html.Section:
    """Build the definitions, which depend only on the kinds of results."""
    folds = [(part.page.heading, explanation(part.page.reading)) for part in parts]
    return html.Section(
        "reading", "How to read this report", parts[0].page.gist, html.folded(folds)
    )


def explanation(heading: str) -> Markup:
    """Return the part of the guide's page on reports below a heading, as HTML."""
    return _explanations()[heading]


@cache
def _explanations() -> Mapping[str, Markup]:
    page = files("clusterscale").joinpath("guide", "reading.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^## (.+)\n", page, flags=re.MULTILINE)
    return {
        heading: html.fill_part("layout.prose", text=_with_definitions(MarkdownIt().render(text)))
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    }


def _with_definitions(text: str) -> Markup:
    """Return HTML with definitions in place of lists, whose items are a term and its meaning."""
    text = _TERM.sub(r"<div><dt>\1</dt><dd>\2</dd></div>", text)
    return Markup(text.replace("<ul>", "<dl>").replace("</ul>", "</dl>"))
