"""All that is asked of the users of one cube, once it is known who is exposed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.cube.blocks import Span
from clusterscale.traits.exposure import TargetAUCs, hash_exposures
from clusterscale.traits.plan import TraitsPlan

__all__ = ["AnalysisSpec", "View"]


@dataclass(frozen=True, slots=True)
class View:
    """A setting whose targets' components are computed: period, and ids of the others."""

    period: str
    prior: str
    group_size: int
    mechanism: str


@dataclass(frozen=True)
class AnalysisSpec:
    """What to find out.

    Attributes
    ----------
    plan, digest, description
        Settings of the comparison; their digest with those of the audit; and both as plain values
        that may be shown to anyone.
    seed
        Root seed of all draws.
    null_roi
        Is nowhere a ROI of its own?
    periods
        Names and spans of epochs.
    exposures
        Of which the most and the least exposed are compared; two or more make either side.
    views
        Settings whose components are told.
    names
        Label and title of each mechanism, prior and attack, by id.
    """

    plan: TraitsPlan
    digest: str
    description: Mapping[str, Any]
    seed: int
    null_roi: bool
    periods: tuple[tuple[str, Span], ...]
    exposures: tuple[TargetAUCs, ...]
    views: tuple[View, ...]
    names: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def names_of(self, variable: str, ids: Sequence[str]) -> dict[str, list[str]]:
        """Return the labels and titles of ``ids``, by the variables that hold them."""
        names = [self.names.get(key, (key, key)) for key in ids]
        return {
            f"{variable}_label": [label for label, _ in names],
            f"{variable}_title": [title for _, title in names],
        }

    @cached_property
    def exposure_digest(self) -> str:
        """Hash of how exposed users are: another audit is another question."""
        return hash_exposures(self.exposures)

    @property
    def epochs(self) -> NDArray[np.int64]:
        """Epochs of any period, increasing, int64."""
        return np.unique(np.concatenate([np.arange(*span) for _, span in self.periods]))

    def place(self, period: str) -> int:
        """Return the place of a period among all."""
        return [name for name, _ in self.periods].index(period)

    def within(self, period: int) -> slice:
        """Return where the epochs of a period are among :attr:`epochs`."""
        first, last = self.periods[period][1]
        start = int(np.searchsorted(self.epochs, first))
        return slice(start, start + last - first)
