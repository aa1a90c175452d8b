"""Comparison of the mobility of the most and the least exposed users."""

from __future__ import annotations

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report.risk_factors.comparisons import CLOSE, FEW, GroupComparison, comparisons
from clusterscale.report.section import Column, Section, Table, fill, number, percent

_COLUMNS = (
    Column("Characteristic", number=False, header=True),
    Column("Most exposed", hint="Mean ± standard deviation"),
    Column("Least exposed", hint="Mean ± standard deviation"),
    Column("Separation", hint="Chance that a most exposed user has more than a least exposed one"),
    Column("Importance", hint="In a random forest that separates the two sides; sums to 1"),
    Column("", number=False),
    Column("Coefficient", hint="In a logistic regression on standard scores; positive: exposed"),
)


def build(traits: xr.Dataset) -> Section | None:
    """Build a table for each setting (POMACS20 Tables 2, 3); None without comparisons."""
    shown = comparisons(traits)
    if not shown:
        return None
    folds = [(comparison.label, _table(traits, comparison)) for comparison in shown]
    return Section(
        "traits",
        "What exposed users have in common",
        "The most exposed users are compared with the least exposed. A separation of 0.5 means "
        "that a characteristic does not separate the two sides, 1 that all of the most exposed "
        "have more of it, 0 less. Characteristics are correlated, and a forest may attribute the "
        "importance of one to another, so separation is more reliable than importance. An "
        "association is not a cause.",
        fill("folds.html.j2", folds=folds),
    )


def _table(traits: xr.Dataset, chosen: GroupComparison) -> Markup:
    at = traits.isel(comparison=chosen.index)
    highest = max(float(np.nanmax(at.forest_importance.values)), 1e-9)
    order = np.argsort(-np.nan_to_num(at.forest_importance.values), kind="stable")
    rows: list[list[str | Markup]] = []
    for i in order:
        importance = float(at.forest_importance.values[i])
        rows.append(
            [
                str(at.characteristic_title.values[i]),
                _spread(at.top_mean.values[i], at.top_sd.values[i]),
                _spread(at.bottom_mean.values[i], at.bottom_sd.values[i]),
                number(float(at.separation.values[i]), 2),
                number(importance, 2),
                fill("bar.html.j2", share=f"{100 * importance / highest:.1f}%"),
                number(float(at.logistic_coefficient.values[i]), 2),
            ]
        )
    caption = (
        f"{chosen.n:,} on each side, by {chosen.attack}: mean AUC {number(chosen.auc_top)} against "
        f"{number(chosen.auc_bottom)}; accuracy of the forest "
        f"{percent(float(at.forest_accuracy.item()))}"
    )
    table = Table(caption, _COLUMNS, [("", rows)]).html
    return (fill("doubts.html.j2", few=FEW, close=CLOSE) if chosen.doubts else Markup("")) + table


def _spread(mean: float, sd: float) -> str:
    digits = 0 if abs(mean) >= 100 else 1 if abs(mean) >= 10 else 2
    return f"{mean:,.{digits}f} ± {sd:,.{digits}f}"
