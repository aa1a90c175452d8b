"""Privacy loss of the targets by group size."""

from __future__ import annotations

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report import figures
from clusterscale.report.section import Section, fill, number
from clusterscale.report.summary import Cases, by_attack, cases


def build(results: xr.Dataset) -> Section | None:
    """Build box plots of the privacy loss, as in NDSS18 Fig. 3, one for each setting."""
    table = cases(results)
    if not np.isfinite(table.loss).any():
        return None
    folds = [(table.label(setting), _boxes(table, index)) for index, setting in table.shown()]
    return Section(
        "losses",
        "Privacy loss",
        "Privacy loss is the advantage over guessing: 0 if an attack is no better than guessing, 1 "
        "if it always recognises the target. A box spans the middle half of the targets; its line "
        "is the median, the diamond the mean. Whiskers extend to the furthest target within 1.5 "
        "box heights; circles are targets beyond.",
        figures.legend(table.attacks, dashed=False) + fill("folds.html.j2", folds=folds),
    )


def _boxes(table: Cases, setting: int) -> Markup:
    groups = []
    for size, group_size in enumerate(table.group_sizes):
        series = by_attack(table.loss[setting, size])
        if series:
            groups.append((group_size, series))
    medians = [
        f"groups of {size}: "
        + ", ".join(
            f"{table.attacks[index]} {number(float(np.median(values)))}"
            for index, values in series.items()
        )
        for size, series in groups
    ]
    return figures.plot(
        figures.boxes(groups, table.attacks),
        slug=f"loss-{setting + 1}",
        title="Privacy loss of targets, by group size and attack",
        description="Box plots of privacy loss; medians. " + "; ".join(medians),
    )
