"""What did not finish, so that no number is taken for more than it is."""

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
    """Build the count of failed tests by kind of error, and what of defences was not measured."""
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
        [kind, f"{len(found):,}", str(table.error[found[0]]), _where(table, found[0], names)]
        for kind, found in ordered
    ]
    n_done = int(np.isfinite(table.auc).sum())
    return Section(
        "failures",
        "Tests that failed",
        f"{plural(len(failed), 'test')} failed and {n_done:,} finished. Failed tests are left "
        "out of every number on this page; if they failed for a reason that has to do with the "
        "target, the means that remain are not those of all targets.",
        Table("Failed tests by kind of error", _COLUMNS, [("", rows)]).html
        + (unpriced.body if unpriced else ""),
    )


def _unpriced(results: xr.Dataset) -> Section | None:
    """Build what was not measured of defences; None where all was."""
    errors = json_attribute(results, "price_errors").get("price_errors", [])
    if not isinstance(errors, list) or not errors:
        return None
    rows = [[str(error)] for error in errors]
    return Section(
        "failures",
        "What was not measured",
        "Guarantees or utility of some defences are missing from this page; every attack finished.",
        Table(
            "Errors that ended the measuring of defences",
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
