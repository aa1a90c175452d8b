"""Summaries of results: a title, facts, and the strongest attacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from clusterscale.analyses.audit.findings import worst_findings
from clusterscale.errors import FormatError
from clusterscale.html_tables import Cell
from clusterscale.phrases import BROKEN
from clusterscale.reporting.audit.cases import AUC_LEVELS, Cases, strongest_rows
from clusterscale.reporting.audit.defences import least_gains
from clusterscale.reporting.audit.model import AuditReport
from clusterscale.reporting.recovery import GOALS, find_best, read_errors
from clusterscale.reporting.run import Run, forms
from clusterscale.reporting.screening import AUC_LEVELS as ABOVE
from clusterscale.reporting.screening import read_cases
from clusterscale.reporting.section import absent_users, interval, json_attribute, number, percent
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
            f"{name}: {finding.exposure}, {finding.reason}"
            for name, finding in worst_findings(audit.findings).items()
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
