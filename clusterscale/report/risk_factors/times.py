"""Visits over time of the most and the least exposed users."""

from __future__ import annotations

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report import figures
from clusterscale.report.risk_factors.comparisons import GroupComparison, comparisons
from clusterscale.report.section import Section, fill, number

_NAMES = ("most exposed", "least exposed", "all users")
_WHO = ("top", "bottom", "all")


def build(traits: xr.Dataset) -> Section | None:
    """Build the share of visits in each epoch (POMACS20 Fig. 4); None without comparisons."""
    folds = [(pair.label, _figure(traits, pair)) for pair in comparisons(traits)]
    if not folds:
        return None
    return Section(
        "times",
        "When exposed users are observed",
        "The share of visits in each epoch, for the most exposed, the least exposed and all users. "
        "Where the first is above the last in quiet hours, these hours expose users.",
        figures.legend(_NAMES) + fill("folds.html.j2", folds=folds),
    )


def _figure(traits: xr.Dataset, chosen: GroupComparison) -> Markup:
    shares = [traits.frequency.isel(comparison=chosen.index).sel(who=who).values for who in _WHO]
    is_known = np.isfinite(shares).all(axis=0)
    epochs = traits.epoch.values[is_known]
    series = {i: share[is_known] for i, share in enumerate(shares)}
    distance = 0.5 * float(np.abs(series[0] - series[1]).sum())
    return figures.plot(
        figures.curves(epochs, series, _NAMES, axis="share of visits"),
        slug=f"times-{chosen.index + 1}",
        title="Share of visits by epoch",
        description=f"The visits of the most and the least exposed are spread over {len(epochs)} "
        f"epochs; the total variation distance between the two is {number(distance, 2)}",
    )
