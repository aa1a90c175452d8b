"""Stored traits of exposed users."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.traits.characteristics import CHARACTERISTICS, TITLES
from clusterscale.analyses.traits.comparison import WHO, TraitsPlan
from clusterscale.analyses.traits.exposure import TargetAUCs
from clusterscale.analyses.traits.mobility import part_size
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Span
from clusterscale.cube.describe import count_events
from clusterscale.schema import Variable, read_variables

TRAITS: Mapping[str, Variable] = read_variables(Path(__file__).with_name("variables.md"))
"""Variables and coordinates of the dataset of traits: what exposed users have in common."""


@dataclass(frozen=True)
class AnalysisSpec:
    """Specification of an analysis of traits.

    Attributes
    ----------
    plan
        Settings of the comparison.
    null_roi
        Whether the null ROI is a ROI of its own.
    periods
        Names and spans of epochs.
    exposures
        Exposures whose most and least exposed users are compared, at least two on each side.
    views
        Settings whose components are reported, each by the exposure that chooses the targets.
    names
        Label and title of each mechanism, prior and attack, by id.
    """

    plan: TraitsPlan
    null_roi: bool
    periods: tuple[tuple[str, Span], ...]
    exposures: tuple[TargetAUCs, ...]
    views: tuple[TargetAUCs, ...]
    names: Mapping[str, tuple[str, str]]

    def names_of(self, variable: str, ids: Sequence[str]) -> dict[str, list[str]]:
        """Return the labels and titles of ``ids``, by variable name."""
        names = [self.names.get(key, (key, key)) for key in ids]
        return {
            f"{variable}_label": [label for label, _ in names],
            f"{variable}_title": [title for _, title in names],
        }

    @property
    def epochs(self) -> NDArray[np.int64]:
        """Epochs of any period, increasing, int64."""
        return np.unique(np.concatenate([np.arange(*span) for _, span in self.periods]))

    def period_index(self, period: str) -> int:
        """Return the index of a period."""
        return [name for name, _ in self.periods].index(period)

    def slice_of(self, period: int) -> slice:
        """Return the slice of :attr:`epochs` that belongs to a period."""
        first, last = self.periods[period][1]
        start = int(np.searchsorted(self.epochs, first))
        return slice(start, start + last - first)


def lay_out(spec: AnalysisSpec, cube: TraceCube) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the known columns of the table of traits, and its chunks."""
    regions = cube.regions.with_null() if spec.null_roi else cube.regions
    views, epochs = spec.views, spec.epochs
    n_events = count_events(cube, tuple(span for _, span in spec.periods))[:-1]
    columns: dict[str, Any] = {
        "user": range(cube.n_users),
        "n_events": n_events.T,
        "n_seen": (n_events > 0).sum(axis=1).tolist(),
        "period": [name for name, _ in spec.periods],
        "characteristic": CHARACTERISTICS,
        "characteristic_title": list(TITLES.values()),
        "comparison": range(len(spec.exposures)),
        "source": [exposure.source for exposure in spec.exposures],
        "who": WHO,
        "epoch": epochs.tolist(),
        "time": cube.calendar.clocks()[epochs].tolist(),
        "roi": range(len(regions)),
        "roi_name": regions.names,
        "x": regions.lon.tolist(),
        "y": regions.lat.tolist(),
        "view": range(len(views)),
    }
    for name in ("period", "prior", "group_size", "mechanism", "attack"):
        columns[f"compared_{name}"] = [getattr(exposure, name) for exposure in spec.exposures]
    for name in ("period", "prior", "group_size", "mechanism"):
        columns[f"view_{name}"] = [getattr(view, name) for view in views]
    for name in ("compared_prior", "compared_mechanism", "compared_attack", "view_prior"):
        columns |= spec.names_of(name, columns[name])
    columns |= spec.names_of("view_mechanism", columns["view_mechanism"])
    chunks = {
        "user": part_size(cube),
        "characteristic": len(CHARACTERISTICS),
        "comparison": 256,  # comparisons per chunk
        "roi": len(regions),
        "epoch": len(epochs),
    }
    return columns, chunks
