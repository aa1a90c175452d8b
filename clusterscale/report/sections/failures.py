"""What did not finish, so that no number is taken for more than it is."""

from __future__ import annotations

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report.section import Column, Section, Table, plural
from clusterscale.report.summary import Cases, cases

_COLUMNS = (
    Column("Error", number=False, header=True),
    Column("Tests"),
    Column("First message", number=False),
    Column("First at", number=False),
)


def build(results: xr.Dataset) -> Section | None:
    """Build the count of failed tests by kind of error; None when all finished."""
    table = cases(results)
    failed = np.argwhere(table.planned & ~np.isfinite(table.auc))
    if not len(failed):
        return None
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
        Table("Failed tests by kind of error", _COLUMNS, [("", rows)]).html,
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
