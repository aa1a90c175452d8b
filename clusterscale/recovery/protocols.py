"""The parts of a recovery as others see them: one small Protocol each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from clusterscale.contracts import Values
from clusterscale.recovery.epoch_belief import EpochBelief, Ids
from clusterscale.recovery.estimates import WeightedBelief
from clusterscale.recovery.visits import Visits

__all__ = ["Aggregate", "InferencePrior", "InferenceStrategy"]


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """What is published of one epoch.

    Attributes
    ----------
    values
        float64, shape (roi,): the last ROI is the null ROI. Noise may leave any finite number.
    activity
        int64, shape (user,): reports of each user while observed, by rank, so never increasing.
    """

    values: Values
    activity: Ids


@runtime_checkable
class InferencePrior(Protocol):
    """What the adversary knows of everybody before the release: a prior of PETS17 §3.2."""

    @property
    def name(self) -> str:
        """Key in the registry."""

    @property
    def id(self) -> str:
        """Stable id: keys random streams, journals and coordinates."""

    @property
    def label(self) -> str:
        """Title, or name with its settings: for people only."""

    @property
    def needs(self) -> int:
        """How many epochs must be known before the first that is inferred."""

    @property
    def hourly(self) -> bool:
        """Whether it counts hours, so that epochs must be."""

    def season(self, epoch: int) -> int:
        """Return a number that epochs of the same column have in common."""

    def column(self, visits: Visits, observed: int, epoch: int) -> EpochBelief:
        """Return what is believed of an epoch.

        Parameters
        ----------
        visits
            Who was where, from the first observed epoch on.
        observed
            How many epochs are observed; the others are to be inferred.
        epoch
            Which, ``observed`` or later.
        """


@runtime_checkable
class InferenceStrategy(Protocol):
    """How a prior and a release become an estimate (PETS17 §3.3)."""

    @property
    def name(self) -> str:
        """Key in the registry."""

    @property
    def id(self) -> str:
        """Stable id: keys random streams, journals and coordinates."""

    @property
    def label(self) -> str:
        """Title, or name with its settings: for people only."""

    def estimate(self, prior: EpochBelief, aggregate: Aggregate) -> WeightedBelief:
        """Return what is concluded of one epoch."""
