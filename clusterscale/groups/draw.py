"""Draw the members of groups."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from clusterscale.contracts import GroupSample, Ints, Members, Traces
from clusterscale.errors import PoolError
from clusterscale.groups.choose import (
    CandidatePool,
    ChosenUsers,
    ListedCandidates,
    check_lists,
    check_pool,
)
from clusterscale.groups.count import Counter, replace_member

SLICE_BYTES = 1 << 25
"""Bytes of member indices in memory at once, unless two groups need more."""

_MOST_TRIES = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Some consecutive groups of a draw.

    Attributes
    ----------
    members
        int64, shape (group, member), increasing; a negative index is a user who is not held.
    substitutes
        int64, shape (group with the target,): user to replace the target; empty if not requested.
    """

    members: Members
    substitutes: Ints


@dataclass(frozen=True, slots=True)
class Pool:
    """Pool from which groups of one size are drawn and counted, for one target.

    The draws depend only on the users, not on whose traces are held.

    Attributes
    ----------
    traces
        Traces to count.
    users
        User indices, distinct, shape (user,), including the target.
    target
        The user whose membership is at stake.
    size
        Members in each group, the target counted.
    name
        Name of the pool in errors.
    lists
        Membership lists that groups are drawn from, one list a group; all users if None.
    drawn
        Keys of the groups drawn so far; no group is drawn twice.
    """

    traces: Traces
    users: Ints
    target: int
    size: int
    name: str
    lists: Sequence[Sequence[int]] | None = None
    drawn: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.traces.check_user(self.target)

    def slices(
        self,
        n_groups: int,
        *,
        rng: np.random.Generator,
        paired: bool = False,
        ranks: Ints | None = None,
    ) -> Iterator[Slice]:
        """Draw distinct groups, every second one with the target, a few at a time (NDSS18 §V-B).

        ``n_groups`` is even. If ``paired``, each group with the target differs from the
        next one, without it, in one member (POPETS24 §4.4). ``ranks``, from
        :meth:`rank_substitutes`, determine the users who replace the target. Raises
        PoolError, which names the pool, its size and the largest group that fits, if there
        are too few users for that many distinct groups.
        """
        others, n_wanted = self._candidates(), len(self.drawn) + n_groups
        check_pool(len(others) + 1, size=self.size, n_groups=n_wanted, name=self.name)
        if self.lists is not None:
            check_lists(self.lists, size=self.size, n_groups=n_wanted, name=self.name)
        return self._draw_slices(others, n_groups, rng, paired, ranks)

    def _candidates(self) -> CandidatePool:
        if self.lists is not None:
            return ListedCandidates(self.users, self.target, self.lists, self.size)
        held = (self.traces.first, self.traces.first + self.traces.n_held)
        return CandidatePool(self.users, self.target, held)

    def draw(
        self,
        n_groups: int,
        *,
        rng: np.random.Generator,
        paired: bool = False,
        ranks: Ints | None = None,
    ) -> tuple[GroupSample, Ints]:
        """Draw and count groups, and return the target's substitutes; a pair is a block."""
        counts = np.empty((n_groups, self.traces.n_rois, self.traces.n_epochs), np.int32)
        sums = None if self.traces.weights is None else np.empty(counts.shape)
        counter = Counter(self.traces, self.size, self.users)
        substitutes: list[Ints] = [np.zeros(0, np.int64)]
        first = 0
        for part in self.slices(n_groups, rng=rng, paired=paired, ranks=ranks):
            stop = first + len(part.members)
            counter.count(part.members, counts[first:stop])
            if sums is not None:
                counter.sum(part.members, sums[first:stop])
            substitutes.append(part.substitutes)
            first = stop
        blocks = np.arange(n_groups) // (2 if paired else 1)
        sample = GroupSample(counts, np.arange(n_groups) % 2 == 0, blocks, sums)
        return sample, np.concatenate(substitutes)

    def draw_more(self, rng: np.random.Generator, n_groups: int) -> GroupSample:
        """Draw and count ``n_groups`` more groups."""
        return self.draw(n_groups, rng=rng)[0]

    def draw_challenges(
        self,
        n_groups: int,
        *,
        rng: np.random.Generator,
        control: np.random.Generator | None = None,
    ) -> tuple[GroupSample, GroupSample | None]:
        """Draw and count challenges, and control groups with a substitute for the target.

        ``control``, if given, draws the substitutes without changing the draws from ``rng``.
        """
        if control is None:
            return self.draw_more(rng, n_groups), None
        ranks = self.rank_substitutes(n_groups, rng=control)
        challenge, substitutes = self.draw(n_groups, rng=rng, ranks=ranks)
        inside = challenge.take(np.flatnonzero(challenge.labels))
        return challenge, self.substitute_target(inside, substitutes)

    def rank_substitutes(self, n_groups: int, *, rng: np.random.Generator) -> Ints:
        """Draw the ranks of users who replace the target, int64, shape (group with the target,).

        They are uniformly distributed over the users of the pool outside the group.
        """
        return rng.integers(len(self.users) - self.size, size=n_groups // 2)

    def substitute_target(self, sample: GroupSample, substitutes: Ints) -> GroupSample:
        """Return the same groups with the target replaced by another user of the pool.

        ``substitutes``, int64, shape (group with the target,), are these users. The groups
        differ from those without the target only in how groups with the target are formed,
        not in the target itself. Labels and blocks are unchanged: True where the target
        was.
        """
        other = sample.take(np.arange(len(sample)))
        self._replace_target(other, substitutes)
        return other

    def fresh_control_groups(self, n_groups: int, *, rng: np.random.Generator) -> GroupSample:
        """Draw new groups of both kinds, with another user in place of the target.

        For adversaries who recognise their training groups whoever is inside.
        """
        other = replace(self, drawn=set())
        ranks = other.rank_substitutes(n_groups, rng=rng)
        sample, substitutes = other.draw(n_groups, rng=rng, ranks=ranks)
        self._replace_target(sample, substitutes)
        return sample

    def _replace_target(self, sample: GroupSample, substitutes: Ints) -> None:
        for row, user in zip(np.flatnonzero(sample.labels), substitutes, strict=True):
            sums = None if sample.sums is None else sample.sums[row, None]
            replace_member(sample.counts[row, None], self.traces, self.target, user[None], sums)

    def _draw_slices(
        self,
        others: CandidatePool,
        n_groups: int,
        rng: np.random.Generator,
        paired: bool,
        ranks: Ints | None,
    ) -> Iterator[Slice]:
        draw_two = self._draw_pair if paired else self._draw_independent
        n_some = max(1, SLICE_BYTES // (16 * self.size))
        for first in range(0, n_groups // 2, n_some):
            n_pairs = min(n_some, n_groups // 2 - first)
            members = np.empty((2 * n_pairs, self.size), np.int64)
            substitutes = np.empty(0 if ranks is None else n_pairs, np.int64)
            for i in range(n_pairs):
                inside, outside = draw_two(others, rng)
                members[2 * i] = np.sort(np.append(inside.users, self.target))
                members[2 * i + 1] = np.sort(outside.users)
                if ranks is not None:
                    substitutes[i] = others.outsider(inside, int(ranks[first + i]))
            yield Slice(members, substitutes)

    def _draw_independent(
        self, others: CandidatePool, rng: np.random.Generator
    ) -> tuple[ChosenUsers, ChosenUsers]:
        """Draw the other members of a group with the target, and a group without it."""
        inside = self._draw_new(others, self.size - 1, rng)
        return inside, self._draw_new(others, self.size, rng)

    def _draw_new(self, pool: CandidatePool, size: int, rng: np.random.Generator) -> ChosenUsers:
        while True:
            choice = pool.choose(size, rng)
            if choice.key not in self.drawn:
                self.drawn.add(choice.key)
                return choice

    def _draw_pair(
        self, others: CandidatePool, rng: np.random.Generator
    ) -> tuple[ChosenUsers, ChosenUsers]:
        for _ in range(_MOST_TRIES):
            outside = others.choose(self.size, rng)
            inside = outside.without(int(rng.integers(self.size)))
            if not {inside.key, outside.key} & self.drawn:
                self.drawn.update((inside.key, outside.key))
                return inside, outside
        raise PoolError(
            f"no more than {len(self.drawn) // 2} pairs of groups of {self.size} were found among "
            f"{len(others) + 1} users including the target: draw fewer or smaller groups"
        )
