"""Reliability of an audit: failures, intervals, controls, all results, and tests of guarantees."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.mechanisms import FLOAT_NOISE_REMEDY, FLOAT_NOISE_RISK
from clusterscale.phrases import BROKEN, NO_GUARANTEE, NOTHING_PROMISED, privacy_unit
from clusterscale.reporting import section as html
from clusterscale.reporting.audit.cases import (
    Cases,
    Floats,
    SummaryRow,
    by_setting,
    row,
    rows,
)
from clusterscale.reporting.audit.model import (
    AuditReport,
    Controls,
    GuaranteeStatement,
    GuaranteeTest,
    list_float_noise,
)
from clusterscale.validation_messages import plural

_FALSE_POSITIVE_RATE = 0.1  # default if the plan has none
_FAILURE_COLUMNS = (
    html.Column("Error", number=False, header=True),
    html.Column("Tests"),
    html.Column("First message", number=False),
    html.Column("First at", number=False),
)


def build_failures(audit: AuditReport) -> html.Section | None:
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
    return html.Section(
        "failures",
        "Tests that failed",
        f"{plural(len(failed), 'test')} failed and {n_done:,} finished. All numbers on this page "
        "omit failed tests. If failures depend on the target, the remaining means are biased.",
        html.Table("Failed tests by kind of error", _FAILURE_COLUMNS, [("", lines)]).html
        + (unmeasured.body if unmeasured else ""),
    )


def _failed_measurements(audit: AuditReport) -> html.Section | None:
    """Build the list of failed measurements of defences; None if there are none."""
    errors = html.json_attribute(audit.results, "evaluation_errors").get("evaluation_errors", [])
    if not isinstance(errors, list) or not errors:
        return None
    lines = [[str(error)] for error in dict.fromkeys(errors)]
    return html.Section(
        "failures",
        "Measurements that failed",
        "This page lacks guarantees or utility of some defences; every attack finished.",
        html.Table("Errors in measurements of defences", _FAILURE_COLUMNS[:1], [("", lines)]).html,
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
        f"target {audit.results['pseudonym'].values[target]}",
        f"groups of {audit.cases.group_sizes[size]:,}",
        audit.cases.attacks[attack],
    ]
    return ", ".join(filter(None, parts))


def build_reliability(audit: AuditReport) -> html.Section | None:
    """Build a row for each setting, group size and attack; None if no test finished."""
    if not audit.cases.finished:
        return None
    plan = html.json_attribute(audit.results, "plan")
    rate = _rate(float(str(plan.get("false_positive_rate", _FALSE_POSITIVE_RATE))))
    body = html.fill(
        "reliability.html.j2",
        controls=audit.controls,
        floor=_floor(audit.results, rate),
        tables=html.folded(_folds(audit, rate)),
        label=audit.cases.label,
    )
    return html.section("sure", body, rate=rate)


def _folds(audit: AuditReport, rate: str) -> list[tuple[str, Markup]]:
    """Return a table for each setting."""
    columns = (
        html.Column("Attack", number=False, header=True),
        html.Column("Mean AUC"),
        html.Column("95 % interval", hint="Of the mean over targets"),
        html.Column(f"TPR at {rate} FPR", hint="All targets together, by p-values"),
        html.Column("ε at least", hint="Lower bound at δ = 0, all targets together"),
        html.Column("Shuffled", hint="Mean AUC after training on shuffled labels"),
        html.Column("Absent", hint="Mean AUC with another user in the target’s place"),
        html.Column("Sum", hint="Mean AUC of the sum of all published values"),
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
        folds.append((table.label(what), html.Table(caption, columns, list(groups.items())).html))
    return folds


def _reliability_cells(
    line: SummaryRow, tpr: float, epsilon: float, controls: Controls
) -> list[str | Markup]:
    return [
        line.attack,
        html.number(line.mean),
        html.interval(line.low, line.high),
        html.number(tpr),
        html.quantity(epsilon),
        _flagged(line.control, "off", _among(controls.shuffled.off, line)),
        _flagged(line.absent, "off", _among(controls.absent.off, line)),
        _flagged(line.naive, "not beaten", _among(controls.weak, line)),
    ]


def _among(off: tuple[SummaryRow, ...], line: SummaryRow) -> bool:
    return any(other.case == line.case for other in off)


def _flagged(value: float, word: str, wrong: bool) -> str | Markup:
    return (
        html.fill_part("cells.flagged", value=html.number(value), word=word)
        if wrong
        else html.number(value)
    )


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
    html.Column("Attack", number=False, header=True),
    html.Column("Targets", hint="Targets with a result, out of those tested"),
    html.Column("Mean AUC"),
    html.Column("95 % interval", hint="Of the mean over targets"),
    html.Column("Median AUC"),
    html.Column("AUC > 0.6"),
    html.Column("AUC > 0.75"),
    html.Column("AUC > 0.9"),
    html.Column("Mean loss", hint="Mean privacy loss"),
    html.Column("Worst loss", hint="Highest privacy loss of any target"),
    html.Column("Accuracy", hint="Share of challenges answered correctly, mean over targets"),
    html.Column("Control", hint="Mean AUC of the same attack trained on shuffled labels"),
)


def build_results(audit: AuditReport) -> html.Section | None:
    """Build a row for each setting, group size and attack that was run, and for the best."""
    table = audit.cases
    if not table.finished:
        return None
    groups: dict[str, list[list[str | Markup]]] = {}
    for line in rows(table):
        parts = [table.label(line.setting), f"Groups of {line.group_size:,}"]
        groups.setdefault(" · ".join(filter(None, parts)), []).append(_result_cells(line))
    caption = "Results by group size and attack, over the targets with a result"
    return html.section("results", html.Table(caption, _RESULT_COLUMNS, list(groups.items())).html)


def _result_cells(row: SummaryRow) -> list[str | Markup]:
    targets = f"{row.n_done:,}"
    if row.n_done < row.n_targets:
        targets += f" of {row.n_targets:,}"
    return [
        row.attack,
        targets,
        html.number(row.mean),
        html.interval(row.low, row.high),
        html.number(row.median),
        *(html.percent(share) for share in row.above),
        html.number(row.mean_loss),
        html.number(row.worst_loss),
        html.number(row.accuracy),
        html.number(row.control),
    ]


_NEIGHBOURS = {"add_remove": "one more or less", "replace": "one for another"}
_COLUMNS = (
    html.Column("Mechanism", number=False, header=True, wide=True),
    html.Column("Protects", number=False, hint="The privacy unit that the guarantee protects"),
    html.Column("ε"),
    html.Column("δ"),
    html.Column(
        "Verdict", number=False, hint="Test of the guarantee, and the observed lower bound on ε"
    ),
    html.Column("Neighbours", number=False, hint="How two neighbouring inputs differ"),
    html.Column(
        "Sensitivity",
        number=False,
        hint="Used to scale noise, and needed for one unit in this cube",
    ),
    html.Column("ε of a user, sum", hint="For all of one user, by basic composition; with its δ"),
    html.Column("ε of a user, accounted", hint="For all of one user, by an accountant; with its δ"),
    html.Column(
        "AUC bound", hint="Highest AUC of any adversary, if one user is replaced by another"
    ),
    html.Column("Reason", number=False, wide=True),
)


def build_guarantees(audit: AuditReport) -> html.Section | None:
    """Build a row for each mechanism by period, guarantees first; None if only raw counts."""
    statements = [statement for made in audit.guarantees.values() for statement in made]
    if not audit.defences.any or not any(one.guarantee_unit for one in statements):
        return None
    verdicts = {(test.period, test.mechanism): _verdict(test) for test in audit.tests}
    groups = [
        (
            period if len(audit.guarantees) > 1 else "",
            [
                _row(statement, verdicts[period, statement.mechanism])
                for statement in sorted(made, key=lambda statement: not statement.is_made)
            ],
        )
        for period, made in audit.guarantees.items()
    ]
    return html.section(
        "guarantees",
        html.fill(
            "guarantees.html.j2",
            refuted=list(_refuted(audit)),
            lacking=list(dict.fromkeys(one.mechanism for one in statements if one.lacks_noise)),
            as_floats=[html.breakable(label) for label in audit.float_noise],
            unknown=list_float_noise(audit.results, ""),
            risk=FLOAT_NOISE_RISK[0].upper() + FLOAT_NOISE_RISK[1:],
            remedy=FLOAT_NOISE_REMEDY,
            table=html.Table("Guarantees of differential privacy", _COLUMNS, groups).html,
        ),
        result=_summed_up(audit),
    )


def _summed_up(audit: AuditReport) -> str:
    """Return a sentence with the number of broken guarantees, if any."""
    if not (n := len(audit.broken)):
        return ""
    return f" Of {plural(audit.n_tested, 'guarantee')}, {n} {'is' if n == 1 else 'are'} broken."


def _refuted(audit: AuditReport) -> Iterator[dict[str, object]]:
    """Yield the words for each broken guarantee, with the cases where it was broken."""
    for test in audit.tests:
        if test.verdict != BROKEN:
            continue
        where = f" in {test.period}" if len(audit.guarantees) > 1 else ""
        if len(audit.cases.group_sizes) > 1:
            where += f" in groups of {', '.join(f'{size:,}' for size in test.group_sizes)}"
        yield {
            "mechanism": html.breakable(test.mechanism),
            "declared": html.quantity(test.declared),
            "unit": privacy_unit(test.unit, "one"),
            "observed": html.quantity(test.observed),
            "where": where,
            "trials": f"{test.n_trials:,.0f}",
        }


def _verdict(test: GuaranteeTest) -> str | Markup:
    if test.verdict == NOTHING_PROMISED:
        return NO_GUARANTEE
    if test.verdict == "" or not np.isfinite(test.observed):
        return test.verdict or "–"
    seen = f"ε at least {html.quantity(test.observed)}" if test.observed > 0 else "no ε observed"
    broken = test.verdict == BROKEN
    return html.fill_part("cells.measured", verdict=test.verdict, broken=broken, seen=seen)


def _row(statement: GuaranteeStatement, verdict: str | Markup) -> list[str | Markup]:
    name = html.breakable(statement.mechanism)
    if statement.guarantee_unit == "":
        return [name, *["–"] * (len(_COLUMNS) - 1)]
    cells: list[str | Markup] = [
        privacy_unit(statement.guarantee_unit, "one"),
        html.quantity(statement.guarantee_epsilon),
        html.quantity(statement.guarantee_delta),
        verdict,
        _NEIGHBOURS.get(statement.guarantee_neighbours, statement.guarantee_neighbours),
        _sensitivity(statement),
    ]
    if not statement.is_made:
        nothing = Markup("<strong>{}</strong>").format(NO_GUARANTEE)
        cells = [nothing, "none", "–", verdict, "–", "–"]
    user = _epsilon(statement.user_epsilon, statement.user_delta)
    composed = _epsilon(statement.composed_epsilon, statement.composed_delta)
    ceiling = _ceiling(statement.auc_ceiling)
    return [name, *cells, user, composed, ceiling, statement.guarantee_reason]


def _sensitivity(statement: GuaranteeStatement) -> str | Markup:
    used, needed = statement.sensitivity, statement.sensitivity_needed
    if np.isnan(used) and np.isnan(needed):
        return "not needed"
    return html.fill_part(
        "cells.sensitivity",
        used=html.quantity(used, none="no limit"),
        needed=html.quantity(needed, none="no limit"),
        broken=statement.lacks_noise,
    )


def _epsilon(epsilon: float, delta: float) -> Markup:
    known = np.isfinite(epsilon) and np.isfinite(delta) and delta > 0
    spread = f"δ {html.quantity(delta)}" if known else ""
    return html.fill_part("cells.spread", value=html.quantity(epsilon), spread=spread)


def _ceiling(auc: float) -> str:
    """Format the AUC bound: none if it is 1, and not rounded up to 1."""
    if auc >= 1:
        return "none"
    return "> 0.999" if auc >= 0.9995 else html.number(auc)
