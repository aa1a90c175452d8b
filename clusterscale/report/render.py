"""The page: sections in order, one style sheet, one script, one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import xarray as xr
from bokeh.resources import Resources
from markupsafe import Markup

from clusterscale import schema
from clusterscale.cube.storage import put
from clusterscale.errors import FormatError
from clusterscale.report.recovered import RECOVERY_SECTIONS
from clusterscale.report.section import TEMPLATES, Build, Section, fill
from clusterscale.report.sections import SECTIONS

__all__ = ["render", "write_report"]


@dataclass(frozen=True, slots=True)
class _Page:
    """What is told of results of one format."""

    kind: str
    title: str
    variables: Mapping[str, schema.Variable]
    sections: tuple[Build, ...]


_PAGES = {
    schema.RESULTS_FORMAT: _Page(
        "audit report", "Membership audit of published counts", schema.RESULTS, SECTIONS
    ),
    schema.RECOVERY_FORMAT: _Page(
        "recovery report",
        "Whereabouts recovered from published counts",
        schema.RECOVERY,
        RECOVERY_SECTIONS,
    ),
}


def render(results: xr.Dataset, *, title: str | None = None) -> str:
    """Return the report of an audit or a recovery as one HTML page that needs nothing but itself.

    Parameters
    ----------
    results
        Dataset that keeps :data:`clusterscale.schema.RESULTS` or
        :data:`clusterscale.schema.RECOVERY`; its attributes describe the plan, the cube and the
        software.
    title
        Heading of the page.

    Returns
    -------
    str
        HTML, the same for the same results.

    Raises
    ------
    FormatError
        If ``results`` is neither.
    """
    kind = results.attrs.get("format", schema.RESULTS_FORMAT)
    if kind not in _PAGES:
        raise FormatError(f"a report is made from {' or '.join(_PAGES)}, not from {kind}")
    page = _PAGES[kind]
    schema.validate(results, page.variables)
    results = results.compute()
    built = [section for build in page.sections if (section := build(results)) is not None]
    return str(
        fill(
            "page.html.j2",
            kind=page.kind,
            title=title or page.title,
            sections=built,
            style=_asset("page.css"),
            script=_asset("page.js"),
            bokeh=_bokeh(built),
        )
    )


def write_report(results: xr.Dataset, uri: str | Path, *, title: str | None = None) -> str:
    """Write the report of an audit or a recovery and return where it is.

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
    StoreError
        If it cannot be written; says so if the place is full.
    """
    put(str(uri), render(results, title=title).encode())
    return str(uri)


def _asset(name: str) -> Markup:
    source, _, _ = TEMPLATES.loader.get_source(TEMPLATES, name)  # type: ignore[union-attr]
    return Markup(source)


def _bokeh(sections: list[Section]) -> Markup:
    # the library is most of the file, so a report without figures goes without it
    if not any("data-figure" in section.body for section in sections):
        return Markup("")
    return Markup(Resources(mode="inline", components=["bokeh"]).js_raw[0])
