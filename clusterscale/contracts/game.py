"""One game against one target: its groups, its challenges and its adversary."""

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
    """Groups that have been drawn and counted.

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
        """Add the counts of other users in the same groups."""
        return replace(self, counts=self.counts + other.counts)


class Adversary(Protocol):
    """Decides whether the target is inside; never sees the challenge groups."""

    @property
    def retrains_per_release(self) -> bool:
        """Whether it studies each challenge release separately."""

    def study(
        self, release: Release, mechanism: Mechanism, *, rng: np.random.Generator
    ) -> Knowledge:
        """Return the training knowledge that it derives from a ``release`` of one group.

        ``mechanism``, bound, is all that the publisher says about how the release was made.
        """

    def plus(self, other: Self) -> Self:
        """Return the same adversary, with its knowledge about the users that follow these."""


@dataclass(frozen=True, slots=True)
class AuxiliaryDataAdversary:
    """An adversary with groups to train on, formed or observed; it does not learn from releases.

    Attributes
    ----------
    group_size
        Members in each group.
    training, validation
        Groups that the adversary can form or has observed.
    whereabouts
        What it knows about the target and about the others.
    paired
        Whether rows 2i and 2i + 1 of the training groups share their noise (POPETS24 §4.4).
    passive
        Whether it trains on raw counts, whatever is published (NDSS18 §VII).
    """

    group_size: int
    training: GroupSample
    whereabouts: TargetKnowledge | None = None
    validation: GroupSample | None = None
    paired: bool = False
    passive: bool = False

    @property
    def retrains_per_release(self) -> bool:
        """False: it does not learn from a release."""
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
        """Add the counts of the users that follow these, in the same groups."""
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
    """A distinguishability game after setup: groups are drawn and counted, nothing is published.

    Attributes
    ----------
    group_size
        Members in each group.
    adversary
        The adversary that must distinguish the groups.
    challenge
        Challenge groups; their labels are the answers, which the adversary never sees.
    reuses_training_groups
        Whether the challenge groups are the adversary's own training groups. It may then recognise
        a group whoever is inside, so its scores give no bound on ε.
    absent
        A control: groups formed like challenges with the target and labelled True, but with another
        user in its place. If ``reuses_training_groups``, these are new groups, together with new
        groups without the target.
    more
        Draws the given number of further challenges, like the first ones, without repeats.
    """

    group_size: int
    adversary: Adversary
    challenge: GroupSample
    reuses_training_groups: bool = False
    absent: GroupSample | None = None
    more: Callable[[int], GroupSample] | None = None

    def plus(self, other: Game) -> Game:
        """Add the counts of the users that follow these, in the same groups.

        Neither game draws ``more``: all challenges are counted beforehand.
        """
        mine, adversary = self.adversary, self.adversary.plus(other.adversary)
        shared = isinstance(mine, AuxiliaryDataAdversary) and self.challenge is mine.training
        if shared and isinstance(adversary, AuxiliaryDataAdversary):
            challenge = adversary.training
        else:
            challenge = self.challenge.plus(other.challenge)
        absent = _add(self.absent, other.absent)
        return replace(self, adversary=adversary, challenge=challenge, absent=absent)


def _add(one: Any, other: Any) -> Any:
    """Return the sum over both sets of users; None if there is nothing to add."""
    return None if one is None else one.plus(other)
