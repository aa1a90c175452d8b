"""Training data and background knowledge of an adversary."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts.release import Release
from clusterscale.contracts.traces import Counts, Ints, Labels, Values

__all__ = ["Examples", "Knowledge", "TargetKnowledge"]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Examples:
    """A labelled release to train on; compared by identity, as a release is.

    Attributes
    ----------
    release
        Published values of each group.
    labels
        Shape (group,): whether the target is inside.
    blocks
        int64, shape (group,): groups with the same number share members (the same people in
        several weeks, the two halves of a pair), so one cannot validate what was learnt from the
        other.
    """

    release: Release
    labels: Labels
    blocks: NDArray[np.int64]

    def take(self, rows: Ints) -> Examples:
        """Return some of the groups."""
        return Examples(self.release.take(rows), self.labels[rows], self.blocks[rows])

    def shuffled(self, rng: np.random.Generator) -> Examples:
        """Return the same release with labels that are independent of the target.

        Half of each class is labelled inside, at random: a plain permutation can by chance
        correlate with the truth, which would affect a trained attack.
        """
        labels = self.labels.copy()
        for side in (True, False):
            rows = rng.permutation(np.flatnonzero(self.labels == side))
            labels[rows] = np.arange(len(rows)) % 2 == 0
        return replace(self, labels=labels)


@dataclass(frozen=True, slots=True)
class TargetKnowledge:
    """What the adversary knows about the target's locations and about users in general.

    Attributes
    ----------
    trace
        Flat cells of the target that are known, sorted, shape (event,).
    complete
        Whether these are all cells of the target.
    occupancy
        Shape (roi, epoch): users of the adversary's reference who are in each cell; int32, or
        float64 if it is an expectation.
    n_users
        Number of users in the reference.
    weights
        Weight of the target, and of all users of the reference, the target among them, as the
        adversary assumes them; None if users count as one.
    """

    trace: Ints
    complete: bool
    occupancy: Counts | Values
    n_users: int
    weights: tuple[float, float] | None = None

    @property
    def mean_trace(self) -> Values:
        """How often a user of the reference is in a cell, between 0 and 1, shape (roi, epoch)."""
        return self.occupancy / self.n_users

    def plus(self, other: TargetKnowledge) -> TargetKnowledge:
        """Add the counts of the users that follow these."""
        trace = np.concatenate([self.trace, other.trace])
        weights = self.weights
        if weights is not None and other.weights is not None:
            weights = weights[0] + other.weights[0], weights[1] + other.weights[1]
        occupancy = self.occupancy + other.occupancy
        return replace(self, trace=trace, occupancy=occupancy, weights=weights)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Everything that the adversary has for training.

    Attributes
    ----------
    training
        Groups to learn from.
    whereabouts
        Target and reference locations; None if the prior covers only groups.
    validation
        Groups for choosing a threshold, separate from the training groups; None if there are none.
    """

    training: Examples
    whereabouts: TargetKnowledge | None = None
    validation: Examples | None = None

    def shuffled(self, rng: np.random.Generator) -> Knowledge:
        """Return the same knowledge with shuffled labels; see :meth:`Examples.shuffled`."""
        validation = self.validation and self.validation.shuffled(rng)
        return replace(self, training=self.training.shuffled(rng), validation=validation)
