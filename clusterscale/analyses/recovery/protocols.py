"""Protocols of priors and strategies of a recovery."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from clusterscale.analyses.recovery.epoch_belief import EpochBelief, Ids, Visits
from clusterscale.analyses.recovery.estimates import WeightedBelief
from clusterscale.contracts import Named, Values


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """Published values of one epoch.

    Attributes
    ----------
    values
        float64, shape (roi,): the last ROI is the null ROI. Noisy values may be any finite number.
    activity
        int64, shape (user,): reports of each user in observed epochs, by rank, so not increasing.
    """

    values: Values
    activity: Ids


@runtime_checkable
class InferencePrior(Named, Protocol):
    """Prior knowledge of the adversary about all users (PETS17 §3.2)."""

    @property
    def needs(self) -> int:
        """Number of epochs that must be known before the first inferred one."""

    @property
    def hourly(self) -> bool:
        """Whether epochs must be hours."""

    def season(self, epoch: int) -> int:
        """Return a number that is equal for epochs with the same belief."""

    def belief(self, visits: Visits, observed: int, epoch: int) -> EpochBelief:
        """Return the belief about an epoch.

        Parameters
        ----------
        visits
            Visits of all users, from the first observed epoch on.
        observed
            Number of observed epochs; the others are to be inferred.
        epoch
            Index of the epoch, at least ``observed``.
        """


@runtime_checkable
class InferenceStrategy(Named, Protocol):
    """Strategy to infer an estimate from a prior and a release (PETS17 §3.3)."""

    def estimate(self, prior: EpochBelief, aggregate: Aggregate) -> WeightedBelief:
        """Return the estimate of one epoch."""
