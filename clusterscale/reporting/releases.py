"""Verdicts as series of releases, each with its reasons, and phrases about them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from urllib.parse import quote

from markupsafe import Markup

from clusterscale.contracts import VERDICT_LEVELS, Reason
from clusterscale.phrases import CHECK_VERDICTS, RELEASE_VERDICTS
from clusterscale.release.checks import OpenCell, TableFindings, alike
from clusterscale.release.verdict import Verdict
from clusterscale.reporting import section as html
from clusterscale.reporting.declared import Column
from clusterscale.reporting.figures import verdict_mark
from clusterscale.reporting.page import PageEntry, explanation, page

_UNNAMED = "releases"  # heading of those without a series
_WORST_FIRST = ("fail", "warn", "unknown", "pass")


_MOST_TIMES = 24  # columns of a matrix


def render_checks(findings: Sequence[TableFindings]) -> str:
    """Return the page of checks of published tables as one HTML file."""
    quiet = alike(findings)
    shown = [table for table in findings if table not in quiet]
    body = html.fill(
        "checks.html.j2",
        tables=shown,
        quiet=quiet,
        mark=lambda level: verdict_mark(level, CHECK_VERDICTS[level]),
    )
    sections = [html.Section("overview", "Findings", "", body)]
    sections += [_section(i, table) for i, table in enumerate(shown)]
    if quiet:
        body = html.table("consistent", [("", quiet)])
        sections.append(html.Section("consistent", "Tables that are consistent alone", "", body))
    intro = "What the checks find, and what they cannot."
    sections.append(html.section("reading", explanation("Checks of tables"), intro=intro))
    return page([PageEntry("", [("", sections)])], kind="table check", title="Published tables")


def _section(number: int, table: TableFindings) -> html.Section:
    body = html.table("checks", [("", table.results)], name=table.name)
    for name in dict.fromkeys(cell.table for cell in table.open_cells):
        body += _matrix(name, [cell for cell in table.open_cells if cell.table == name])
    if table.open_cells:
        body += html.table("open-cells", [("", table.open_cells)])
    intro = f"Declared method: {table.mechanism}."
    return html.Section(f"table-{number}", table.name, intro, body)


def _matrix(name: str, cells: Sequence[OpenCell]) -> Markup:
    """Return the counts of a table that follow, over places and times."""
    times = sorted({cell.time for cell in cells})[:_MOST_TIMES]
    shown = {
        (cell.place, cell.time): f"{cell.low:,}"
        if cell.low == cell.high
        else f"{cell.low:,}–{cell.high:,}"
        for cell in cells
    }
    rows: list[list[str | Markup]] = [
        [place, *(shown.get((place, time), "") for time in times)]
        for place in sorted({cell.place for cell in cells if cell.time in times})
    ]
    columns = [Column("Place", ("header",)), *map(Column, times)]
    caption = f"Counts of {name} that follow, by place and time"
    return html.draw_table(caption, columns, [("", rows)])


@dataclass(frozen=True, slots=True)
class Series:
    """Releases of one series, oldest first; there is at least one."""

    name: str
    releases: Sequence[Verdict]

    @property
    def newest(self) -> Verdict:
        """The newest release with a verdict."""
        return self.releases[-1]

    def count(self, verdict: str) -> int:
        """Return how many releases have a verdict."""
        return sum(release.verdict == verdict for release in self.releases)


def read_series(verdicts: Iterable[Verdict]) -> list[Series]:
    """Return the series of verdicts, sorted by the newest verdict, worst first."""
    by_series: dict[str, list[Verdict]] = {}
    for release in verdicts:
        by_series.setdefault(release.series, []).append(release)
    series = [Series(name or _UNNAMED, releases) for name, releases in by_series.items()]
    return sorted(series, key=lambda one: -VERDICT_LEVELS.index(one.newest.verdict))


def _number(value: float | None) -> float:
    return nan if value is None else value


def reasons_of(release: Verdict) -> list[Reason]:
    """Return the reasons, worst first."""
    reasons = [
        Reason(**why | {key: _number(why[key]) for key in ("measured", "limit")})
        for why in release.why
    ]
    return sorted(reasons, key=lambda reason: _WORST_FIRST.index(reason.level))


def against(release: Verdict) -> list[Reason]:
    """Return the reasons with level fail or warn."""
    return [reason for reason in reasons_of(release) if reason.level in ("fail", "warn")]


def scope_of(release: Verdict) -> str:
    """Return what was audited; a dash if that is not known."""
    return next((one.text for one in reasons_of(release) if one.check == "scope"), "–")


def measures_of(release: Verdict) -> dict[str, float]:
    """Return the measures of utility."""
    return {name: _number(value) for name, value in json.loads(release.utility).items()}


def verdict(release: Verdict) -> Markup:
    """Return a verdict with its mark."""
    return verdict_mark(release.verdict, RELEASE_VERDICTS[release.verdict])


def link(release: Verdict) -> str:
    """Return the relative address of the run's report; empty without a run."""
    # quoted, so that a folder is not parsed as a scheme or another host
    folder = quote(release.run.strip("/"), safe="/")
    return f"{folder}/report.html" if folder else ""


def span(low: float, high: float, digits: int = 3) -> str:
    """Format an interval with possibly negative ends, without line breaks; a dash if unknown."""
    if not (isfinite(low) and isfinite(high)):
        return "–"
    ends = (html.number(end, digits) for end in (low, high))
    return "\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}".join(ends)


def in_short(release: Verdict) -> str:
    """Return each reason against a release: check, measured value and limit; a dash if none."""
    parts = []
    for reason in against(release):
        parts.append(reason.check.replace("_", " "))
        if isfinite(reason.measured):
            limit = f", limit {html.quantity(reason.limit)}" if isfinite(reason.limit) else ""
            parts[-1] += f" {html.quantity(reason.measured)}{limit}"
    return "; ".join(parts) or "–"
