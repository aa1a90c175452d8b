"""Who is recognised best."""

from __future__ import annotations

import numpy as np
import xarray as xr
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.report.section import Column, Section, Table, fill, number, plural
from clusterscale.report.summary import Cases, cases, mean

_N_SHOWN = 20
_TERTILES = {"high": 0, "mild": 1, "some": 2}
_COLUMNS = (
    Column("Target", number=False, header=True),
    Column("Mobility", number=False, hint="Tertile by number of events: high, mild or some"),
    Column("Events"),
    Column("Best attack", number=False),
    Column("Group size"),
    Column("AUC"),
    Column("Privacy loss"),
)


def build(results: xr.Dataset) -> Section | None:
    """Build the list of the targets with the highest AUC, one table for each setting."""
    table = cases(results)
    if not table.finished:
        return None
    people = [[str(value) for value in results[name].values] for name in ("pseudonym", "tertile")]
    people.append([f"{int(n):,}" for n in results["n_events"].values])
    folds = [
        (table.label(setting), _table(table, index, people)) for index, setting in table.shown()
    ]
    return Section(
        "exposed",
        "Who is exposed",
        "People who move more may be easier or harder to recognise. The lists name the targets "
        f"with the highest AUC over all attacks and group sizes, at most {_N_SHOWN}; as the best "
        "of several measurements is picked, these AUCs lean slightly high.",
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


def _table(table: Cases, setting: int, people: list[list[str]]) -> Markup:
    auc = table.auc[setting].reshape(-1, table.n_targets)
    known = [target for target in range(table.n_targets) if np.isfinite(auc[:, target]).any()]
    # among equals, whom the attacks recognise best on average
    order = sorted(known, key=lambda t: (-np.nanmax(auc[:, t]), -mean(auc[:, t])))[:_N_SHOWN]
    rows: list[list[str | Markup]] = []
    for target in order:
        cell = int(np.nanargmax(auc[:, target]))
        size, attack = divmod(cell, len(table.attacks))
        loss = float(table.loss[setting, size, attack, target])
        rows.append(
            [
                *(column[target] for column in people),
                table.attacks[attack],
                f"{table.group_sizes[size]:,}",
                number(float(auc[cell, target])),
                number(loss),
            ]
        )
    caption = f"The {plural(len(rows), 'target')} with the highest AUC"
    return Table(caption, _COLUMNS, [("", rows)]).html
