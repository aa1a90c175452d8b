"""Table of all results."""

from __future__ import annotations

import xarray as xr
from markupsafe import Markup

from clusterscale.report.section import Column, Section, Table, interval, number, percent
from clusterscale.report.summary import SummaryRow, cases, rows

_COLUMNS = (
    Column("Attack", number=False, header=True),
    Column("Targets", hint="Targets with a result, out of those tested"),
    Column("Mean AUC"),
    Column("95 % interval", hint="Bootstrap over targets"),
    Column("Median AUC"),
    Column("AUC > 0.6"),
    Column("AUC > 0.75"),
    Column("AUC > 0.9"),
    Column("Mean loss", hint="Mean privacy loss"),
    Column("Worst loss", hint="Highest privacy loss of any target"),
    Column("Accuracy", hint="Share of challenges answered correctly, mean over targets"),
    Column("Control", hint="Mean AUC of the same attack trained on shuffled labels"),
)


def build(results: xr.Dataset) -> Section | None:
    """Build a row for each setting, group size and attack that was run, and for the best."""
    cells = cases(results)
    if not cells.finished:
        return None
    groups: dict[str, list[list[str | Markup]]] = {}
    for row in rows(cells):
        heading = f"Groups of {row.group_size:,}"
        label = cells.label(row.setting)
        groups.setdefault(f"{label} · {heading}" if label else heading, []).append(_cells(row))
    caption = "Results by group size and attack, over the targets with a result"
    return Section(
        "results",
        "All results",
        "Means and shares are over the targets whose tests finished. The interval shows how much "
        "the mean varies with the choice of targets. The best attack for each target is chosen "
        "with knowledge of the labels, which no adversary has; cross_validated is the choice that "
        "an adversary could make.",
        Table(caption, _COLUMNS, list(groups.items())).html,
    )


def _cells(row: SummaryRow) -> list[str | Markup]:
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
