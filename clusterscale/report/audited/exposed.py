"""Who is recognised best."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.report.long_table import LongColumn, long_table
from clusterscale.report.section import Column, Section, Table, fill, number, plural
from clusterscale.report.summary import Cases, cases, mean

_MOBILITY = "Tertile of the users by number of events: high, mild or some"
_TERTILES = {"high": 0, "mild": 1, "some": 2}


def build(results: xr.Dataset) -> Section | None:
    """Build the list of the targets with the highest AUC, one table for each setting."""
    table = cases(results)
    if not table.finished:
        return None
    people = [
        LongColumn("Target", [str(name) for name in results["pseudonym"].values]),
        LongColumn("Mobility", [str(name) for name in results["tertile"].values], hint=_MOBILITY),
        LongColumn("Events", results["n_events"].values, 0, hint="In the audited periods"),
    ]
    folds = [
        (table.label(setting), _table(table, index, people)) for index, setting in table.shown()
    ]
    return Section(
        "exposed",
        "Who is exposed",
        "People who move more may be easier or harder to recognise. The lists name the targets "
        "by their highest AUC over all attacks and group sizes; as the best of several "
        "measurements is picked, these AUCs lean slightly high.",
        _tertiles(table, results["tertile"].values.astype(object))
        + fill("folds.html.j2", folds=folds),
    )


def _tertiles(table: Cases, tertiles: NDArray[np.str_]) -> Markup:
    names = sorted(set(tertiles), key=lambda name: (_TERTILES.get(name, len(_TERTILES)), name))
    columns = [Column("Group size", number=False, header=True)]
    columns += [Column("Strongest attack", number=False)]
    columns += [Column(f"{name} ({(tertiles == name).sum()})") for name in names]
    groups: list[tuple[str, list[list[str | Markup]]]] = []
    for setting, what in table.shown():
        rows: list[list[str | Markup]] = []
        for size, group_size in enumerate(table.group_sizes):
            attack = table.strongest(setting, size)
            if attack is not None:
                auc = table.auc[setting, size, attack]
                means = [number(mean(auc[tertiles == name])) for name in names]
                rows.append([f"{group_size:,}", table.attacks[attack], *means])
        groups.append((table.label(what), rows))
    caption = "Mean AUC of the strongest attack by mobility (number of targets)"
    return Table(caption, columns, groups).html


def _table(table: Cases, setting: int, people: list[LongColumn]) -> Markup:
    auc = table.auc[setting].reshape(-1, table.n_targets)
    known = [target for target in range(table.n_targets) if np.isfinite(auc[:, target]).any()]
    # among equals, whom the attacks recognise best on average
    order = np.array(sorted(known, key=lambda t: (-np.nanmax(auc[:, t]), -mean(auc[:, t]))))
    best = np.nanargmax(auc[:, order], axis=0)
    size, attack = np.divmod(best, len(table.attacks))
    columns = [
        replace(column, values=np.asarray(column.values, dtype=object)[order]) for column in people
    ]
    columns += [
        LongColumn("Best attack", [table.attacks[i] for i in attack]),
        LongColumn("Group size", np.array(table.group_sizes)[size], 0),
        LongColumn("AUC", auc[best, order], 3),
        LongColumn("Privacy loss", table.loss[setting].reshape(auc.shape)[best, order], 3),
    ]
    caption = f"Targets by their highest AUC, {plural(len(order), 'target')}"
    return long_table(caption, columns, file=f"targets-{setting + 1}.csv")
