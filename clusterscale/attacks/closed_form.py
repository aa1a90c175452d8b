"""Distinguishers in closed form: they know where the target was, and need no training.

All start from the same model: members are independent, each in a cell with the probability that
the adversary's reference shows, and the target adds its own trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.attacks.linear import Direction
from clusterscale.attacks.moments import variances
from clusterscale.contracts import (
    NO_NOISE,
    Component,
    Examples,
    Ints,
    Knowledge,
    Release,
    Scores,
    Whereabouts,
)
from clusterscale.errors import InputError

__all__ = ["Contradiction", "Diagonal", "Projection", "known"]


def known(knowledge: Knowledge) -> Whereabouts:
    """Return what is known of the target's places.

    Raises
    ------
    InputError
        If the prior tells nothing of them.
    """
    if knowledge.whereabouts is None:
        raise InputError("this attack asks where the target was, and the prior does not tell")
    return knowledge.whereabouts


class Projection(Component):
    """Score a release by its inner product with (target's trace − mean trace of the prior).

    With equal variances this is the likelihood ratio of *inside* against *outside* up to
    constants. The threshold lies midway between the training classes.
    """

    name: Literal["projection"] = "projection"

    needs_whereabouts: ClassVar[bool] = True
    validates: ClassVar[bool] = False

    def fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> Direction:
        """Form the direction; nothing is drawn from ``rng``."""
        return _between(knowledge.training, _difference(known(knowledge)))


class Diagonal(Component):
    """The projection with each cell divided by the variance of its value.

    With equal means and normal values this is the optimal linear rule when cells are independent
    (Fisher's, with a diagonal covariance).
    """

    name: Literal["diagonal"] = "diagonal"

    needs_whereabouts: ClassVar[bool] = True
    validates: ClassVar[bool] = False

    def fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> Direction:
        """Form the direction; nothing is drawn from ``rng``."""
        whereabouts = known(knowledge)
        spread = variances(knowledge.training.release, whereabouts)
        return _between(knowledge.training, _difference(whereabouts) / spread)


def _difference(whereabouts: Whereabouts) -> NDArray[np.float64]:
    direction = -whereabouts.mean_trace.ravel()
    direction[whereabouts.trace] += 1.0
    return direction


def _between(training: Examples, weights: NDArray[np.float64]) -> Direction:
    scores = Direction(weights).score(training.release)
    inside, outside = scores[training.labels], scores[~training.labels]
    return Direction(weights, threshold=float(inside.mean() + outside.mean()) / 2)


class Contradiction(Component):
    """*Outside* where the counts rule the target out, *inside* otherwise (POPETS24 §6.1).

    A count of 0 where the target was rules it out; so does a count of all members where it was
    not, if its whole trace is known. Only counts that are published as they are can contradict:
    of any other release this attack says nothing, and all its scores are equal.
    """

    name: Literal["contradiction"] = "contradiction"

    needs_whereabouts: ClassVar[bool] = True
    validates: ClassVar[bool] = False

    def fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> _Alibi:
        """Note where the target was; nothing is learnt, nothing drawn from ``rng``."""
        whereabouts = known(knowledge)
        return _Alibi(whereabouts.trace, whereabouts.complete)


@dataclass(frozen=True, slots=True)
class _Alibi:
    trace: Ints
    complete: bool
    threshold: float = 0.0

    def score(self, release: Release) -> Scores:
        """Return −1 for each group that the target cannot be in, else 0."""
        if release.noise != NO_NOISE:
            return np.zeros(len(release.values))
        flat = release.flat
        out = (flat[:, self.trace] == 0).any(axis=1)
        if self.complete:
            full = flat == release.group_size
            full[:, self.trace] = False
            out |= full.any(axis=1)
        return np.where(out, -1.0, 0.0)
