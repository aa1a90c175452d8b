"""The verb that tells results: as a page, or as tables."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterscale.cli.console import err, out
from clusterscale.cli.options import check_address, option
from clusterscale.errors import InputError, MissingError

if TYPE_CHECKING:
    import xarray as xr

    from clusterscale.report import Run

__all__ = ["gather", "report", "write_page"]


class Format(StrEnum):
    """What can be written."""

    html = "html"
    csv = "csv"
    parquet = "parquet"
    netcdf = "netcdf"


def _check_addresses(addresses: list[str]) -> list[str]:
    for address in addresses:
        check_address(address)
    return addresses


def report(
    results: Annotated[
        list[str],
        typer.Argument(help="Folders of runs, or of a part of one.", callback=_check_addresses),
    ],
    output: Annotated[
        str | None, option("Where to write: an HTML file, or a folder for tables.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="A page, or tables.")] = Format.html,
    full: Annotated[
        bool, typer.Option("--full", help="Show every case of the audit here, and write nothing.")
    ] = False,
    show: Annotated[bool, typer.Option("--open", help="Show the page in a browser.")] = False,
) -> None:
    """Write what a run has found, by audit, screen, traits and recovery, as one HTML page.

    Several runs stand below each other on the page. With --format the numbers become tables.
    """
    from clusterscale.report import write_report, write_tables

    if full:
        for folder in results:
            _show_audit(folder)
        return
    if len(results) > 1 and output is None:
        raise InputError("these are several runs: say with --output where their page goes")
    runs = [gather(folder) for folder in results]
    if form is Format.html:
        page = write_report(runs, output or f"{_folder(results[0])}/report.html")
        out.print(page, highlight=False, soft_wrap=True)
        if show:
            _open(page)
        return
    for number, run in enumerate(runs, 1):
        folder = output or f"{_folder(results[0])}/tables"
        place = f"{folder}/{number}" if len(runs) > 1 else folder
        for written in write_tables(run, place, form.value):  # type: ignore[arg-type]
            out.print(written, highlight=False, soft_wrap=True)


def gather(folder: str) -> Run:
    """Return the run in a folder: whatever has finished there, of one cube.

    What has not finished, or is of another cube than what comes before it, is left out, and a
    warning says so.

    Raises
    ------
    MissingError
        If nothing has finished.
    FormatError
        If what is there cannot be told.
    """
    from clusterscale.report import Run

    folder = _folder(folder)
    found: list[xr.Dataset] = []
    for what, form, opener in _parts():
        opened = _opened(folder, what, form, opener)
        if opened is None:
            continue
        prints = {each.attrs.get("cube_fingerprint") for each in [*found, opened]}
        if len(prints) > 1:
            _warn(f"the {what} in {folder} is of another cube, and left out")
        else:
            found.append(opened)
    if not found:
        raise MissingError(f"{folder}: there are no results; has a run finished there?")
    return Run.of(found, name=folder)


def _show_audit(folder: str) -> None:
    from clusterscale.cli.results import show_results

    run = gather(folder)
    if run.audit is None:
        raise InputError(f"{folder}: there is no audit to show; run `clusterscale audit` first")
    show_results(run.audit, full=True)


def write_page(folder: str) -> None:
    """Write the page of all that has finished in the folder of a run, and say where it is."""
    from clusterscale.report import write_report

    page = write_report(gather(folder), f"{folder}/report.html")
    out.print(f"report   {page}", highlight=False, soft_wrap=True)


def _parts() -> list[tuple[str, str, Callable[[str], xr.Dataset]]]:
    """Return what a folder may hold: its name, its format, and what opens it."""
    from clusterscale import schema
    from clusterscale.audit import open_results
    from clusterscale.recovery import open_recovery
    from clusterscale.screening import open_screen
    from clusterscale.traits import open_traits

    return [
        ("audit", schema.RESULTS_FORMAT, open_results),
        ("screen", schema.SCREEN_FORMAT, open_screen),
        ("traits", schema.TRAITS_FORMAT, open_traits),
        ("recovery", schema.RECOVERY_FORMAT, open_recovery),
    ]


def _opened(
    folder: str, what: str, form: str, opener: Callable[[str], xr.Dataset]
) -> xr.Dataset | None:
    """Open one part of a run, in the folder itself or below it; None where there is none."""
    from clusterscale.storage.result_table import is_table

    for place in (folder, f"{folder}/{what}"):
        if is_table(f"{place}/results.zarr", form):
            try:
                return opener(place)
            except MissingError:
                _warn(f"the {what} in {folder} has not finished, and is left out")
    return None


def _folder(results: str) -> str:
    return results.rstrip("/").removesuffix("/results.zarr")


def _warn(text: str) -> None:
    err.print(f"[yellow]note:[/] {text}", highlight=False, soft_wrap=True)


def _open(page: str) -> None:
    if "://" in page:
        raise InputError(f"{page} is not on this machine: fetch it to open it")
    webbrowser.open(Path(page).resolve().as_uri())
