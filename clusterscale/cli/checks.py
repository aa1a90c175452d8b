"""The ``check`` command: check published tables without traces."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.padding import Padding

from clusterscale.cli import options as shared
from clusterscale.cli.console import out
from clusterscale.cli.releases import EXIT_CODES, VERDICT_STYLES
from clusterscale.cli.running import running_cluster
from clusterscale.errors import InputError
from clusterscale.phrases import CHECK_VERDICTS

if TYPE_CHECKING:
    from clusterscale.contracts import Level
    from clusterscale.release.checks import TableFindings

_MOST_CELLS = 10  # that are shown in the terminal

_NEED_TRACES = "noise_law", "possible_counts"


def check(
    tables: shared.AddressArguments,
    beside: shared.OptionalAddresses = None,
    method: str | None = None,
    group_size: shared.GroupSize = None,
    subset_of: list[str] | None = None,
    form: Annotated[str | None, typer.Option("--format")] = None,
    to_json: shared.JsonFile = None,
    to_junit: shared.JunitFile = None,
    to_page: Annotated[str | None, typer.Option("--page", callback=shared.check_address)] = None,
    to_repair: Annotated[
        str | None, typer.Option("--repair", callback=shared.check_address)
    ] = None,
    cost: Literal["count", "value"] = "count",
    force: shared.Force = False,
    cluster: str | None = None,
    workers: shared.Workers = None,
) -> None:
    """Check published tables against their method and each other, without traces or a config.

    A YAML file lists tables that are published together, and how they are related: then all that
    follows from all of them is found. With --repair, tables of which nothing follows are written,
    and checked in turn. With --cluster or --workers, what takes integer programs runs as tasks.

    Exits with the worst verdict: 0 consistent, 3 inconclusive, 4 inconsistent.

    No check shows that a table is safe: that takes an audit.

    Parameters
    ----------
    tables
        Tables: paths or URLs; or a YAML file that lists those of a publication.
    beside
        A table that was published with or before them; may be repeated.
    method
        How they were published: a mechanism, as exact, 'threshold(k=5)', '{name: threshold, k: 5}',
        or a YAML file; by default what each table states.
    group_size
        People in each table; by default what each states.
    subset_of
        PART=WHOLE: two of the tables, of which the second counts everyone whom the first counts,
        and others; may be repeated.
    form
        Format of the tables, as 'long(place='zone')' or a YAML file; by default that of their
        ending.
    to_json
        File to write the findings to.
    to_junit
        File to write them to as JUnit XML.
    to_page
        HTML page to write.
    to_repair
        Folder to write the tables of a publication to, with further cells hidden so that nothing
        follows from all of them.
    cost
        What to hide little of in a repair: cells (count), or people (value).
    force
        Overwrite the page.
    """
    from clusterscale.api import tables as api
    from clusterscale.config import load_publication, parse_entry
    from clusterscale.mechanisms import MECHANISMS
    from clusterscale.reauditing import junit_of_tables
    from clusterscale.release import TABLE_FORMATS, entry
    from clusterscale.storage import check_new, check_outputs, put

    publication = api.publication_of(tables)
    if to_repair and publication is None:
        raise InputError("--repair: give a YAML file that lists the tables of a publication")
    read = [*tables, *(beside or []), method, form]
    if publication is not None:
        read += load_publication(publication).addresses
    read += [other for uri in read if uri for other in entry.inputs_of(uri)]
    check_outputs([to_json, to_junit, to_page, to_repair], read)
    check_new([to_page], force=force)
    check_new([to_json, to_junit], force=force, renews=())
    with _opened(cluster, workers) as where:
        findings = api.check(
            tables,
            beside=beside or [],
            mechanism=None if method is None else parse_entry(MECHANISMS, method),
            group_size=group_size,
            subset_of=_read_subsets(subset_of or []),
            form=None if form is None else parse_entry(TABLE_FORMATS, form),
            **where,
        )
        _show_all(findings)
        out.print(f"not checked, as that needs traces: {', '.join(_NEED_TRACES)}", soft_wrap=True)
        found = _plain(findings, worst := _worst(findings))
        if to_junit:
            put(to_junit, junit_of_tables(findings).encode())
        if to_page:
            from clusterscale.reporting import render_checks, write_page

            out.print(f"page     {write_page(render_checks(findings), to_page)}", soft_wrap=True)
        try:
            if to_repair:
                found["repaired"], worst = _repair(tables, to_repair, cost, where)
        finally:  # a repair that fails leaves no verdict of an earlier check
            if to_json:
                put(to_json, json.dumps(found, indent=1).encode())
    raise typer.Exit(EXIT_CODES[worst])


@contextmanager
def _opened(name: str | None, workers: int | None) -> Iterator[dict[str, Any]]:
    """Yield where tasks run, and how progress is shown; nothing without a cluster."""
    from clusterscale.runtime import Local

    if name is None and workers is None:
        yield {}
        return
    with running_cluster(shared.pick_cluster(Local(), name, workers), "check") as (executor, tell):
        yield {"executor": executor, "progress": tell}


def _repair(
    tables: Sequence[str], folder: str, cost: Literal["count", "value"], where: dict[str, Any]
) -> tuple[dict[str, Any], Level]:
    """Write repaired tables, show what was hidden, check them; return findings and verdict."""
    from clusterscale.api.tables import PUBLICATION, check, repair_tables
    from clusterscale.release.checks import MASK

    folder = folder.rstrip("/")
    masked = repair_tables(tables[0], folder, cost=cost, **where)
    out.print(f"[green]repaired[/]  {escape(folder)}", soft_wrap=True)
    _print(masked.summary)
    _list(masked.reasons, f"which {MASK} lists")
    findings = check([f"{folder}/{PUBLICATION}"], **where)
    _show_all(findings)
    worst = _worst(findings)
    if masked.left:
        _print("known whatever is hidden, so publish less:")
        _list(masked.left, "too")
        if masked.withhold:
            _print("leave out the rows of these totals (`absent: not_covered`), and repair again:")
            _list(masked.withhold, "too")
        worst = "fail"
    about = {"folder": folder, "hidden": masked.reasons, "left": masked.left}
    return about | _plain(findings, worst), worst


def _read_subsets(declared: Sequence[str]) -> dict[str, list[str]]:
    wholes: dict[str, list[str]] = {}
    for text in declared:
        part, mark, whole = text.partition("=")
        if not (part and mark and whole):
            raise InputError(f"--subset-of {text}: should be PART=WHOLE, as in part.csv=all.csv")
        wholes.setdefault(part, []).append(whole)
    return wholes


def _show_verdict(verdict: str, name: str, what: str) -> None:
    line = f"[{VERDICT_STYLES[verdict]}]{CHECK_VERDICTS[verdict]}[/]  {escape(name)}"
    out.print(f"{line}  ({escape(what)})", soft_wrap=True)


def _show_all(findings: Sequence[TableFindings]) -> None:
    from clusterscale.release.checks import alike

    quiet = alike(findings)
    for table in findings:
        if table not in quiet:
            _show(table)
    if quiet:
        names = f"{quiet[0].name} to {quiet[-1].name}"
        _show_verdict("pass", f"{len(quiet)} tables, each alone", names)


def _show(table: TableFindings) -> None:
    _show_verdict(table.verdict, table.name, table.mechanism)
    for note in table.notes:
        _print(note)
    for related in table.related:
        _print(f"related: {related.text}")
    open_checks: dict[str, list[str]] = {}
    for result in table.results:
        if result.decided:
            mark = "inconsistent: " if result.level == "inconsistent" else ""
            _print(f"{mark}{result.check}: {result.text}")
        elif result.check not in _NEED_TRACES:
            open_checks.setdefault(result.text, []).append(result.check)
    if table.omitted and table.omitted not in open_checks:
        _print(f"not decided: {table.omitted}")
    for text, names in open_checks.items():
        _print(f"not checked: {', '.join(names)}: {text}")
    cells = [f"{cell.table}: {cell.text}" for cell in table.open_cells]
    _list(cells, "which --json and --page list")


def _list(texts: Sequence[str], where: str) -> None:
    for text in texts[:_MOST_CELLS]:
        out.print(Padding(escape(text), (0, 0, 0, 6), expand=False))
    if (n_more := len(texts) - _MOST_CELLS) > 0:
        _print(f"and {n_more:,} more, {where}")


def _worst(findings: Sequence[TableFindings]) -> Level:
    return max((table.verdict for table in findings), key=list(EXIT_CODES).index)


def _print(text: str) -> None:
    out.print(f"      {escape(text)}", soft_wrap=True)


def _plain(findings: Sequence[TableFindings], worst: str) -> dict[str, Any]:
    from clusterscale.reauditing import json_safe

    tables = [
        {
            "table": table.name,
            "mechanism": table.mechanism,
            "verdict": CHECK_VERDICTS[table.verdict],
            "omitted": table.omitted,
            "notes": table.notes,
            **({"related": [asdict(one) for one in table.related]} if table.related else {}),
            "checks": [json_safe(asdict(result)) for result in table.results],
            **({"open": [asdict(cell) for cell in table.open_cells]} if table.open_cells else {}),
        }
        for table in findings
    ]
    return {"verdict": CHECK_VERDICTS[worst], "tables": tables}
