"""The trend page over many releases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clusterscale.report.page import PageEntry, page, write
from clusterscale.report.section import Section
from clusterscale.report.trend.exposure import exposure
from clusterscale.report.trend.findings import findings
from clusterscale.report.trend.reading import reading
from clusterscale.report.trend.reasons import reasons
from clusterscale.report.trend.releases import Series, read_series
from clusterscale.report.trend.table import table as all_verdicts
from clusterscale.report.trend.utility import utility

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["render_trend", "write_trend"]

_BUILDS: tuple[Callable[[Sequence[Series]], Section | None], ...] = (
    exposure,
    utility,
    all_verdicts,
    reasons,
    reading,
)


def render_trend(
    table: pd.DataFrame, *, title: str | None = None, errors: Mapping[str, str] | None = None
) -> str:
    """Return the page of all verdicts as one self-contained HTML file.

    Parameters
    ----------
    table
        A row per verdict, oldest first, with the columns of
        :data:`clusterscale.report.trend.releases.COLUMNS`; other columns are ignored. Without rows,
        the page states that there is no verdict yet.
    title
        Heading of the page.
    errors
        Reasons why releases could not be audited, by release; with any, the overall verdict is an
        error.

    Returns
    -------
    str
        HTML, the same for the same table. Links to run reports are relative to the folder that
        ``run`` is relative to.

    Raises
    ------
    FormatError
        If a column is absent, or a row has an invalid value.
    """
    series = read_series(table)
    sections = [findings(series, errors or {})]
    sections += [section for build in _BUILDS if (section := build(series)) is not None]
    heading = title or "Exposure over releases"
    return page([PageEntry("", [("", sections)])], kind="trend report", title=heading)


def write_trend(
    table: pd.DataFrame,
    uri: str | Path,
    *,
    title: str | None = None,
    errors: Mapping[str, str] | None = None,
) -> str:
    """Write the page of all verdicts and return its location.

    The file is written atomically: an older page is replaced only when the new one is complete.

    Parameters
    ----------
    table, title, errors
        As for :func:`render_trend`.
    uri
        File to write, a local path or fsspec URL; its folder is created if absent.

    Raises
    ------
    FormatError
        As :func:`render_trend`.
    StoreError
        If it cannot be written, for example because the store is full.
    """
    return write(render_trend(table, title=title, errors=errors), uri)
