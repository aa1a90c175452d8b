"""The findings in short, of results of any kind: facts, and a table or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from clusterscale import schema
from clusterscale.audit.findings import find_exposures, worst_findings
from clusterscale.errors import FormatError
from clusterscale.html_tables import Cell
from clusterscale.report.audit.overview import strongest as strongest_rows
from clusterscale.report.defences import BROKEN, tried
from clusterscale.report.recovery.errors import GOALS, find_best, read_errors
from clusterscale.report.risk_factors.comparisons import comparisons
from clusterscale.report.screening.exposure import AUC_LEVELS as ABOVE
from clusterscale.report.screening.exposure import read_places
from clusterscale.report.section import (
    absent_users,
    interval,
    json_attribute,
    number,
    percent,
    plural,
)
from clusterscale.report.summary import AUC_LEVELS, Cases, cases

__all__ = ["Short", "shorten"]

_MOST = 20  # lines of a table

TableRow = Sequence[str]


@dataclass(frozen=True, slots=True)
class Short:
    """What is to be said: a title, facts by name, and a table where there is anything to compare.

    The table has ``left_out`` lines more.
    """

    title: str
    facts: Mapping[str, Cell]
    columns: TableRow = ()
    rows: Sequence[TableRow] = ()
    left_out: int = 0


def shorten(results: xr.Dataset) -> Short:
    """Return the findings of an audit, a screen, traits or a recovery; no user is named.

    Of what is none of these, or only a part of it, the sizes are told.
    """
    form = str(results.attrs.get("format"))
    if form not in _KINDS:
        return _only_sizes(results, "not results that can be told in short")
    variables, tell = _KINDS[form]
    try:
        whole = schema.with_labels(schema.validate(results, variables))
    except FormatError:
        return _only_sizes(
            results, "a part of results; `isel` and `sel` with lists keep them whole"
        )
    return tell(whole)


def _only_sizes(results: xr.Dataset, why: str) -> Short:
    sizes = {str(name): f"{size:,}" for name, size in results.sizes.items()}
    return Short("Dataset", {"this is": why, **sizes})


def _audit(results: xr.Dataset) -> Short:
    table = cases(results)
    facts = {
        "targets": plural(table.n_targets, "target") + _of_all(results),
        **_absent(results),
        "priors": _labels(results, "prior"),
        "mechanisms": _labels(results, "mechanism"),
        "attacks": list(table.attacks),
        "cases": _counts(table),
        "promises": _promises(results),
        "verdict": _verdicts(results),
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
    """Say among how many the targets are, and of what source, if that is known."""
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


def _promises(results: xr.Dataset) -> str:
    found = tried(results)
    made = {each.mechanism for each in found if each.verdict not in ("nothing promised", "")}
    broken = sorted({each.mechanism for each in found if each.verdict == BROKEN})
    if not made:
        return "none were tried"
    return f"broken: {', '.join(broken)}" if broken else f"{len(made)} tried, none broken"


def _verdicts(results: xr.Dataset) -> list[str]:
    """Say how exposed people are by each mechanism at its worst, and why."""
    worst = worst_findings(find_exposures(results))
    return [f"{name}: {found.exposure}, {found.reason}" for name, found in worst.items()]


def _screen(screened: xr.Dataset) -> Short:
    found = list(read_places(screened))
    facts = {
        "users": f"{screened.sizes['user']:,}",
        **_absent(screened),
        "mechanisms": _labels(screened, "mechanism"),
        "attacks": _labels(screened, "attack"),
        "groups compared": f"{found[0].n_groups:,} (median)" if found else "none",
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
        for case in found
        for line in case.exposures
    ]
    heads = ("Period", "Group size", "Mechanism", "Strongest attack", "Mean AUC", "95 % are below")
    above = (f"Users above {level:g}" for level in ABOVE)
    left_out = max(0, len(rows) - _MOST)
    return Short("Screen of everyone", facts, (*heads, *above), rows[:_MOST], left_out)


def _recovery(found: xr.Dataset) -> Short:
    facts = {
        "users": f"{found.sizes['user']:,}",
        "epochs": f"{found.sizes['epoch']:,}",
        "priors": _labels(found, "prior"),
        "mechanisms": _labels(found, "mechanism"),
    }
    rows = []
    for goal in GOALS:
        best = find_best(read_errors(found, goal))
        errors = number(best.known), number(best.left)
        rows.append((goal.name, best.without, errors[0], best.within, errors[1], percent(best.hit)))
    heads = ("Goal", "Best without a release", "Error", "Best with bare counts", "Error")
    return Short("Recovery of whereabouts", facts, (*heads, "Users hit"), rows)


def _traits(found: xr.Dataset) -> Short:
    shown = comparisons(found.drop_vars("value"))
    facts = {
        "users": f"{found.sizes['user']:,}",
        "characteristics": [str(title) for title in found.characteristic_title.values],
        "loadings": plural(found.sizes["view"], "setting"),
    }
    rows = [
        (
            each.label,
            each.attack,
            f"{each.n:,}",
            number(each.auc_top),
            number(each.auc_bottom),
            "nothing that could be said" if each.doubts else _apart(found, each.index),
        )
        for each in shown
    ]
    heads = ("Setting", "Attack", "Users a side", "AUC of the most exposed", "Of the least")
    return Short("What exposes", facts, (*heads, "They differ most in"), rows)


def _apart(found: xr.Dataset, comparison: int) -> str:
    separation = found.separation.isel(comparison=comparison).values
    first = int(np.argmax(np.nan_to_num(np.abs(separation - 0.5))))
    return str(found.characteristic_title.values[first])


def _labels(results: xr.Dataset, dim: str) -> list[str]:
    return [str(value) for value in results[dim].values]


_KINDS: Mapping[str, tuple[Mapping[str, schema.Variable], Callable[[xr.Dataset], Short]]] = {
    schema.RESULTS_FORMAT: (schema.RESULTS, _audit),
    schema.SCREEN_FORMAT: (schema.SCREEN, _screen),
    schema.TRAITS_FORMAT: (schema.TRAITS, _traits),
    schema.RECOVERY_FORMAT: (schema.RECOVERY, _recovery),
}
