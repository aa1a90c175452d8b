"""The page of checks of published tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from clusterscale.phrases import CHECK_VERDICTS
from clusterscale.release.checks import TableFindings
from clusterscale.reporting.figures import verdict_mark
from clusterscale.reporting.page import PageEntry, explanation, page, write
from clusterscale.reporting.section import Column, Section, Table, fill, quantity

_COLUMNS = (
    Column("Check", number=False, header=True),
    Column("Result", number=False),
    Column("Finding", number=False, wide=True),
    Column("Cells", hint="Number of cells that were checked"),
    Column("Measured"),
    Column("Expected"),
)


def render_checks(findings: Sequence[TableFindings]) -> str:
    """Return the page of checks of published tables as one HTML file."""
    body = fill(
        "checks.html.j2",
        tables=findings,
        mark=lambda level: verdict_mark(level, CHECK_VERDICTS[level]),
    )
    sections = [Section("overview", "Findings", "", body)]
    sections += [_section(i, table) for i, table in enumerate(findings)]
    sections.append(
        Section(
            "reading",
            "How to read this page",
            "What the checks find, and what they cannot.",
            explanation("Checks of tables"),
        )
    )
    return page([PageEntry("", [("", sections)])], kind="table check", title="Published tables")


def write_checks(findings: Sequence[TableFindings], uri: str | Path) -> str:
    """Write the page of checks and return its location; raises StoreError on failure."""
    return write(render_checks(findings), uri)


def _section(number: int, table: TableFindings) -> Section:
    rows: list[list[str | Markup]] = [
        [
            result.check.replace("_", " "),
            result.level if result.decided else "not checked",
            result.text,
            f"{result.n_cells:,}",
            quantity(result.measured),
            quantity(result.expected),
        ]
        for result in table.results
    ]
    body = Table(f"Checks of {table.name}", _COLUMNS, [("", rows)]).html
    intro = f"Declared method: {table.mechanism}."
    return Section(f"table-{number}", table.name, intro, body)
