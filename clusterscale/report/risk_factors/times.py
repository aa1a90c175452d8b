"""When the most exposed are seen, beside the least exposed."""

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
    """Build the share of visits in each epoch (POMACS20 Fig. 4); None where nobody is compared."""
    folds = [(each.label, _figure(traits, each)) for each in comparisons(traits)]
    if not folds:
        return None
    return Section(
        "times",
        "When the exposed are seen",
        "Of all visits of the most exposed, the share in each epoch; beside it that of the least "
        "exposed and of all users. Where the first stands above the last, quiet hours give away.",
        figures.legend(_NAMES) + fill("folds.html.j2", folds=folds),
    )


def _figure(traits: xr.Dataset, chosen: GroupComparison) -> Markup:
    shares = [traits.frequency.isel(comparison=chosen.index).sel(who=who).values for who in _WHO]
    told = np.isfinite(shares).all(axis=0)
    epochs = traits.epoch.values[told]
    series = {i: share[told] for i, share in enumerate(shares)}
    apart = 0.5 * float(np.abs(series[0] - series[1]).sum())
    return figures.plot(
        figures.curves(epochs, series, _NAMES, axis="share of visits"),
        slug=f"times-{chosen.index + 1}",
        title="Share of visits by epoch",
        description=f"The visits of the most and the least exposed are spread over {len(epochs)} "
        f"epochs; {number(apart, 2)} of either would have to move for them to be spread alike",
    )
