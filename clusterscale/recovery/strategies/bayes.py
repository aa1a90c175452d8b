"""Bayesian updating (PETS17 algorithm 3.1)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from clusterscale.contracts import NamedModel, Values
from clusterscale.recovery.epoch_belief import EpochBelief
from clusterscale.recovery.estimates import WeightedBelief
from clusterscale.recovery.protocols import Aggregate

__all__ = ["Bayes", "crowd"]


class Bayes(NamedModel):
    """The prior of each user, updated by the published counts; users are treated as independent.

    PETS17 eq. 15, algorithm 3.1. A user whose prior has no mass where published counts are positive
    has an estimate without mass. Values below 0 count as 0.
    """

    name: Literal["bayes"] = "bayes"

    def estimate(self, prior: EpochBelief, aggregate: Aggregate) -> WeightedBelief:
        """Return the posterior."""
        return WeightedBelief(prior, crowd(aggregate), normalised=True)


def crowd(aggregate: Aggregate) -> Values:
    """Return the published number of users in each ROI, at least 0."""
    return np.maximum(aggregate.values, 0)
