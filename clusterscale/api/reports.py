"""The page of a run."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from clusterscale.errors import InputError
from clusterscale.phrases import option
from clusterscale.reporting import Run, open_run, write_report
from clusterscale.reporting.run import runs_of
from clusterscale.storage import check_new


def report(
    results: str | Path | xr.Dataset | Run | Sequence[str | Path | Run],
    output: str | Path | None = None,
    *,
    title: str | None = None,
    force: bool = False,
) -> str:
    """Write the page of a run, one HTML file that can be read offline.

    Parameters
    ----------
    results
        Folder of a run, of which the page has all finished analyses; a dataset of results; or
        several folders, which share a page.
    output
        HTML file to write, a local path or fsspec URL. None: ``report.html`` in the folder.
    title
        Title of the page.
    force
        Replace a file that is not an earlier page of the same run.

    Returns
    -------
    str
        Location of the page.

    Raises
    ------
    InputError
        If ``output`` is missing and ``results`` is not one folder.
    MissingError
        If nothing has finished in a folder.
    FormatError
        If a dataset is not one of results.
    ExistsError
        If there is another file at ``output``.

    Warns
    -----
    UserWarning
        If an analysis in a folder is left out, because it has not finished or is of another cube.
    """
    output = page_of(results, output, "report.html")
    found: Any = results
    if isinstance(found, str | Path):
        found = gather(found)
    elif isinstance(found, Sequence):
        found = [gather(one) if isinstance(one, str | Path) else one for one in found]
    check_page([output], found, force=force)
    return write_report(found, output, title=title)


def check_page(outputs: Sequence[str], results: Any, *, force: bool | None) -> None:
    """Check that pages replace no file but earlier ones of the same runs; see ``check_new``."""
    datasets = (data for run in runs_of(results) for _, data in run.parts())
    prints = {str(data.attrs.get("cube_fingerprint", "")) for data in datasets}
    check_new(outputs, force=force, renews=prints)


def page_of(results: object, output: str | Path | None, name: str) -> str:
    """Return where a page or tables are written: by default below the folder of the run."""
    if output is not None:
        return str(output)
    if not isinstance(results, str | Path):
        raise InputError(f"{option('output')} is missing: give the file to write")
    return f"{str(results).rstrip('/').removesuffix('/results.zarr')}/{name}"


def gather(folder: str | Path) -> Run:
    """Return the run in a folder; each analysis that is left out is a warning.

    Parameters
    ----------
    folder
        Folder of a run, a local path or fsspec URL.

    Raises
    ------
    MissingError
        If nothing has finished there.

    Warns
    -----
    UserWarning
        For each analysis that is left out.
    """
    run, notes = open_run(str(folder))
    for note in notes:
        warnings.warn(note, UserWarning, stacklevel=3)
    return run
