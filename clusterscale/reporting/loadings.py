"""Regions and epochs that identify people."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.reporting import figures
from clusterscale.reporting.section import Section, folded, json_attribute, number, side_by_side
from clusterscale.validation_messages import plural


def build_map(traits: xr.Dataset, views: Sequence[str]) -> Section | None:
    """Build a map of the regions by mean loading; None without loadings or positions."""
    placed = np.isfinite(traits.x.values) & np.isfinite(traits.y.values)
    if not placed.any() or not views:
        return None
    folds = [(label, _map(traits, view, label, placed)) for view, label in enumerate(views)]
    return Section(
        "map",
        "Regions that identify people",
        "Regions are coloured by how strongly their counts correlate with the components that "
        "decide the classification, mean over targets and epochs: the lighter a region, the more "
        "it discloses.",
        figures.scale("discloses little", "most") + folded(folds),
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


_MOST_ROWS, _MOST_COLUMNS = 120, 168  # of a heatmap: as many as a panel can show
_WHO = {"all": "All targets", "top": "Most exposed", "bottom": "Least exposed"}


def build_cells(traits: xr.Dataset, views: Sequence[str]) -> Section | None:
    """Build heatmaps of loadings, as in POMACS20 Figs 2, 3 and 5; None without any."""
    if not views:
        return None
    folds = [(label, _panels(traits, view)) for view, label in enumerate(views)]
    return Section(
        "cells",
        "Regions and epochs that identify people",
        "How strongly the count of each region in each epoch correlates with the components that "
        "decide the classification, mean over targets. In the first panel, regions and epochs are "
        "in their original order; in the others, both are sorted by events, with the busiest at "
        "the top and on the right.",
        figures.scale("low correlation", "high") + folded(folds),
    )


def _panels(traits: xr.Dataset, view: int) -> Markup:
    chosen = traits.isel(view=view)
    period = traits.period.values.tolist().index(chosen.view_period.item())
    is_known = np.isfinite(chosen.loading.sel(who="all").values).any(axis=0)
    rois = np.argsort(traits.roi_events.values[period], kind="stable")
    epochs = np.argsort(traits.epoch_events.values[period][is_known], kind="stable")
    panels = []
    for who, title in _WHO.items():
        loading = np.nan_to_num(chosen.loading.sel(who=who).values[:, is_known])
        n = int(chosen.n_viewed.sel(who=who).item())
        if not n:
            continue
        if who == "all":
            panels.append(_panel(loading, view, "in original order", "region", "epoch", n))
        sorted_both = loading[np.ix_(rois, epochs)]
        panels.append(
            _panel(
                sorted_both, view, f"{title}, sorted", "region, by events", "epoch, by events", n
            )
        )
    return side_by_side(panels)


def _panel(loading: figures.Floats, view: int, title: str, up: str, across: str, n: int) -> Markup:
    shares = loading / max(float(loading.max()), 1e-12)
    top = np.unravel_index(int(np.argmax(shares)), shares.shape)
    return figures.plot(
        figures.heatmap(_shrink(shares), loading.shape, across=across, up=up),
        slug=f"cells-{view + 1}",
        title=f"{title[0].upper()}{title[1:]}, {plural(n, 'target')}",
        description=f"Heatmap of {shares.shape[0]} regions by {shares.shape[1]} epochs. The "
        f"largest is region {top[0] + 1} from below in epoch {top[1] + 1} from the left; "
        f"{np.mean(shares > 0.5):.1%} of cells have more than half of it",
    )


def _shrink(values: figures.Floats) -> figures.Floats:
    """Return means of neighbouring cells if a panel cannot show all rows or columns."""
    for axis, most in enumerate((_MOST_ROWS, _MOST_COLUMNS)):
        n = values.shape[axis]
        if n > most:
            edges = np.linspace(0, n, most + 1).astype(int)
            sums = np.add.reduceat(values, edges[:-1], axis=axis)
            values = sums / np.expand_dims(np.diff(edges), 1 - axis)
    peak = float(values.max(initial=0.0))
    return values / peak if peak > 0 else values
