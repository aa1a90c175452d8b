"""Results in notebooks, as ``results.clusterscale``: a title, facts, and the strongest attacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from clusterscale import schema
from clusterscale.errors import FormatError
from clusterscale.html_tables import Cell, grid, list_facts
from clusterscale.phrases import BROKEN
from clusterscale.reporting.audit import draw_auc, draw_loss, draw_tradeoff
from clusterscale.reporting.audit.cases import AUC_LEVELS, Cases, strongest_rows
from clusterscale.reporting.audit.gains import least_gains
from clusterscale.reporting.audit.model import AuditReport
from clusterscale.reporting.figures import Figure
from clusterscale.reporting.findings import Finding, find_exposures
from clusterscale.reporting.recovery import GOALS, find_best, read_errors
from clusterscale.reporting.run import Run, forms
from clusterscale.reporting.screening import AUC_LEVELS as ABOVE
from clusterscale.reporting.screening import read_cases
from clusterscale.reporting.section import absent_users, interval, json_attribute, number, percent
from clusterscale.reporting.tables import to_frame
from clusterscale.reporting.traits import comparisons
from clusterscale.validation_messages import plural

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


def _audit(results: xr.Dataset) -> Short:
    audit = AuditReport.of(results)
    table = audit.cases
    facts = {
        "targets": plural(table.n_targets, "target") + _of_all(results),
        **_absent(results),
        "priors": _labels(results, "prior"),
        "mechanisms": _labels(results, "mechanism"),
        "attacks": list(table.attacks),
        "cases": _counts(table),
        "guarantees": _guarantees(audit),
        **_gains(audit),
        "verdict": [
            f"{name}: {finding.exposure}, {finding.reason}" for name, finding in audit.worst.items()
        ],
    }
    columns = ("Group size", "Strongest attack", "Mean AUC", "95 % interval", "Median target")
    lines = strongest_rows(table)
    rows = [
        (
            *([table.label(line.setting)] if table.varying else []),
            f"{line.group_size:,}",
            line.attack,
            number(line.mean),
            interval(line.low, line.high),
            number(line.median),
            *map(percent, line.above),
        )
        for line in lines[:_MOST]
    ]
    setting = ("Setting",) if table.varying else ()
    heads = (*setting, *columns, *(f"Targets above {level:g}" for level in AUC_LEVELS))
    return Short("Membership audit", facts, heads, rows, max(0, len(lines) - _MOST))


def _of_all(results: xr.Dataset) -> str:
    """Return how many users the cube has and its source, if known."""
    cube = json_attribute(results, "cube")
    n_users, source = cube.get("n_users"), cube.get("source")
    among = f" of {n_users:,} users" if isinstance(n_users, int) else ""
    return among + (f", {source}" if isinstance(source, str) else "")


def _absent(results: xr.Dataset) -> dict[str, Cell]:
    sentences = absent_users(results)
    return {"absent users": " ".join(sentences)} if sentences else {}


def _counts(table: Cases) -> str:
    n_failed, n_done = int((table.status == "failed").sum()), int(np.isfinite(table.auc).sum())
    return f"{n_done:,} done, {n_failed:,} failed" if n_failed else f"{n_done:,} done, none failed"


def _guarantees(audit: AuditReport) -> str:
    if not audit.n_tested:
        return "none were tested"
    if audit.broken:
        return f"{BROKEN}: {', '.join(audit.broken)}"
    return f"{audit.n_tested} tested, none {BROKEN}"


def _gains(audit: AuditReport) -> dict[str, Cell]:
    """Return the privacy gain of each mechanism, as on the page; nothing if none is known."""
    gains = least_gains(audit.defences)
    shown = [f"{name}: {number(gain, 2)}" for name, gain in gains.items()]
    return {"privacy gain": shown} if shown else {}


def _screen(screened: xr.Dataset) -> Short:
    screen_cases = list(read_cases(screened))
    facts = {
        "users": f"{screened.sizes['user']:,}",
        **_absent(screened),
        "mechanisms": _labels(screened, "mechanism"),
        "attacks": _labels(screened, "attack"),
        "groups compared": f"{screen_cases[0].n_groups:,} (median)" if screen_cases else "none",
    }
    rows = [
        (
            case.period,
            f"{case.group_size:,}",
            line.mechanism,
            line.attack,
            number(line.mean),
            number(line.high),
            *map(percent, line.above),
        )
        for case in screen_cases
        for line in case.exposures
    ]
    heads = ("Period", "Group size", "Mechanism", "Strongest attack", "Mean AUC", "95th percentile")
    above = (f"Users above {level:g}" for level in ABOVE)
    left_out = max(0, len(rows) - _MOST)
    return Short("Screen of all users", facts, (*heads, *above), rows[:_MOST], left_out)


def _recovery(recovered: xr.Dataset) -> Short:
    facts = {
        "users": f"{recovered.sizes['user']:,}",
        "epochs": f"{recovered.sizes['epoch']:,}",
        "priors": _labels(recovered, "prior"),
        "mechanisms": _labels(recovered, "mechanism"),
    }
    rows = []
    for goal in GOALS:
        best = find_best(read_errors(recovered, goal))
        errors = number(best.known), number(best.left)
        rows.append(
            (goal.name, best.without, errors[0], best.within, errors[1], percent(best.affected))
        )
    heads = ("Goal", "Best without a release", "Error", "Best with raw counts", "Error")
    return Short("Recovery of locations", facts, (*heads, "Users affected"), rows)


def _traits(traits: xr.Dataset) -> Short:
    shown = comparisons(traits.drop_vars("value"))
    facts = {
        "users": f"{traits.sizes['user']:,}",
        "characteristics": [str(title) for title in traits.characteristic_title.values],
        "loadings": plural(traits.sizes["view"], "setting"),
    }
    rows = [
        (
            pair.label,
            pair.attack,
            f"{pair.n:,}",
            number(pair.auc_top),
            number(pair.auc_bottom),
            "inconclusive" if pair.doubts else _apart(traits, pair.index),
        )
        for pair in shown
    ]
    heads = ("Setting", "Attack", "Users per side", "AUC of the most exposed", "Of the least")
    return Short("Traits of exposed users", facts, (*heads, "They differ most in"), rows)


def _apart(traits: xr.Dataset, comparison: int) -> str:
    separation = traits.separation.isel(comparison=comparison).values
    first = int(np.argmax(np.nan_to_num(np.abs(separation - 0.5))))
    return str(traits.characteristic_title.values[first])


def _labels(results: xr.Dataset, dim: str) -> list[str]:
    return [str(value) for value in results[dim].values]


_SUMMARIES: Mapping[str, Callable[[xr.Dataset], Short]] = {
    "audit": _audit,
    "screen": _screen,
    "traits": _traits,
    "recovery": _recovery,
}


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
