"""Distinguishers that need no training."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Component, Knowledge, Release, Scores

__all__ = ["Projection"]


class Projection(Component):
    """Score a release by its inner product with (target's trace − mean trace of the prior).

    With independent members and equal variances this is the likelihood ratio of *inside* against
    *outside* up to constants, so no learning is needed.
    """

    name: Literal["projection"] = "projection"

    def fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> "_Linear":
        """Form the direction; put the threshold midway between the training classes.

        Nothing is drawn from ``rng``.
        """
        direction = -knowledge.mean_trace.ravel()
        direction[knowledge.trace] += 1.0
        scores = knowledge.training.flat @ direction
        inside, outside = scores[knowledge.labels], scores[~knowledge.labels]
        return _Linear(direction, float(inside.mean() + outside.mean()) / 2)


@dataclass(frozen=True, slots=True)
class _Linear:
    """A direction in cell space."""

    direction: NDArray[np.float64]
    threshold: float

    def score(self, release: Release) -> Scores:
        """Return the inner product of each group's values with the direction."""
        return np.asarray(release.flat @ self.direction)
