"""The verb that computes the papers again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from clusterscale.cli.console import err, out
from clusterscale.cli.options import (
    ClusterName,
    Memory,
    Workers,
    option,
    parse_memory,
    pick_cluster,
)
from clusterscale.cli.running import report_status, running_cluster
from clusterscale.cli.tables import add_numbers, new_table
from clusterscale.errors import ClusterError, ClusterscaleError, InputError, StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterscale.papers import Cubes, PaperStudy
    from clusterscale.report.papers import StudyReport
    from clusterscale.runtime import Cluster

__all__ = ["reproduce"]

_NO_CABS = "it needs the cabs: say where they are with --cabs"


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Studies as --list has them, papers as ndss18, data as cabs, or all.",
            show_default=False,
        ),
    ] = None,
    cabs: Annotated[
        str | None,
        option("The San Francisco cabs: a cube, their fixes as Parquet, or the original files."),
    ] = None,
    output: Annotated[str, option("Folder of all studies: path or URL.")] = "runs/papers",
    cluster: ClusterName = None,
    workers: Workers = None,
    memory: Memory = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Ten targets, and fewer settings.")
    ] = False,
    only_list: Annotated[
        bool, typer.Option("--list", help="Only show which studies there are.")
    ] = False,
) -> None:
    """Compute figures and tables of the papers again, and lay them beside the published numbers.

    What was done in the folder is not done again. Exits with 1 if a study could not be done.
    """
    from clusterscale.config import find_studies, load_study
    from clusterscale.papers import Cubes
    from clusterscale.report.papers import write_reproduced
    from clusterscale.runtime import Local

    if not (names or only_list):
        raise InputError(
            "say which studies, for example `clusterscale reproduce ndss18`, or all of them with "
            "`clusterscale reproduce all`; `clusterscale reproduce --list` shows which there are"
        )
    found = find_studies(names or ["all"])
    studies = {name: load_study(path, quick=quick) for name, path in found.items()}
    if only_list:
        _list(studies)
        return
    place = pick_cluster(Local(), cluster, workers)
    folder = output.rstrip("/")
    cubes = Cubes(f"{folder}/cubes", cabs)
    told, n_failed = _work(studies, cubes, f"{folder}/quick" if quick else folder, place, memory)
    _show(told)
    page = write_reproduced(told, f"{folder}/{'quick' if quick else 'reproduced'}.html")
    out.print(f"page     {page}", highlight=False, soft_wrap=True)
    if n_failed:
        raise typer.Exit(1)


def _list(studies: Mapping[str, PaperStudy]) -> None:
    table = new_table()
    table.add_column("study", no_wrap=True)
    for name in ("data", "figures and tables"):
        table.add_column(name)
    add_numbers(table, "numbers", "claims")
    for name, study in studies.items():
        n_numbers = sum(1 for each in study.published for _ in each.figures())
        cells = name, study.cube, ", ".join(study.items())
        table.add_row(*map(escape, cells), f"{n_numbers}", f"{len(study.claims)}")
    out.print(table)


def _work(
    studies: Mapping[str, PaperStudy], cubes: Cubes, folder: str, place: Cluster, memory: str | None
) -> tuple[list[StudyReport], int]:
    """Run what can be run, one by one; return what they tell, and how many failed."""
    from clusterscale.papers import report_without_results, reproduce
    from clusterscale.study import prefixed

    told: list[StudyReport] = []
    n_failed, allowed = 0, parse_memory(memory, place)
    with (
        report_status(folder, "reproduction", place) as beacon,
        running_cluster(place, "reproduce", beacon) as (executor, tell),
    ):
        for name, study in studies.items():
            if not study.runs or not cubes.has(study):
                told.append(report_without_results(name, study, _NO_CABS if study.runs else ""))
                continue
            address = cubes, f"{folder}/{name}", executor
            try:
                found = reproduce(name, study, *address, memory=allowed, tell=prefixed(tell, name))
            except (ClusterError, StoreError):
                raise
            except ClusterscaleError as error:
                n_failed += 1
                err.print(f"[bold red]{name}[/]: {escape(str(error))}", soft_wrap=True)
                found = report_without_results(name, study, "it could not be done")
            told.append(found)
    return told, n_failed


def _show(told: list[StudyReport]) -> None:
    from clusterscale.report.papers import AGREES, EXPLAINED, HOLDS, NOT_COMPARED

    out.print("published numbers, and statements")
    table = new_table()
    table.add_column("study", no_wrap=True)
    for name in ("agree", "explained", "hold", "core-s"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in told:
        n_compared = len(each.compared) - each.count(NOT_COMPARED)
        shares = (each.count(AGREES), n_compared), (each.count_statements(HOLDS), len(each.kept))
        agree, hold = (f"{part:,}/{whole:,}" if whole else "–" for part, whole in shares)
        cost = f"{each.core_seconds:,.0f}" if each.core_seconds == each.core_seconds else "–"
        table.add_row(escape(each.name), agree, f"{each.count(EXPLAINED):,}", hold, cost)
    out.print(table)
