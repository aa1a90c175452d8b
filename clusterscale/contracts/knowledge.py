"""What an adversary holds when it trains."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts.release import Release
from clusterscale.contracts.traces import Counts, Ints, Labels, Values

__all__ = ["Examples", "Knowledge", "TargetKnowledge"]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Examples:
    """A release with answers, to learn from; compared by identity, as a release is.

    Attributes
    ----------
    release
        What was published of each group.
    labels
        Shape (group,): is the target inside?
    blocks
        int64, shape (group,): groups with the same number share members (the same people in
        several weeks, the two halves of a pair), so one cannot judge what was learnt of the other.
    """

    release: Release
    labels: Labels
    blocks: NDArray[np.int64]

    def take(self, rows: Ints) -> Examples:
        """Return some of the groups."""
        return Examples(self.release.take(rows), self.labels[rows], self.blocks[rows])

    def shuffled(self, rng: np.random.Generator) -> Examples:
        """Return the same release with labels that say nothing of the target.

        Half of each class is labelled inside, at random: a plain permutation would by chance agree
        or disagree with the truth, and a trained attack would show it.
        """
        labels = self.labels.copy()
        for side in (True, False):
            rows = rng.permutation(np.flatnonzero(self.labels == side))
            labels[rows] = np.arange(len(rows)) % 2 == 0
        return replace(self, labels=labels)


@dataclass(frozen=True, slots=True)
class TargetKnowledge:
    """What the adversary knows of the places of the target, and of people in general.

    Attributes
    ----------
    trace
        Flat cells of the target that are known, sorted, shape (event,).
    complete
        Are these all cells of the target?
    seen
        Shape (roi, epoch): users of the adversary's reference who are in each cell; int32, or
        float64 where that is an expectation.
    n_users
        Users in that reference.
    """

    trace: Ints
    complete: bool
    seen: Counts | Values
    n_users: int

    @property
    def mean_trace(self) -> Values:
        """How often a user of the reference is in a cell, between 0 and 1, shape (roi, epoch)."""
        return self.seen / self.n_users

    def plus(self, other: TargetKnowledge) -> TargetKnowledge:
        """Add what other users count for, who follow these."""
        trace = np.concatenate([self.trace, other.trace])
        return replace(self, trace=trace, seen=self.seen + other.seen)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """All that the adversary holds when it trains.

    Attributes
    ----------
    training
        Groups to learn from.
    whereabouts
        Where the target was, or None where the prior tells only of groups.
    validation
        Groups to choose a threshold on, apart from the training ones; None if there are none.
    """

    training: Examples
    whereabouts: TargetKnowledge | None = None
    validation: Examples | None = None

    def shuffled(self, rng: np.random.Generator) -> Knowledge:
        """Return the same knowledge with worthless labels; see :meth:`Examples.shuffled`."""
        validation = self.validation and self.validation.shuffled(rng)
        return replace(self, training=self.training.shuffled(rng), validation=validation)
