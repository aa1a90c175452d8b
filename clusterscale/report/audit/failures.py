"""Tests and measurements that failed, which the other numbers omit."""

from __future__ import annotations

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report.section import Column, Section, Table, json_attribute, plural
from clusterscale.report.summary import Cases, cases

_COLUMNS = (
    Column("Error", number=False, header=True),
    Column("Tests"),
    Column("First message", number=False),
    Column("First at", number=False),
)


def build(results: xr.Dataset) -> Section | None:
    """Build the number of failed tests by kind of error, and failed measurements of defences."""
    table = cases(results)
    failed = np.argwhere(table.planned & ~np.isfinite(table.auc))
    unpriced = _unpriced(results)
    if not len(failed):
        return unpriced
    names = [str(name) for name in results["pseudonym"].values]
    groups: dict[str, list[tuple[int, ...]]] = {}
    for index in map(tuple, failed.tolist()):
        groups.setdefault(_kind(table, index), []).append(index)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    rows: list[list[str | Markup]] = [
        [kind, f"{len(indices):,}", str(table.error[indices[0]]), _where(table, indices[0], names)]
        for kind, indices in ordered
    ]
    n_done = int(np.isfinite(table.auc).sum())
    return Section(
        "failures",
        "Tests that failed",
        f"{plural(len(failed), 'test')} failed and {n_done:,} finished. All numbers on this page "
        "omit failed tests. If failures depend on the target, the remaining means are biased.",
        Table("Failed tests by kind of error", _COLUMNS, [("", rows)]).html
        + (unpriced.body if unpriced else ""),
    )


def _unpriced(results: xr.Dataset) -> Section | None:
    """Build the list of failed measurements of defences; None if there are none."""
    errors = json_attribute(results, "evaluation_errors").get("evaluation_errors", [])
    if not isinstance(errors, list) or not errors:
        return None
    rows = [[str(error)] for error in dict.fromkeys(errors)]
    return Section(
        "failures",
        "Measurements that failed",
        "This page lacks guarantees or utility of some defences; every attack finished.",
        Table(
            "Errors in measurements of defences",
            (Column("Error", number=False, header=True),),
            [("", rows)],
        ).html,
    )


def _kind(table: Cases, index: tuple[int, ...]) -> str:
    if table.status[index] != "failed":
        return "No AUC"
    head, colon, _ = str(table.error[index]).partition(":")
    return head if colon and head.isidentifier() else "Other"


def _where(table: Cases, index: tuple[int, ...], names: list[str]) -> str:
    setting, size, attack, target = index
    parts = [
        table.label(table.settings[setting]),
        f"target {names[target]}",
        f"groups of {table.group_sizes[size]:,}",
        table.attacks[attack],
    ]
    return ", ".join(filter(None, parts))
