"""The command ``advise``: search for what to publish, and show the answer."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from clusterscale.cli.console import out
from clusterscale.cli.options import (
    ClusterName,
    ConfigFile,
    Explain,
    Force,
    Memory,
    Output,
    Workers,
    option,
)
from clusterscale.cli.running import RunOptions, run_verb
from clusterscale.cli.tables import Key, add_numbers, new_table

if TYPE_CHECKING:
    import xarray as xr


_ROWS = 12  # candidates that are shown; the page lists all


def advise(
    config: ConfigFile = None,
    on: Annotated[
        str | None, option("Cube to search on in place of the config's, e.g. a synthetic one.")
    ] = None,
    confirm: Annotated[
        str | None, option("Cube to confirm on; by default that of the config.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(help="YAML file of a policy, whose limits hold in addition.")
    ] = None,
    output: Output = None,
    cluster: ClusterName = None,
    workers: Workers = None,
    memory: Memory = None,
    explain: Explain = False,
    force: Force = False,
) -> None:
    """Search for the mechanism that serves a goal within limits, confirm it, and explain why.

    The `advise` section of a config sets the goal, the limits and the candidates; its `audit`
    section says how they are attacked. The advice is confirmed on users and groups that the search
    has not touched. Exits with 4 if no mechanism could be confirmed.
    """
    from clusterscale import api
    from clusterscale.cube import TraceCube

    options = RunOptions(config, output, cluster, workers, memory, force, explain, on)
    other = None
    if confirm:
        other = TraceCube(confirm)
    elif on:
        other = options.config.cube.open()
    plan, wanted = options.config.the_audit(), options.config.advise
    analysis = api.advise.analysis(plan, wanted=wanted, policy=policy, confirm=other)
    results = run_verb(analysis, options)
    if results is not None and results.verdict != "advised":
        raise typer.Exit(4)


def show_advice(advice: xr.Dataset) -> None:
    """Print the answer, what was confirmed, and the leading candidates with why they fell out."""
    from clusterscale.reporting.advice import answer, leading, summarise

    for line in answer(advice):
        out.print(line, markup=False, highlight=False)
    if text := str(advice.attrs["yaml"]):
        out.print(f"\n{text}\n", markup=False, highlight=False, soft_wrap=True)
    for finding in json.loads(advice.attrs["findings"]):
        for line in textwrap.wrap(f"confirmed: {finding}", out.width - 2, subsequent_indent="  "):
            out.print(f"  {line}", markup=False, highlight=False)
    key, rows = Key(), leading(advice, _ROWS)
    titles = sorted(map(str, advice.mechanism_title.values), key=len, reverse=True)
    table = new_table()
    table.add_column("candidate", no_wrap=True)
    add_numbers(table, "score", "loss", "attack")
    table.add_column("why not")
    for row in rows:
        key.plain(row.title)
    for row in rows:
        numbers = (row.score, row.exposure, row.attacked)
        shown = ("" if number != number else f"{number:.3f}" for number in numbers)
        reason = row.reason
        for title in titles:
            reason = reason.replace(title, key.plain(title)) if title in reason else reason
        name, style = key.short(row.title), "bold" if row.is_advised else ""
        table.add_row(name, *shown, escape(reason), style=style)
    out.print(table)
    out.print(
        "[dim]score: weighted mean of the normalised measures, 1 for raw counts; loss: mean "
        "privacy loss in the screen; attack: mean AUC of attacked users[/]",
        highlight=False,
    )
    key.show(out)
    out.print(summarise(advice), markup=False, highlight=False)
    out.print(str(advice.attrs["price"]), markup=False, highlight=False)
