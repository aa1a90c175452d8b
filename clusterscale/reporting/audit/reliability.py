"""Reliability of an audit: failures, intervals, controls, all results, and tests of guarantees."""

from collections.abc import Iterator

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.mechanisms import FLOAT_NOISE_REMEDY, FLOAT_NOISE_RISK
from clusterscale.reporting import section as html
from clusterscale.reporting.audit.cases import Cases, Floats, SummaryRow, by_setting, row, rows
from clusterscale.reporting.audit.model import AuditReport, list_float_noise
from clusterscale.validation_messages import plural

_FALSE_POSITIVE_RATE = 0.1  # default if the plan has none


def build_failures(audit: AuditReport) -> Iterator[html.Section]:
    """Build the number of failed tests by kind of error, and failed measurements of defences."""
    table = audit.cases
    failed = np.argwhere(table.planned & ~np.isfinite(table.auc))
    errors = html.json_attribute(audit.results, "evaluation_errors").get("evaluation_errors")
    distinct = dict.fromkeys(map(str, errors)) if isinstance(errors, list) else {}
    unmeasured = html.table("measurements", [("", distinct)]) if distinct else Markup("")
    if not len(failed):
        if unmeasured:
            yield html.section("measurements", unmeasured, anchor="failures")
        return
    groups: dict[str, list[tuple[int, ...]]] = {}
    for index in map(tuple, failed.tolist()):
        groups.setdefault(_kind(table, index), []).append(index)
    lines = [
        {
            "kind": kind,
            "n": len(indices),
            "message": table.error[indices[0]],
            "where": _where(audit, indices[0]),
        }
        for kind, indices in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]
    body = html.table("failures", [("", lines)]) + unmeasured
    n_done = f"{np.isfinite(table.auc).sum():,}"
    yield html.section("failures", body, failed=plural(len(failed), "test"), done=n_done)


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


def build_reliability(audit: AuditReport) -> Iterator[html.Section]:
    """Build a row for each setting, group size and attack; none if no test finished."""
    if not audit.cases.finished:
        return
    plan = html.json_attribute(audit.results, "plan")
    rate = _rate(float(str(plan.get("false_positive_rate", _FALSE_POSITIVE_RATE))))
    body = html.fill(
        "reliability.html.j2",
        controls=audit.controls,
        floor=_floor(audit.results, rate),
        tables=html.folded(_folds(audit, rate)),
        label=audit.cases.label,
    )
    yield html.section("sure", body, rate=rate)


def _folds(audit: AuditReport, rate: str) -> list[tuple[str, Markup]]:
    """Return a table for each setting."""
    table, ordered = audit.cases, audit.results.sortby("group_size")
    tpr, epsilon = (by_setting(ordered, name) for name in ("pooled_tpr", "pooled_epsilon_lower"))
    folds = []
    for setting, what in table.shown():
        groups: dict[str, list[dict[str, object]]] = {}
        for size, attack in np.argwhere(np.isfinite(table.auc[setting]).any(axis=-1)).tolist():
            at = (setting, size, attack)
            line = {"line": row(table, *at), "tpr": float(tpr[at]), "epsilon": float(epsilon[at])}
            groups.setdefault(f"Groups of {table.group_sizes[size]:,}", []).append(line)
        drawn = html.table("reliability", groups.items(), rate=rate, controls=audit.controls)
        folds.append((table.label(what), drawn))
    return folds


def _floor(results: xr.Dataset, rate: str) -> dict[str, str]:
    """Return the words for the rates that the number of challenges cannot resolve."""
    n_outside = results["n_challenges"].values // 2
    n_outside = n_outside[n_outside > 0]
    if not n_outside.size:
        return {}
    least, most = int(n_outside.min()), int(n_outside.max())
    floors: Floats = results["resolvable_fpr"].values
    highest = float(np.max(floors, initial=-np.inf, where=np.isfinite(floors)))
    return {
        "n": f"{least:,}" if least == most else f"{least:,} to {most:,}",
        "one": _rate(1 / least),
        "all": _rate(highest) if np.isfinite(highest) else "",
        "rate": rate,
    }


def _rate(share: float) -> str:
    """Format a rate that may be far below 1 %."""
    return f"{100 * share:.3g} %"


def build_results(audit: AuditReport) -> Iterator[html.Section]:
    """Build a row for each setting, group size and attack that was run, and for the best."""
    table, groups = audit.cases, dict[str, list[SummaryRow]]()
    for line in rows(table):
        parts = [table.label(line.setting), f"Groups of {line.group_size:,}"]
        groups.setdefault(" · ".join(filter(None, parts)), []).append(line)
    if table.finished:
        yield html.section("results", html.table("results", groups.items()))


def build_guarantees(audit: AuditReport) -> Iterator[html.Section]:
    """Build a row for each mechanism by period, guarantees first; none if only raw counts."""
    statements = [statement for made in audit.guarantees.values() for statement in made]
    if not audit.defences.any or not any(one.guarantee_unit for one in statements):
        return
    tests = {(test.period, test.mechanism): test for test in audit.tests}
    groups = [
        (
            period if len(audit.guarantees) > 1 else "",
            [
                {"made": made, "test": tests[period, made.mechanism]}
                for made in sorted(statements_of, key=lambda made: not made.made)
            ],
        )
        for period, statements_of in audit.guarantees.items()
    ]
    yield html.section(
        "guarantees",
        html.fill(
            "guarantees.html.j2",
            audit=audit,
            lacking=list(dict.fromkeys(one.mechanism for one in statements if one.lacks_noise)),
            unknown=list_float_noise(audit.results, ""),
            risk=FLOAT_NOISE_RISK[0].upper() + FLOAT_NOISE_RISK[1:],
            remedy=FLOAT_NOISE_REMEDY,
            table=html.table("guarantees", groups),
        ),
        audit=audit,
    )
