"""Results in notebooks: ``results.clusterscale``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import xarray as xr

from clusterscale import schema
from clusterscale.analyses.audit.findings import Finding, find_exposures
from clusterscale.html_tables import Cell, grid, list_facts
from clusterscale.reporting.audit.exports import draw_auc, draw_loss, draw_tradeoff
from clusterscale.reporting.figures import Figure
from clusterscale.reporting.notebook import Short, shorten
from clusterscale.reporting.run import Run
from clusterscale.reporting.tables import to_frame

if TYPE_CHECKING:
    import pandas as pd


@xr.register_dataset_accessor("clusterscale")  # type: ignore[no-untyped-call]
class Findings:
    """Summary of the findings of an audit, a screen, traits or a recovery, with a report method.

    It is an accessor of :class:`xarray.Dataset`, available once ``clusterscale.reporting`` is
    imported. ``results.clusterscale`` as the last line of a cell shows the plan, the strongest
    attack in every setting, failed cases and broken guarantees. Values are read when it is
    displayed; it identifies no user.

    Parameters
    ----------
    results
        Dataset of an audit, a screen, traits or a recovery.
    """

    def __init__(self, results: xr.Dataset) -> None:
        self._results = results

    def __repr__(self) -> str:
        short = shorten(self._results)
        facts = [f"{name}: {_line(value)}" for name, value in short.facts.items()]
        rows = ["  ".join(row) for row in (short.columns, *short.rows) if row]
        return "\n".join([short.title, *facts, *rows, *_rest(short)])

    def _repr_html_(self) -> str:
        short = shorten(self._results)
        parts = [list_facts(short.title, short.facts)]
        if short.rows:
            parts.append(grid("Strongest attacks", short.columns, short.rows))
        return "".join([*parts, *(f"<p>{text}</p>" for text in _rest(short))])

    @property
    def findings(self) -> list[Finding]:
        """The verdict on each release of an audit: a period, prior, group size and mechanism.

        Raises
        ------
        FormatError
            If the dataset is not one of an audit.
        """
        return find_exposures(schema.with_labels(schema.validate(self._results)))

    @property
    def plot(self) -> Plots:
        """Figures of an audit: ``results.clusterscale.plot.auc()``."""
        return Plots(self._results)

    def to_dataframe(self, table: str | None = None) -> pd.DataFrame:
        """Return one of the tables that :func:`~clusterscale.reporting.write_tables` writes.

        Parameters
        ----------
        table
            Name of the table, such as ``cases``, ``verdicts`` or ``utility`` of an audit, or
            ``users`` of a screen. None: the first, which has a row per case, user or the like.

        Returns
        -------
        pandas.DataFrame
            A column for each dimension and variable; cases that were not run are left out.

        Raises
        ------
        InputError
            If there is no such table; the message lists the names.
        FormatError
            If the dataset is not one of results.
        """
        ((kind, whole),) = Run.of([self._results]).parts()
        return to_frame(kind, whole, table)

    def report(self, path: str | Path, *, title: str | None = None) -> str:
        """Write the report and return its location.

        Parameters and errors are those of :func:`clusterscale.reporting.write_report`.
        """
        from clusterscale.reporting.render import write_report

        return write_report(self._results, path, title=title)


class Plots:
    """Figures of an audit, each as a list of :class:`~clusterscale.reporting.figures.Figure`."""

    def __init__(self, results: xr.Dataset) -> None:
        self._results = results

    def auc(self) -> list[Figure]:
        """Draw the distribution of AUC over targets, by setting and group size."""
        return draw_auc(self._results)

    def loss(self) -> list[Figure]:
        """Draw the privacy loss of targets, by setting."""
        return draw_loss(self._results)

    def tradeoff(self) -> list[Figure]:
        """Draw privacy gain against utility loss, by prior, setting and measure of utility."""
        return draw_tradeoff(self._results)


def _line(value: Cell) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def _rest(short: Short) -> list[str]:
    return [f"and {short.left_out:,} more lines"] if short.left_out else []
