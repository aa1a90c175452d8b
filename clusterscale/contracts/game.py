"""One game against one target: its groups, its challenges and its adversary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts.knowledge import Knowledge
from clusterscale.contracts.mechanism import Mechanism
from clusterscale.contracts.release import Release
from clusterscale.contracts.traces import Counts, Ints, Labels, Values

__all__ = ["Adversary", "Game", "GroupSample", "add"]


@dataclass(frozen=True, slots=True)
class GroupSample:
    """Groups that have been drawn and counted.

    Attributes
    ----------
    counts
        Int32, shape (group, roi, epoch): numbers of users.
    labels, blocks
        As in :class:`Examples`.
    sums
        float64, the shape of ``counts``: sums of the weights of the users counted; None if users
        have none.
    """

    counts: Counts
    labels: Labels
    blocks: NDArray[np.int64]
    sums: Values | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Ints) -> GroupSample:
        """Return some of the groups; their counts are copied."""
        sums = None if self.sums is None else self.sums[rows]
        return GroupSample(self.counts[rows], self.labels[rows], self.blocks[rows], sums)

    def plus(self, other: GroupSample) -> GroupSample:
        """Add the counts of other users in the same groups."""
        sums = None if self.sums is None or other.sums is None else self.sums + other.sums
        return replace(self, counts=self.counts + other.counts, sums=sums)


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
        adversary: Any = self.adversary.plus(other.adversary)
        shared = self.challenge is getattr(self.adversary, "training", None)
        challenge = adversary.training if shared else self.challenge.plus(other.challenge)
        absent = add(self.absent, other.absent)
        return replace(self, adversary=adversary, challenge=challenge, absent=absent)


def add(one: Any, other: Any) -> Any:
    """Return the sum over both sets of users; None if there is nothing to add."""
    return None if one is None else one.plus(other)
