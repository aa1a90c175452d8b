"""Specification of an analysis of traits: the settings, periods and exposures to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.cube.blocks import Span
from clusterscale.traits.exposure import TargetAUCs
from clusterscale.traits.plan import TraitsPlan

__all__ = ["AnalysisSpec", "View"]


@dataclass(frozen=True, slots=True)
class View:
    """A setting whose targets' components are computed: its period, and ids of the other parts."""

    period: str
    prior: str
    group_size: int
    mechanism: str


@dataclass(frozen=True)
class AnalysisSpec:
    """Specification of an analysis of traits.

    Attributes
    ----------
    plan, digest, description
        Settings of the comparison; their digest together with those of the audit; and both as plain
        values without personal data.
    exposure_digest
        Digest of the users' exposures, which identifies the audit or the screen.
    seed
        Root seed of all draws.
    null_roi
        Whether the null ROI is a ROI of its own.
    periods
        Names and spans of epochs.
    exposures
        Exposures whose most and least exposed users are compared, at least two on each side.
    views
        Settings whose components are reported.
    names
        Label and title of each mechanism, prior and attack, by id.
    """

    plan: TraitsPlan
    digest: str
    exposure_digest: str
    description: Mapping[str, Any]
    seed: int
    null_roi: bool
    periods: tuple[tuple[str, Span], ...]
    exposures: tuple[TargetAUCs, ...]
    views: tuple[View, ...]
    names: Mapping[str, tuple[str, str]] = field(default_factory=dict)

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

    def place(self, period: str) -> int:
        """Return the index of a period."""
        return [name for name, _ in self.periods].index(period)

    def within(self, period: int) -> slice:
        """Return the slice of :attr:`epochs` that belongs to a period."""
        first, last = self.periods[period][1]
        start = int(np.searchsorted(self.epochs, first))
        return slice(start, start + last - first)
