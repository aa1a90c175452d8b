"""The most exposed targets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.report.paged_table import LongColumn, long_table
from clusterscale.report.section import Column, Section, Table, fill, number, plural
from clusterscale.report.summary import Cases, cases, mean
from clusterscale.validation_messages import find_ties, name_best

_MOBILITY = "Tertile of users by number of events: high, mild or some"
_TERTILES = {"high": 0, "mild": 1, "some": 2}


def build(results: xr.Dataset) -> Section | None:
    """Build the list of targets by highest AUC, one table for each setting."""
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
        "Most exposed targets",
        "People who move more may be easier or harder to recognise. The tables list targets by "
        "their highest AUC over all attacks and group sizes. As these are maxima over several "
        "measurements, they are biased slightly upwards.",
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
                name = table.name_strongest(setting, size)
                rows.append([f"{group_size:,}", name, *means])
        groups.append((table.label(what), rows))
    caption = "Mean AUC of the strongest attack by mobility (number of targets)"
    return Table(caption, columns, groups).html


def _table(table: Cases, setting: int, people: list[LongColumn]) -> Markup:
    auc = table.auc[setting].reshape(-1, table.n_targets)
    known = [target for target in range(table.n_targets) if np.isfinite(auc[:, target]).any()]
    # ties are broken by the mean AUC over attacks and group sizes
    order = np.array(sorted(known, key=lambda t: (-np.nanmax(auc[:, t]), -mean(auc[:, t]))))
    best, attack = _best_attacks(table, setting, order)
    size = best // len(table.attacks)
    columns = [
        replace(column, values=np.asarray(column.values, dtype=object)[order]) for column in people
    ]
    columns += [
        LongColumn("Best attack", attack),
        LongColumn("Group size", np.array(table.group_sizes)[size], 0),
        LongColumn("AUC", auc[best, order], 3),
        LongColumn("Privacy loss", table.loss[setting].reshape(auc.shape)[best, order], 3),
    ]
    caption = f"Targets by their highest AUC, {plural(len(order), 'target')}"
    return long_table(caption, columns, file=f"targets-{setting + 1}.csv")


def _best_attacks(
    table: Cases, setting: int, targets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[str]]:
    """Return, for each target, the case with the highest AUC, and the names of its attacks.

    Cases are indices into (group size, attack) as one axis, shape (target,). Among group sizes with
    equal AUC, the largest is chosen.
    """
    n_attacks = len(table.attacks)
    best, names = [], []
    for target in targets:
        ties = find_ties(table.auc[setting, :, :, target].ravel())
        best.append(first := next(i for i in ties if i // n_attacks == ties[-1] // n_attacks))
        tied = [table.attacks[i % n_attacks] for i in ties if i // n_attacks == first // n_attacks]
        names.append(name_best(tied, np.ones(len(tied))))
    return np.array(best, np.int64), names
