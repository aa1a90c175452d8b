"""Reliability of the results: intervals, true positive rates, ε bounds and controls."""

from __future__ import annotations

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report.controls import Controls, check_controls
from clusterscale.report.section import (
    Column,
    Section,
    Table,
    fill,
    interval,
    json_attribute,
    number,
    quantity,
)
from clusterscale.report.summary import Cases, Floats, SummaryRow, by_setting, cases, row

_FALSE_POSITIVE_RATE = 0.1  # default if the plan has none


def build(results: xr.Dataset) -> Section | None:
    """Build a row for each setting, group size and attack; None if no test finished."""
    table = cases(results)
    if not table.finished:
        return None
    planned = json_attribute(results, "plan").get("false_positive_rate", _FALSE_POSITIVE_RATE)
    rate = _rate(float(str(planned)))
    controls = check_controls(table)
    body = fill(
        "sure.html.j2",
        controls=controls,
        floor=_floor(results, rate),
        tables=fill("folds.html.j2", folds=_folds(results, table, controls, rate)),
        label=table.label,
        number=number,
    )
    return Section(
        "sure",
        "Reliability",
        "The interval contains the mean over all such targets with 95 % confidence. TPR is the "
        f"share of groups with the target that are recognised if {rate} of those without it are "
        "falsely recognised. ε is a lower bound that an attack has shown, for replacing one person "
        "by another; the largest over attacks holds with 95 % confidence. The last columns are "
        "controls: with shuffled labels, or with another user in the target’s place, the AUC "
        "should be 0.5; and an attack should do better than the sum of all published values, which "
        "uses no knowledge of the target.",
        body,
    )


def _folds(
    results: xr.Dataset, table: Cases, controls: Controls, rate: str
) -> list[tuple[str, Markup]]:
    """Return a table for each setting."""
    columns = (
        Column("Attack", number=False, header=True),
        Column("Mean AUC"),
        Column("95 % interval", hint="Bootstrap over targets"),
        Column(f"TPR at {rate} FPR", hint="All targets together, by p-values"),
        Column("ε at least", hint="Lower bound at δ = 0, all targets together"),
        Column("Shuffled", hint="Mean AUC after training on shuffled labels"),
        Column("Absent", hint="Mean AUC with another user in the target’s place"),
        Column("Sum", hint="Mean AUC of the sum of all published values"),
    )
    ordered = results.sortby("group_size")
    tpr, epsilon = (by_setting(ordered, name) for name in ("pooled_tpr", "pooled_epsilon_lower"))
    folds = []
    for setting, what in table.shown():
        groups: dict[str, list[list[str | Markup]]] = {}
        for size, attack in np.argwhere(np.isfinite(table.auc[setting]).any(axis=-1)).tolist():
            at = (setting, size, attack)
            line = row(table, *at)
            cells = _cells(line, float(tpr[at]), float(epsilon[at]), controls)
            groups.setdefault(f"Groups of {line.group_size:,}", []).append(cells)
        caption = "Reliability of the results, by group size and attack"
        folds.append((table.label(what), Table(caption, columns, list(groups.items())).html))
    return folds


def _cells(line: SummaryRow, tpr: float, epsilon: float, controls: Controls) -> list[str | Markup]:
    return [
        line.attack,
        number(line.mean),
        interval(line.low, line.high),
        number(tpr),
        quantity(epsilon),
        _flagged(line.control, "off", _among(controls.shuffled.off, line)),
        _flagged(line.absent, "off", _among(controls.absent.off, line)),
        _flagged(line.naive, "not beaten", _among(controls.weak, line)),
    ]


def _among(rows: tuple[SummaryRow, ...], line: SummaryRow) -> bool:
    return any(
        (row.setting, row.group_size, row.attack) == (line.setting, line.group_size, line.attack)
        for row in rows
    )


def _flagged(value: float, word: str, wrong: bool) -> str | Markup:
    return fill("flagged.html.j2", value=number(value), word=word) if wrong else number(value)


def _floor(results: xr.Dataset, rate: str) -> dict[str, str]:
    """Return the words for the rates that the number of challenges cannot resolve."""
    n_outside = results["n_challenges"].values // 2
    n_outside = n_outside[n_outside > 0]
    floors: Floats = results["resolvable_fpr"].values
    known = floors[np.isfinite(floors)]
    if not n_outside.size:
        return {}
    least, most = int(n_outside.min()), int(n_outside.max())
    return {
        "n": f"{least:,}" if least == most else f"{least:,} to {most:,}",
        "one": _rate(1 / least),
        "all": _rate(float(known.max())) if known.size else "",
        "rate": rate,
    }


def _rate(share: float) -> str:
    """Format a rate that may be far below 1 %."""
    return f"{100 * share:.3g} %"
