"""Settings of the analysis of traits, and what it compares: periods and exposures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Strict

from clusterscale.analyses.traits.exposure import TargetAUCs
from clusterscale.contracts import ConfigModel, Count
from clusterscale.cube.blocks import Span


class TraitsPlan(ConfigModel):
    """How the most and the least exposed are compared (POMACS20 §3).

    The ``share`` of the users with the highest AUC is compared with as many with the lowest, among
    others by a random forest with ``trees`` trees. For at most ``targets`` random targets, the
    ``components`` principal components with the largest weights are reported.

    Attributes
    ----------
    share
        Share of users on each side of the comparison.
    components
        Number of principal components that are reported.
    trees
        Number of trees of the random forest.
    targets
        Largest number of targets whose attacks are analysed.
    """

    share: Annotated[float, Strict(), Field(gt=0, le=0.5)] = 0.1
    components: Count = 5
    trees: Annotated[int, Strict(), Field(ge=50, le=100_000)] = 500
    targets: Count = 150


@dataclass(frozen=True, slots=True)
class View:
    """A setting whose targets' components are computed.

    Attributes
    ----------
    period, prior, mechanism
        Name of the period, and ids of the prior and the mechanism.
    group_size
        Members of a group.
    """

    period: str
    prior: str
    group_size: int
    mechanism: str


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
        Settings whose components are reported.
    names
        Label and title of each mechanism, prior and attack, by id.
    """

    plan: TraitsPlan
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

    def period_index(self, period: str) -> int:
        """Return the index of a period."""
        return [name for name, _ in self.periods].index(period)

    def slice_of(self, period: int) -> slice:
        """Return the slice of :attr:`epochs` that belongs to a period."""
        first, last = self.periods[period][1]
        start = int(np.searchsorted(self.epochs, first))
        return slice(start, start + last - first)
