"""Privacy loss of the targets by period."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report import figures
from clusterscale.report.section import Section, fill, join, number
from clusterscale.report.summary import Cases, by_attack, cases


def build(results: xr.Dataset) -> Section | None:
    """Build box plots of the privacy loss by period, as in NDSS18 Fig. 11; None for one period.

    There is a panel for each group size, and a fold for each prior and mechanism.
    """
    table = cases(results)
    periods = list(dict.fromkeys(setting.period for setting in table.settings))
    if len(periods) < 2 or not np.isfinite(table.loss).any():
        return None
    others = replace(table, varying=tuple(axis for axis in table.varying if axis != "period"))
    folds = []
    for setting in dict.fromkeys(replace(shown, period="") for _, shown in table.shown()):
        indices = [table.settings.index(replace(setting, period=name)) for name in periods]
        folds.append((others.label(setting), _panels(table, indices)))
    legend = figures.legend(table.attacks, dashed=False)
    return Section(
        "periods",
        "Privacy loss by period",
        "The same boxes by period, which show when people are most exposed.",
        legend + fill("numbered.html.j2", names=periods) + fill("folds.html.j2", folds=folds),
    )


def _panels(table: Cases, indices: list[int]) -> Markup:
    panels = []
    for size, group_size in enumerate(table.group_sizes):
        groups = [
            (period, series)
            for period, index in enumerate(indices, 1)
            if (series := by_attack(table.loss[index, size]))
        ]
        if not groups:
            continue
        drawn = figures.boxes(groups, table.attacks, across="period")
        panels.append(
            figures.plot(
                drawn,
                slug=f"periods-{indices[0] + 1}-{group_size}",
                title=f"Groups of {group_size:,}",
                description=f"Box plots of privacy loss; medians. {_in_words(groups, table)}",
            )
        )
    return fill("panels.html.j2", panels=join(panels))


def _in_words(groups: list[tuple[int, dict[int, figures.Floats]]], table: Cases) -> str:
    return "; ".join(
        f"period {period}: "
        + ", ".join(
            f"{table.attacks[index]} {number(float(np.median(values)))}"
            for index, values in series.items()
        )
        for period, series in groups
    )
