"""One play for one target: what is counted and asked, and by whom."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts.knowledge import Examples, Knowledge, TargetKnowledge
from clusterscale.contracts.release import NO_NOISE, Release, publish
from clusterscale.contracts.traces import Counts, Ints, Labels

if TYPE_CHECKING:
    from clusterscale.contracts.protocols import Mechanism

__all__ = ["Adversary", "AuxiliaryDataAdversary", "Game", "GroupSample"]


@dataclass(frozen=True, slots=True)
class GroupSample:
    """Groups that were drawn and counted.

    ``counts`` are int32, shape (group, roi, epoch); ``labels`` and ``blocks`` as in
    :class:`Examples`.
    """

    counts: Counts
    labels: Labels
    blocks: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Ints) -> GroupSample:
        """Return some of the groups; their counts are copied."""
        return GroupSample(self.counts[rows], self.labels[rows], self.blocks[rows])

    def plus(self, other: GroupSample) -> GroupSample:
        """Add what other users count for in the same groups."""
        return replace(self, counts=self.counts + other.counts)


class Adversary(Protocol):
    """Who is asked whether the target is inside; it never holds the groups it is asked about."""

    @property
    def retrains_per_release(self) -> bool:
        """Whether it studies each release that it is asked about anew."""

    def study(
        self, release: Release, mechanism: Mechanism, *, rng: np.random.Generator
    ) -> Knowledge:
        """Return what it holds once it has seen a ``release`` of one group.

        ``mechanism``, bound, is all that the publisher says of how it was made.
        """

    def plus(self, other: Self) -> Self:
        """Return the same adversary with what it knows of other users, who follow these."""


@dataclass(frozen=True, slots=True)
class AuxiliaryDataAdversary:
    """An adversary who can form groups of its own, or has seen some; a release tells it nothing.

    Attributes
    ----------
    group_size
        Members in each group.
    training, validation
        Groups that the adversary can form or has seen.
    whereabouts
        What it knows of the target and of the others.
    paired
        Do rows 2i and 2i + 1 of the training groups share their noise (POPETS24 §4.4)?
    passive
        Does it train on the counts themselves, whatever is published (NDSS18 §VII)?
    """

    group_size: int
    training: GroupSample
    whereabouts: TargetKnowledge | None = None
    validation: GroupSample | None = None
    paired: bool = False
    passive: bool = False

    @property
    def retrains_per_release(self) -> bool:
        """It has nothing to learn from a release."""
        return False

    def study(
        self, release: Release | None, mechanism: Mechanism, *, rng: np.random.Generator
    ) -> Knowledge:
        """Return its own groups, published by the same mechanism."""
        training = self._train(mechanism, rng)
        validation = None
        if self.validation is not None:
            sample = self.validation
            published = self._publish(sample.counts, mechanism, rng)
            validation = Examples(published, sample.labels, sample.blocks)
        return Knowledge(training, self.whereabouts, validation)

    def plus(self, other: Self) -> Self:
        """Add what other users, who follow these, count for in the same groups."""
        return replace(
            self,
            training=self.training.plus(other.training),
            whereabouts=_add(self.whereabouts, other.whereabouts),
            validation=_add(self.validation, other.validation),
        )

    def _train(self, mechanism: Mechanism, rng: np.random.Generator) -> Examples:
        sample = self.training
        if self.passive:
            release = Release(sample.counts, self.group_size, "exact", NO_NOISE)
        elif self.paired:
            twin = deepcopy(rng)
            inside = self._publish(sample.counts[0::2], mechanism, rng)
            outside = self._publish(sample.counts[1::2], mechanism, twin)
            values: Any = np.stack([inside.values, outside.values], axis=1)
            release = replace(inside, values=values.reshape(sample.counts.shape))
        else:
            release = self._publish(sample.counts, mechanism, rng)
        return Examples(release, sample.labels, sample.blocks)

    def _publish(self, counts: Counts, mechanism: Mechanism, rng: np.random.Generator) -> Release:
        return publish(counts, mechanism, group_size=self.group_size, rng=rng)


@dataclass(frozen=True, slots=True)
class Game:
    """One play of the distinguishability game, set up: all drawn and counted, nothing published.

    Attributes
    ----------
    group_size
        Members in each group.
    adversary
        Who must tell groups apart.
    challenge
        Those groups; their labels are the answers, which it never sees.
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
    adversary: Adversary
    challenge: GroupSample
    reuses_training_groups: bool = False
    absent: GroupSample | None = None
    more: Callable[[int], GroupSample] | None = None

    def plus(self, other: Game) -> Game:
        """Add what other users, who follow these, count for in the same groups.

        Neither draws any ``more``: what may be asked for is counted beforehand.
        """
        mine, adversary = self.adversary, self.adversary.plus(other.adversary)
        held_once = isinstance(mine, AuxiliaryDataAdversary) and self.challenge is mine.training
        if held_once and isinstance(adversary, AuxiliaryDataAdversary):
            challenge = adversary.training
        else:
            challenge = self.challenge.plus(other.challenge)
        absent = _add(self.absent, other.absent)
        return replace(self, adversary=adversary, challenge=challenge, absent=absent)


def _add(one: Any, other: Any) -> Any:
    """Add what either half of the users counts for, where there is anything."""
    return None if one is None else one.plus(other)
