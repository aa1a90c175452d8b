"""Results in notebooks, as ``results.clusterscale``: a title, facts, and the strongest attacks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from clusterscale import schema
from clusterscale.errors import FormatError
from clusterscale.html_tables import Cell, grid, list_facts
from clusterscale.reporting.audit.cases import strongest_rows
from clusterscale.reporting.audit.gains import least_gains, tradeoff_figures
from clusterscale.reporting.audit.model import AuditReport
from clusterscale.reporting.audit.targets import auc_figures, loss_figure
from clusterscale.reporting.declared import DeclaredTables
from clusterscale.reporting.figures import Figure, Figures
from clusterscale.reporting.findings import Finding, find_exposures
from clusterscale.reporting.recovery import GOALS, find_best, read_errors
from clusterscale.reporting.run import Run, forms
from clusterscale.reporting.screening import read_cases
from clusterscale.reporting.section import TEMPLATES, absent_users, asset, json_attribute, number
from clusterscale.reporting.tables import to_frame
from clusterscale.reporting.traits import comparisons

_MOST = 20  # lines of a table

TableRow = Sequence[str]


@dataclass(frozen=True, slots=True)
class Short:
    """A summary: a title, facts by name, and a table if there is anything to compare.

    ``left_out`` is the number of further lines that the table omits.
    """

    title: str
    facts: Mapping[str, Cell]
    columns: TableRow = ()
    rows: Sequence[TableRow] = ()
    left_out: int = 0


def shorten(results: xr.Dataset) -> Short:
    """Return the summary of an audit, a screen, traits or a recovery; it identifies no user.

    For any other dataset, or a part of these, the summary has only the sizes.
    """
    if results.attrs.get("format") not in forms():
        return _only_sizes(results, "not a dataset of results with a summary")
    try:
        ((kind, whole),) = Run.of([results]).parts()
    except FormatError:
        return _only_sizes(
            results, "a part of results; `isel` and `sel` with lists keep them whole"
        )
    return _SUMMARIES[kind](whole)


def _only_sizes(results: xr.Dataset, why: str) -> Short:
    sizes = {str(name): f"{size:,}" for name, size in results.sizes.items()}
    return Short("Dataset", {"this is": why, **sizes})


def _short(name: str, rows: Sequence[Any], **values: Any) -> Short:
    """Return the summary that ``notebook.md`` declares, with its facts and a line for each row."""
    facts = _tables().fill(f"{name}-facts", [("", [None])], texts=_texts, **values)
    table = _tables().fill(name, [("", rows[:_MOST])], **values)
    about = dict(zip(facts.headings, facts.rows[0], strict=True))
    return Short(facts.caption, about, table.headings, table.rows, max(0, len(rows) - _MOST))


@cache
def _tables() -> DeclaredTables:
    return DeclaredTables(asset("notebook.md"), TEMPLATES.overlay(autoescape=False))


def _audit(results: xr.Dataset) -> Short:
    audit = AuditReport.of(results)
    return _short(
        "audit",
        strongest_rows(audit.cases),
        audit=audit,
        table=audit.cases,
        cube=json_attribute(results, "cube"),
        n_failed=int((audit.cases.status == "failed").sum()),
        n_done=int(np.isfinite(audit.cases.auc).sum()),
        gains=[f"{name}: {number(gain, 2)}" for name, gain in least_gains(audit.defences).items()],
        verdicts=[
            f"{name}: {finding.exposure}, {finding.reason}" for name, finding in audit.worst.items()
        ],
    )


def _screen(screened: xr.Dataset) -> Short:
    cases = list(read_cases(screened))
    rows = [{"case": case, "line": line} for case in cases for line in case.exposures]
    return _short("screen", rows, results=screened, cases=cases, absent=absent_users(screened))


def _recovery(recovered: xr.Dataset) -> Short:
    rows = [{"goal": goal, "best": find_best(read_errors(recovered, goal))} for goal in GOALS]
    return _short("recovery", rows, results=recovered)


def _traits(traits: xr.Dataset) -> Short:
    rows = [
        {"pair": pair, "apart": "inconclusive" if pair.doubts else _apart(traits, pair.index)}
        for pair in comparisons(traits.drop_vars("value"))
    ]
    return _short("traits", rows, results=traits)


def _apart(traits: xr.Dataset, comparison: int) -> str:
    separation = traits.separation.isel(comparison=comparison).values
    first = int(np.argmax(np.nan_to_num(np.abs(separation - 0.5))))
    return str(traits.characteristic_title.values[first])


def _texts(values: xr.DataArray) -> list[str]:
    return [str(value) for value in values.values]


_SUMMARIES: Mapping[str, Callable[[xr.Dataset], Short]] = {
    "audit": _audit,
    "screen": _screen,
    "traits": _traits,
    "recovery": _recovery,
}


class Plots:
    """Figures of an audit, each as a list of :class:`~clusterscale.reporting.figures.Figure`."""

    def __init__(self, results: xr.Dataset) -> None:
        shown = schema.with_labels(schema.validate(results), suffix="title")
        self._audit = AuditReport.of(shown)

    def auc(self) -> list[Figure]:
        """Draw the distribution of AUC over targets, by setting and group size."""
        cases = self._audit.cases
        return Figures(each for index, _ in cases.shown() for each in auc_figures(cases, index))

    def loss(self) -> list[Figure]:
        """Draw the privacy loss of targets, by setting."""
        cases = self._audit.cases
        return Figures(loss_figure(cases, index) for index, _ in cases.shown())

    def tradeoff(self) -> list[Figure]:
        """Draw privacy gain against utility loss, by prior, setting and measure of utility.

        There are no figures if either is not known.
        """
        return Figures(tradeoff_figures(self._audit))


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


def _line(value: Cell) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def _rest(short: Short) -> list[str]:
    return [f"and {short.left_out:,} more lines"] if short.left_out else []
