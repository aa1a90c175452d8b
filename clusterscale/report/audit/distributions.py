"""Distribution of each attack's AUC over the targets."""

from __future__ import annotations

from math import floor

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report import figures
from clusterscale.report.section import Section, fill, join, number
from clusterscale.report.summary import Cases, by_attack, cases


def build(results: xr.Dataset) -> Section | None:
    """Build a panel for each group size, as in NDSS18 Figs 2 and 4, one fold for each setting."""
    table = cases(results)
    if not table.finished:
        return None
    folds = [(table.label(setting), _panels(table, index)) for index, setting in table.shown()]
    body = figures.legend(table.attacks) + fill("folds.html.j2", folds=folds)
    return Section(
        "distributions",
        "Distribution of AUC over targets",
        "Each curve shows the share of targets that an attack recognises with at most the AUC on "
        "the axis. The further right a curve is, the more people are exposed. The dashed line is "
        "chance. The table of all results has the numbers.",
        body,
    )


def _panels(table: Cases, setting: int) -> Markup:
    lowest = float(np.nanmin(table.auc))
    start = min(0.4, floor(lowest * 10) / 10)
    panels = []
    for size, group_size in enumerate(table.group_sizes):
        series = by_attack(table.auc[setting, size])
        if series:
            panels.append(
                figures.plot(
                    figures.distributions(series, table.attacks, start=start),
                    slug=f"auc-{setting + 1}-{group_size}",
                    title=f"Groups of {group_size:,}",
                    description=_in_words(series, table.attacks, group_size),
                )
            )
    return fill("panels.html.j2", panels=join(panels))


def _in_words(series: dict[int, figures.Floats], attacks: tuple[str, ...], size: int) -> str:
    parts = [
        f"{attacks[index]}: quartiles "
        + ", ".join(number(float(q)) for q in np.quantile(values, (0.25, 0.5, 0.75)))
        for index, values in series.items()
    ]
    return f"Cumulative distribution of AUC over targets in groups of {size}. " + "; ".join(parts)
