"""HTML pages: sections in order, with style sheet and scripts, in one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bokeh.resources import Resources
from markupsafe import Markup

from clusterscale.report.section import TEMPLATES, Section, embedded, fill
from clusterscale.storage import put

__all__ = ["PageEntry", "page", "write"]


@dataclass(frozen=True, slots=True)
class PageEntry:
    """One run on a page; ``groups`` are lists of sections, each with its heading."""

    name: str
    groups: Sequence[tuple[str, Sequence[Section]]]

    def within(self, prefix: str) -> PageEntry:
        """Return a copy whose anchors have a prefix."""
        groups = [(title, [s.within(prefix) for s in sections]) for title, sections in self.groups]
        return PageEntry(self.name, groups)


def page(
    runs: Sequence[PageEntry], *, kind: str, title: str, settings: Mapping[str, str] | None = None
) -> str:
    """Return a self-contained HTML page.

    Parameters
    ----------
    runs
        Runs in the order of the page; their names are shown if there are several.
    kind
        Type of the page, shown above its title.
    title
        Heading of the page.
    settings
        Exact settings by title, which a script shows when the pointer is over the title.
    """
    return str(
        fill(
            "page.html.j2",
            kind=kind,
            title=title,
            runs=runs,
            style=_asset("page.css"),
            settings=embedded(settings) if settings else "",
            scripts=[_asset("tables.js"), *_bokeh(runs)],
        )
    )


def write(html: str, uri: str | Path) -> str:
    """Write a page atomically and return its location; errors are those of ``put``."""
    put(str(uri), html.encode())
    return str(uri)


def _asset(name: str) -> Markup:
    source, _, _ = TEMPLATES.loader.get_source(TEMPLATES, name)  # type: ignore[union-attr]
    return Markup(source)


def _bokeh(runs: Sequence[PageEntry]) -> list[Markup]:
    # the library is most of the file, so a report without figures omits it
    bodies = (section.body for run in runs for _, sections in run.groups for section in sections)
    if not any("data-figure" in body for body in bodies):
        return []
    library = Markup(Resources(mode="inline", components=["bokeh"]).js_raw[0])
    return [library, _asset("figures.js")]
