"""Reliability of an audit: failed tests, intervals, bounds and controls; and all results."""

from __future__ import annotations

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.reporting.audit.cases import (
    Cases,
    Floats,
    SummaryRow,
    by_setting,
    row,
    rows,
)
from clusterscale.reporting.audit.model import AuditReport, Controls
from clusterscale.reporting.section import (
    Column,
    Section,
    Table,
    fill,
    folded,
    interval,
    json_attribute,
    number,
    percent,
    quantity,
)
from clusterscale.validation_messages import plural

_FALSE_POSITIVE_RATE = 0.1  # default if the plan has none
_FAILURE_COLUMNS = (
    Column("Error", number=False, header=True),
    Column("Tests"),
    Column("First message", number=False),
    Column("First at", number=False),
)


def build_failures(audit: AuditReport) -> Section | None:
    """Build the number of failed tests by kind of error, and failed measurements of defences."""
    table = audit.cases
    failed = np.argwhere(table.planned & ~np.isfinite(table.auc))
    unmeasured = _failed_measurements(audit)
    if not len(failed):
        return unmeasured
    groups: dict[str, list[tuple[int, ...]]] = {}
    for index in map(tuple, failed.tolist()):
        groups.setdefault(_kind(table, index), []).append(index)
    lines: list[list[str | Markup]] = [
        [kind, f"{len(indices):,}", str(table.error[indices[0]]), _where(audit, indices[0])]
        for kind, indices in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]
    n_done = int(np.isfinite(table.auc).sum())
    return Section(
        "failures",
        "Tests that failed",
        f"{plural(len(failed), 'test')} failed and {n_done:,} finished. All numbers on this page "
        "omit failed tests. If failures depend on the target, the remaining means are biased.",
        Table("Failed tests by kind of error", _FAILURE_COLUMNS, [("", lines)]).html
        + (unmeasured.body if unmeasured else ""),
    )


def _failed_measurements(audit: AuditReport) -> Section | None:
    """Build the list of failed measurements of defences; None if there are none."""
    errors = json_attribute(audit.results, "evaluation_errors").get("evaluation_errors", [])
    if not isinstance(errors, list) or not errors:
        return None
    lines = [[str(error)] for error in dict.fromkeys(errors)]
    return Section(
        "failures",
        "Measurements that failed",
        "This page lacks guarantees or utility of some defences; every attack finished.",
        Table("Errors in measurements of defences", _FAILURE_COLUMNS[:1], [("", lines)]).html,
    )


def _kind(table: Cases, index: tuple[int, ...]) -> str:
    if table.status[index] != "failed":
        return "No AUC"
    head, colon, _ = str(table.error[index]).partition(":")
    return head if colon and head.isidentifier() else "Other"


def _where(audit: AuditReport, index: tuple[int, ...]) -> str:
    setting, size, attack, target = index
    parts = [
        audit.cases.label(audit.cases.settings[setting]),
        f"target {audit.people.pseudonyms[target]}",
        f"groups of {audit.cases.group_sizes[size]:,}",
        audit.cases.attacks[attack],
    ]
    return ", ".join(filter(None, parts))


def build_reliability(audit: AuditReport) -> Section | None:
    """Build a row for each setting, group size and attack; None if no test finished."""
    if not audit.cases.finished:
        return None
    plan = json_attribute(audit.results, "plan")
    rate = _rate(float(str(plan.get("false_positive_rate", _FALSE_POSITIVE_RATE))))
    body = fill(
        "reliability.html.j2",
        controls=audit.controls,
        floor=_floor(audit.results, rate),
        tables=folded(_folds(audit, rate)),
        label=audit.cases.label,
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


def _folds(audit: AuditReport, rate: str) -> list[tuple[str, Markup]]:
    """Return a table for each setting."""
    columns = (
        Column("Attack", number=False, header=True),
        Column("Mean AUC"),
        Column("95 % interval", hint="Of the mean over targets"),
        Column(f"TPR at {rate} FPR", hint="All targets together, by p-values"),
        Column("ε at least", hint="Lower bound at δ = 0, all targets together"),
        Column("Shuffled", hint="Mean AUC after training on shuffled labels"),
        Column("Absent", hint="Mean AUC with another user in the target’s place"),
        Column("Sum", hint="Mean AUC of the sum of all published values"),
    )
    table, controls = audit.cases, audit.controls
    ordered = audit.results.sortby("group_size")
    tpr, epsilon = (by_setting(ordered, name) for name in ("pooled_tpr", "pooled_epsilon_lower"))
    folds = []
    for setting, what in table.shown():
        groups: dict[str, list[list[str | Markup]]] = {}
        for size, attack in np.argwhere(np.isfinite(table.auc[setting]).any(axis=-1)).tolist():
            at = (setting, size, attack)
            line = row(table, *at)
            cells = _reliability_cells(line, float(tpr[at]), float(epsilon[at]), controls)
            groups.setdefault(f"Groups of {line.group_size:,}", []).append(cells)
        caption = "Reliability of the results, by group size and attack"
        folds.append((table.label(what), Table(caption, columns, list(groups.items())).html))
    return folds


def _reliability_cells(
    line: SummaryRow, tpr: float, epsilon: float, controls: Controls
) -> list[str | Markup]:
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


def _among(off: tuple[SummaryRow, ...], line: SummaryRow) -> bool:
    return any(other.case == line.case for other in off)


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


_RESULT_COLUMNS = (
    Column("Attack", number=False, header=True),
    Column("Targets", hint="Targets with a result, out of those tested"),
    Column("Mean AUC"),
    Column("95 % interval", hint="Of the mean over targets"),
    Column("Median AUC"),
    Column("AUC > 0.6"),
    Column("AUC > 0.75"),
    Column("AUC > 0.9"),
    Column("Mean loss", hint="Mean privacy loss"),
    Column("Worst loss", hint="Highest privacy loss of any target"),
    Column("Accuracy", hint="Share of challenges answered correctly, mean over targets"),
    Column("Control", hint="Mean AUC of the same attack trained on shuffled labels"),
)


def build_results(audit: AuditReport) -> Section | None:
    """Build a row for each setting, group size and attack that was run, and for the best."""
    table = audit.cases
    if not table.finished:
        return None
    groups: dict[str, list[list[str | Markup]]] = {}
    for line in rows(table):
        parts = [table.label(line.setting), f"Groups of {line.group_size:,}"]
        groups.setdefault(" · ".join(filter(None, parts)), []).append(_result_cells(line))
    caption = "Results by group size and attack, over the targets with a result"
    return Section(
        "results",
        "All results",
        "Means and shares are over the targets whose tests finished. The interval shows how much "
        "the mean varies with the choice of targets. The best attack for each target is chosen "
        "with knowledge of the labels, which no adversary has; cross_validated is the choice that "
        "an adversary could make.",
        Table(caption, _RESULT_COLUMNS, list(groups.items())).html,
    )


def _result_cells(row: SummaryRow) -> list[str | Markup]:
    targets = f"{row.n_done:,}"
    if row.n_done < row.n_targets:
        targets += f" of {row.n_targets:,}"
    return [
        row.attack,
        targets,
        number(row.mean),
        interval(row.low, row.high),
        number(row.median),
        *(percent(share) for share in row.above),
        number(row.mean_loss),
        number(row.worst_loss),
        number(row.accuracy),
        number(row.control),
    ]
