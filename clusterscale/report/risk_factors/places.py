"""Map of the regions that identify people."""

from __future__ import annotations

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report import figures
from clusterscale.report.risk_factors.comparisons import views
from clusterscale.report.section import Section, fill, json_attribute, number


def build(traits: xr.Dataset) -> Section | None:
    """Build a map of the regions by mean loading; None without loadings or positions."""
    placed = np.isfinite(traits.x.values) & np.isfinite(traits.y.values)
    if not placed.any() or not traits.sizes["view"]:
        return None
    folds = [(label, _map(traits, view, label, placed)) for view, label in views(traits)]
    return Section(
        "map",
        "Regions that identify people",
        "Regions are coloured by how strongly their counts correlate with the components that "
        "decide the classification, mean over targets and epochs: the lighter a region, the more "
        "it discloses.",
        figures.scale("discloses little", "most") + fill("folds.html.j2", folds=folds),
    )


def _map(traits: xr.Dataset, view: int, label: str, placed: figures.Floats) -> Markup:
    loading = traits.loading.isel(view=view).sel(who="all").values[placed]
    is_known = np.isfinite(loading)
    # there is no loading outside the period, or without a viewed target
    total, n = np.where(is_known, loading, 0).sum(axis=1), is_known.sum(axis=1)
    means = np.divide(total, n, out=np.zeros(len(total)), where=n > 0)
    shares = means / max(float(means.max()), 1e-12)
    names = [str(name) for name in traits.roi_name.values[placed]]
    drawn = figures.map_of(
        names,
        traits.x.values[placed],
        traits.y.values[placed],
        shares,
        json_attribute(traits, "roi_shapes"),
    )
    first = np.argsort(-shares, kind="stable")[:5]
    words = ", ".join(f"{names[i]} ({number(float(shares[i]), 2)})" for i in first)
    return figures.plot(
        drawn,
        slug=f"map-{view + 1}",
        title=label or "Regions by how much they disclose",
        description=f"Map of regions. The regions that disclose most: {words}",
    )
