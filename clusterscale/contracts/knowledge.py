"""One play for one target: what is counted, what is published of it, what the adversary holds."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts.traces import Counts, Ints, Labels, Values

if TYPE_CHECKING:
    from clusterscale.contracts.protocols import Mechanism

__all__ = [
    "NO_NOISE",
    "Examples",
    "Game",
    "Knowledge",
    "Noise",
    "Release",
    "Sample",
    "Whereabouts",
    "publish",
]


@dataclass(frozen=True, slots=True)
class Noise:
    """The law of what is added to every count, independently, before clipping and rounding.

    ``scale`` is in visits: the scale b of a Laplace law and of its whole-numbered kin (two-sided
    geometric, P(n) ∝ exp(−|n| / b)), the standard deviation of a Gaussian.
    """

    law: Literal["none", "laplace", "geometric", "gaussian"]
    scale: float = 0.0


NO_NOISE = Noise("none")
"""Counts are published as they are."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Release:
    """What is published of one or many groups, with what the publisher says about it.

    Compared by identity, so that what several attacks derive from it is derived once.

    Attributes
    ----------
    values
        float64, or int32 where the counts themselves are published, shape (group, roi, epoch).
    group_size
        Members in each group.
    mechanism
        Public description of the mechanism, e.g. ``laplace(epsilon=1.0)``.
    noise
        Its law of noise, or None where it does not simply add independent noise.
    """

    values: Values | Counts
    group_size: int
    mechanism: str
    noise: Noise | None = None

    @property
    def flat(self) -> Values | Counts:
        """``values`` as shape (group, roi * epoch), without a copy."""
        return self.values.reshape(len(self.values), -1)

    def take(self, rows: Ints) -> Release:
        """Return the release of some of the groups; their values are copied."""
        return replace(self, values=self.values[rows])


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
class Whereabouts:
    """What the adversary knows of the places of the target, and of people in general.

    Attributes
    ----------
    trace
        Flat cells of the target that are known, sorted, shape (event,).
    complete
        Are these all cells of the target?
    seen
        int32, shape (roi, epoch): users of the adversary's reference who are in each cell.
    n_users
        Users in that reference.
    """

    trace: Ints
    complete: bool
    seen: Counts
    n_users: int

    @property
    def mean_trace(self) -> Values:
        """How often a user of the reference is in a cell, between 0 and 1, shape (roi, epoch)."""
        return self.seen / self.n_users

    def plus(self, other: Whereabouts) -> Whereabouts:
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
    whereabouts: Whereabouts | None = None
    validation: Examples | None = None

    def shuffled(self, rng: np.random.Generator) -> Knowledge:
        """Return the same knowledge with worthless labels; see :meth:`Examples.shuffled`."""
        validation = self.validation and self.validation.shuffled(rng)
        return replace(self, training=self.training.shuffled(rng), validation=validation)


@dataclass(frozen=True, slots=True)
class Sample:
    """Groups that were drawn and counted.

    ``counts`` are int32, shape (group, roi, epoch); ``labels`` and ``blocks`` as in
    :class:`Examples`.
    """

    counts: Counts
    labels: Labels
    blocks: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Ints) -> Sample:
        """Return some of the groups; their counts are copied."""
        return Sample(self.counts[rows], self.labels[rows], self.blocks[rows])

    def plus(self, other: Sample) -> Sample:
        """Add what other users count for in the same groups."""
        return replace(self, counts=self.counts + other.counts)


def publish(
    counts: Counts, mechanism: Mechanism, *, group_size: int, rng: np.random.Generator
) -> Release:
    """Return what ``mechanism`` makes of ``counts``; untouched counts are not copied."""
    values: Values | Counts = counts
    if mechanism.noise != NO_NOISE:
        values = mechanism.release(counts, group_size=group_size, rng=rng)
    return Release(values, group_size, mechanism.label, mechanism.noise)


@dataclass(frozen=True, slots=True)
class Game:
    """One play of the distinguishability game, set up: all drawn and counted, nothing published.

    Attributes
    ----------
    group_size
        Members in each group.
    training, validation
        Groups that the adversary can form or has seen.
    challenge
        Groups that it must tell apart; their labels are the answers, which it never sees.
    whereabouts
        What it knows of the target and of the others.
    paired
        Do rows 2i and 2i + 1 of the training groups share their noise (POPETS24 §4.4)?
    passive
        Does the adversary train on the counts themselves, whatever is published (NDSS18 §VII)?
    asks_again
        Did the adversary train on the very groups it is asked about? It may then recognise a group
        whoever is inside, so its scores bound no ε.
    absent
        A control: groups formed as challenges with the target are, their labels True, but with
        another user in its place. Of an adversary who is asked again about groups it has seen,
        these are new ones, and new ones without the target are beside them.
    more
        Draws so many more challenges, like the first ones and none of them drawn before.
    """

    group_size: int
    training: Sample
    challenge: Sample
    whereabouts: Whereabouts | None = None
    validation: Sample | None = None
    paired: bool = False
    passive: bool = False
    asks_again: bool = False
    absent: Sample | None = None
    more: Callable[[int], Sample] | None = None

    def plus(self, other: Game) -> Game:
        """Add what other users, who follow these, count for in the same groups.

        Neither draws any ``more``: what may be asked for is counted beforehand.
        """
        training = self.training.plus(other.training)
        again = self.challenge is self.training
        return replace(
            self,
            training=training,
            challenge=training if again else self.challenge.plus(other.challenge),
            whereabouts=_add(self.whereabouts, other.whereabouts),
            validation=_add(self.validation, other.validation),
            absent=_add(self.absent, other.absent),
        )

    def publish(self, counts: Counts, mechanism: Mechanism, *, rng: np.random.Generator) -> Release:
        """Return what ``mechanism`` makes of ``counts``, as :func:`publish`."""
        return publish(counts, mechanism, group_size=self.group_size, rng=rng)

    def knowledge(self, mechanism: Mechanism, *, rng: np.random.Generator) -> Knowledge:
        """Return what the adversary holds: its own groups, published by the same mechanism."""
        training = self._train(mechanism, rng)
        validation = None
        if self.validation is not None:
            sample = self.validation
            release = self.publish(sample.counts, mechanism, rng=rng)
            validation = Examples(release, sample.labels, sample.blocks)
        return Knowledge(training, self.whereabouts, validation)

    def _train(self, mechanism: Mechanism, rng: np.random.Generator) -> Examples:
        sample = self.training
        if self.passive:
            release = Release(sample.counts, self.group_size, "exact", NO_NOISE)
        elif self.paired:
            twin = deepcopy(rng)
            inside = self.publish(sample.counts[0::2], mechanism, rng=rng)
            outside = self.publish(sample.counts[1::2], mechanism, rng=twin)
            values: Any = np.stack([inside.values, outside.values], axis=1)
            release = replace(inside, values=values.reshape(sample.counts.shape))
        else:
            release = self.publish(sample.counts, mechanism, rng=rng)
        return Examples(release, sample.labels, sample.blocks)


def _add(one: Any, other: Any) -> Any:
    """Add what either half of the users counts for, where there is anything."""
    return None if one is None else one.plus(other)
