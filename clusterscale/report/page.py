"""The page itself: sections in order, one style sheet, the scripts they need, one file."""

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
    """What is told under one name; ``groups`` are sections under what they are about."""

    name: str
    groups: Sequence[tuple[str, Sequence[Section]]]

    def within(self, prefix: str) -> PageEntry:
        """Return the same with anchors of its own."""
        groups = [(title, [s.within(prefix) for s in sections]) for title, sections in self.groups]
        return PageEntry(self.name, groups)


def page(
    told: Sequence[PageEntry], *, kind: str, title: str, settings: Mapping[str, str] | None = None
) -> str:
    """Return one HTML page that needs nothing but itself.

    Parameters
    ----------
    told
        What stands below each other; names are shown where there are several.
    kind
        What the page is, above its title.
    title
        Heading of the page.
    settings
        What a script shows where the pointer is over words on the page: the settings they are for.
    """
    return str(
        fill(
            "page.html.j2",
            kind=kind,
            title=title,
            runs=told,
            style=_asset("page.css"),
            settings=embedded(settings) if settings else "",
            scripts=[_asset("tables.js"), *_bokeh(told)],
        )
    )


def write(html: str, uri: str | Path) -> str:
    """Write a page whole or not at all, and return where it is; errors are those of ``put``."""
    put(str(uri), html.encode())
    return str(uri)


def _asset(name: str) -> Markup:
    source, _, _ = TEMPLATES.loader.get_source(TEMPLATES, name)  # type: ignore[union-attr]
    return Markup(source)


def _bokeh(told: Sequence[PageEntry]) -> list[Markup]:
    # the library is most of the file, so a report without figures goes without it
    bodies = (section.body for run in told for _, sections in run.groups for section in sections)
    if not any("data-figure" in body for body in bodies):
        return []
    library = Markup(Resources(mode="inline", components=["bokeh"]).js_raw[0])
    return [library, _asset("figures.js")]
