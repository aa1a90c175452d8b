"""Draw groups of users from a pool, if it is large enough.

The choice does not depend on whose traces are held.

Small choices are made directly. Large choices from large pools are made segment by segment: first
the number from each segment, which is multivariate hypergeometric, then the users, with a separate
generator per segment. The distribution is that of a direct choice, and a process that holds only
the traces of some segments need not draw the others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from math import comb

import numpy as np

from clusterscale.contracts import GroupSample, Ints, Members, Traces
from clusterscale.errors import PoolError
from clusterscale.groups.count import NOT_HELD, Counter, replace_member

_SEGMENT = 1 << 16  # users; their indices stay in a processor's cache
_FEW = 64  # from more than a segment of users, the same 64 recur once in 10^200 draws


@dataclass(frozen=True, slots=True, eq=False)
class ChosenUsers:
    """The result of a choice.

    Attributes
    ----------
    users
        int64, shape (user,), by segment, unordered within a segment; :data:`NOT_HELD` for users of
        segments that are not held.
    sizes
        Number of users from each segment, shape (segment,); shape (1,) for a direct choice.
    key
        Identifies the set of users; equal sets have equal keys. For a choice by segments it is
        random, because such choices practically never coincide.
    list_index
        Index of the membership list that the choice is from; 0 if there are none.
    """

    users: Ints
    sizes: Ints
    key: bytes
    list_index: int = 0

    def without(self, index: int) -> "ChosenUsers":
        """Return the choice without the user at index ``index``."""
        sizes = self.sizes.copy()
        sizes[np.searchsorted(np.cumsum(sizes), index, side="right")] -= 1
        users = np.delete(self.users, index)
        key = self.key + b"-" if len(sizes) > 1 else _digest(users)
        return ChosenUsers(users, sizes, key, self.list_index)


class CandidatePool:
    """All users of a pool, distinct indices, shape (user,), except the target.

    ``held`` is the range of users held; None for all.
    """

    def __init__(self, pool: Ints, target: int, held: tuple[int, int] | None = None) -> None:
        self.users = np.sort(pool[pool != target])
        n_users = int(self.users[-1]) + 1 if len(self.users) else 0
        starts = np.arange(0, max(n_users, 1), _SEGMENT)
        self._edges = np.searchsorted(self.users, np.append(starts, starts[-1] + _SEGMENT))
        first, stop = (0, n_users) if held is None else held
        self._in_one_go = len(self.users) <= _SEGMENT
        self._wanted = (starts < stop) & (starts + _SEGMENT > first)

    def __len__(self) -> int:
        return len(self.users)

    def choose(self, size: int, rng: np.random.Generator) -> ChosenUsers:
        """Choose ``size`` users; all choices are equally likely."""
        if self._in_one_go or not _FEW <= size <= len(self) - _FEW:
            users = self.users[rng.choice(len(self), size, replace=False, shuffle=False)]
            return ChosenUsers(users, np.array([size]), _digest(users))
        sizes = rng.multivariate_hypergeometric(np.diff(self._edges), size)
        key = rng.integers(0, 2**64, 2, np.uint64)
        users, ends = np.full(size, NOT_HELD), np.cumsum(sizes)
        for segment in np.flatnonzero(self._wanted):
            within = self.users[self._edges[segment] : self._edges[segment + 1]]
            own = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, int(segment)]))
            n, stop = int(sizes[segment]), int(ends[segment])
            positions = own.choice(len(within), n, replace=False, shuffle=False)
            users[stop - n : stop] = within[positions]
        return ChosenUsers(users, sizes, key.tobytes())

    def outsider(self, choice: ChosenUsers, rank: int) -> int:
        """Return the user of that rank, by index, among those not chosen.

        :data:`NOT_HELD` if that user's segment is not held.
        """
        if len(choice.sizes) == 1:
            return _outside(self.users, choice.users, rank)
        left = np.cumsum(np.diff(self._edges) - choice.sizes)
        segment = int(np.searchsorted(left, rank, side="right"))
        if not self._wanted[segment]:
            return NOT_HELD
        stop = int(choice.sizes[: segment + 1].sum())
        chosen = choice.users[stop - choice.sizes[segment] : stop]
        within = self.users[self._edges[segment] : self._edges[segment + 1]]
        return _outside(within, chosen, rank - (int(left[segment - 1]) if segment else 0))


class ListedCandidates(CandidatePool):
    """Candidates by membership lists: every choice is from one list, all lists equally likely.

    A list of exactly the wanted size is chosen as it is. Without the target it lacks one
    member; another user of the pool, which includes the users of all lists, takes that place.
    Lists shorter than ``size``, the members of a group with the target, are left out.
    """

    def __init__(self, pool: Ints, target: int, lists: Sequence[Sequence[int]], size: int) -> None:
        super().__init__(pool, target)
        long = (np.array(each, np.int64) for each in lists if len(each) >= size)
        self._lists = [np.sort(each[each != target]) for each in long]

    def choose(self, size: int, rng: np.random.Generator) -> ChosenUsers:
        """Choose ``size`` users of a list; all choices from a list are equally likely."""
        index = int(rng.integers(len(self._lists)))
        mates = self._lists[index]
        if size > len(mates):
            others = np.setdiff1d(self.users, mates, assume_unique=True)
            fill = others[rng.choice(len(others), size - len(mates), replace=False)]
            users = np.append(mates, fill)
        else:
            users = mates[rng.choice(len(mates), size, replace=False, shuffle=False)]
        return ChosenUsers(users, np.array([size]), _digest(users), index)

    def outsider(self, choice: ChosenUsers, rank: int) -> int:
        """Return a user of the same list who is not chosen, else one of the pool, by rank."""
        mates = np.setdiff1d(self._lists[choice.list_index], choice.users, assume_unique=True)
        if not len(mates):
            return super().outsider(choice, rank)
        return int(mates[rank * len(mates) // (len(self) - len(choice.users))])


def draw_members(
    n_users: int, size: int, lists: Sequence[Sequence[int]] | None, *, rng: np.random.Generator
) -> Ints:
    """Return the members of one group, increasing user indices, int64, shape (member,).

    They are drawn from all users, or from one of some membership lists of user indices.
    """
    if lists is None:
        return np.sort(rng.choice(n_users, size, replace=False, shuffle=False))
    candidates = ListedCandidates(np.arange(n_users), -1, lists, size)  # no target
    return np.sort(candidates.choose(size, rng).users)


def _outside(users: Ints, chosen: Ints, rank: int) -> int:
    """Return the user of that rank among ``users``, increasing, without the chosen ones."""
    free = np.ones(len(users), np.bool_)
    free[np.searchsorted(users, chosen)] = False
    return int(users[np.flatnonzero(free)[rank]])


def _digest(users: Ints) -> bytes:
    return blake2b(np.sort(users).tobytes(), digest_size=16).digest()


def largest_group(n_pool: int, n_groups: int) -> int:
    """Return the largest size for which a pool has enough distinct groups, 0 if there is none.

    ``n_pool`` counts the target; half of the groups are with it.
    """
    return next((m for m in range(n_pool - 1, 0, -1) if _fits(n_pool, n_groups, m)), 0)


def check_pool(n_pool: int, *, size: int, n_groups: int, name: str) -> None:
    """Raise PoolError, with the pool's ``name``, if it has too few distinct groups of that size.

    ``n_pool`` counts the target; half of the groups are with it.
    """
    if _fits(n_pool, n_groups, size):
        return
    largest = largest_group(n_pool, n_groups)
    room = f"the largest that fits is {largest}" if largest else "no group size fits"
    extent = "large" if size > largest else "small"
    raise PoolError(
        f"groups of {size} are too {extent}: the {name} pool has {n_pool} users including the "
        f"target, and {n_groups} distinct groups are needed; {room}"
    )


def check_lists(lists: Sequence[Sequence[object]], *, size: int, n_groups: int, name: str) -> None:
    """Raise PoolError if membership lists cannot supply the groups for every target.

    ``size`` counts the target, half of the groups are with it, and ``name`` is that of the
    prior.
    """
    wanted = n_groups // 2
    # Of a list of exactly that size that has the target, there is one group with the target.
    n_distinct = 0
    for n in map(len, lists):
        n_distinct += 0 if n < size else 1 if n == size else min(wanted, comb(n - 1, size - 1))
        if n_distinct >= wanted:
            return
    longest = max(map(len, lists), default=0)
    raise PoolError(
        f"{name}: {n_groups} distinct groups of {size} are needed, half of them with the target, "
        f"but the {len(lists)} membership lists, of which the longest has {longest} members, "
        f"may give only {n_distinct} with a target; choose smaller groups, fewer of them, or give "
        "more lists"
    )


def _fits(n_pool: int, n_groups: int, size: int) -> bool:
    half = n_groups // 2
    return _distinct(n_pool - 1, size - 1, half) and _distinct(n_pool - 1, size, half)


def _distinct(n: int, k: int, wanted: int) -> bool:
    """Return whether ``n`` users form at least ``wanted`` distinct groups of ``k``."""
    if not 0 <= k <= n:
        return False
    if 0 < k < n and n >= wanted:  # n choose k is at least n
        return True
    return comb(n, k) >= wanted


SLICE_BYTES = 1 << 25
"""Bytes of member indices in memory at once, unless two groups need more."""

_MOST_TRIES = 10_000


Slice = tuple[Members, Ints]
"""Some consecutive groups of a draw, and the users who replace the target in them.

