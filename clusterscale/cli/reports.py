"""The ``report`` command: write results as a page or as tables."""

from __future__ import annotations

import webbrowser
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterscale.cli.console import err, out
from clusterscale.cli.options import check_addresses, option
from clusterscale.errors import InputError

if TYPE_CHECKING:
    from clusterscale.report import Run

__all__ = ["gather", "report", "write_page"]


class Format(StrEnum):
    """Output formats."""

    html = "html"
    csv = "csv"
    parquet = "parquet"
    netcdf = "netcdf"


def report(
    results: Annotated[
        list[str],
        typer.Argument(help="Folders of runs, or of one analysis.", callback=check_addresses),
    ],
    output: Annotated[str | None, option("Output: an HTML file, or a folder for tables.")] = None,
    form: Annotated[Format, typer.Option("--format", help="A page, or tables.")] = Format.html,
    full: Annotated[
        bool, typer.Option("--full", help="Print all cases of the audit, and write nothing.")
    ] = False,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Write the audit, screen, traits and recovery of a run as one HTML page.

    Several runs share one page, one below the other. With --format the numbers become tables.
    """
    from clusterscale.report import write_report, write_tables

    if full:
        for folder in results:
            _show_audit(folder)
        return
    if len(results) > 1 and output is None:
        raise InputError("these are several runs: give the file or folder to write with --output")
    runs = [gather(folder) for folder in results]
    if form is Format.html:
        page = write_report(runs, output or f"{_folder(results[0])}/report.html")
        out.print(page, highlight=False, soft_wrap=True)
        if show:
            _open(page)
        return
    for number, run in enumerate(runs, 1):
        folder = output or f"{_folder(results[0])}/tables"
        target = f"{folder}/{number}" if len(runs) > 1 else folder
        for path in write_tables(run, target, form.value):  # type: ignore[arg-type]
            out.print(path, highlight=False, soft_wrap=True)


def gather(folder: str) -> Run:
    """Return the run in a folder, as :func:`clusterscale.report.open_run`, and print its notes."""
    from clusterscale.report import open_run

    run, notes = open_run(folder)
    for note in notes:
        err.print(f"[yellow]note:[/] {note}", highlight=False, soft_wrap=True)
    return run


def _show_audit(folder: str) -> None:
    from clusterscale.cli.results import show_results

    run = gather(folder)
    if run.audit is None:
        raise InputError(f"{folder}: there is no audit to show; run `clusterscale audit` first")
    show_results(run.audit, full=True)


def write_page(folder: str) -> None:
    """Write the page of all finished analyses in the folder of a run, and print its path."""
    from clusterscale.report import write_report

    page = write_report(gather(folder), f"{folder}/report.html")
    out.print(f"report   {page}", highlight=False, soft_wrap=True)


def _folder(results: str) -> str:
    return results.rstrip("/").removesuffix("/results.zarr")


def _open(page: str) -> None:
    if "://" in page:
        raise InputError(f"{page} is not on this machine: download it to open it")
    webbrowser.open(Path(page).resolve().as_uri())