Members are int64, shape (group, member), increasing; a negative index is a user who is not held.
Users who replace the target are int64, shape (group with the target,); empty if not requested.
"""


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
        rows = Rows([self.traces], self, range(n_groups))
        substitutes: list[Ints] = [np.zeros(0, np.int64)]
        for members, replacing in self.slices(n_groups, rng=rng, paired=paired, ranks=ranks):
            rows.add(members)
            substitutes.append(replacing)
        return rows.sample(2 if paired else 1), np.concatenate(substitutes)

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
        for row, user in zip(np.flatnonzero(other.labels), substitutes, strict=True):
            sums = None if other.sums is None else other.sums[row, None]
            replace_member(other.counts[row, None], self.traces, self.target, user[None], sums)
        return other

    def fresh_control_groups(self, n_groups: int, *, rng: np.random.Generator) -> GroupSample:
        """Draw new groups of both kinds, with another user in place of the target.

        For adversaries who recognise their training groups whoever is inside.
        """
        other = replace(self, drawn=set())
        ranks = other.rank_substitutes(n_groups, rng=rng)
        return self.substitute_target(*other.draw(n_groups, rng=rng, ranks=ranks))

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
            yield members, substitutes

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


class Rows:
    """Counts of the groups with given numbers in each of several periods, as they are drawn."""

    def __init__(self, periods: Sequence[Traces], pool: "Pool", numbers: range) -> None:
        self._counters = [Counter(traces, pool.size, pool.users) for traces in periods]
        cells = periods[0].n_rois, periods[0].n_epochs
        self._counts = np.empty((len(periods), len(numbers), *cells), np.int32)
        weighed = all(traces.weights is not None for traces in periods)
        self._sums = np.empty(self._counts.shape) if weighed else None
        self._numbers, self._n_drawn = numbers, 0

    def add(self, members: Members) -> None:
        """Count the next drawn groups, if their numbers are included."""
        first, stop = self._n_drawn, self._n_drawn + len(members)
        low, high = max(first, self._numbers.start), min(stop, self._numbers.stop)
        if low < high:
            rows = slice(low - self._numbers.start, high - self._numbers.start)
            for counter, counts in zip(self._counters, self._counts, strict=True):
                counter.count(members[low - first : high - first], counts[rows])
            for i, sums in enumerate(() if self._sums is None else self._sums):
                self._counters[i].sum(members[low - first : high - first], sums[rows])
        self._n_drawn = stop

    def sample(self, n_in_block: int = 1) -> GroupSample:
        """Return the counted groups, period by period; rows of some groups form a block."""
        n_periods, n_groups, *cells = self._counts.shape
        groups = np.arange(n_groups) // n_in_block
        inside = np.asarray(self._numbers) % 2 == 0
        shape = n_periods * n_groups, *cells
        sums = None if self._sums is None else self._sums.reshape(shape)
        labels, blocks = np.tile(inside, n_periods), np.tile(groups, n_periods)
        return GroupSample(self._counts.reshape(shape), labels, blocks, sums)
