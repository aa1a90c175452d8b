"""Choose random users from a pool, if it is large enough.

The choice does not depend on whose traces are held.

Small choices are made directly. Large choices from large pools are made segment by segment: first
the number from each segment, which is multivariate hypergeometric, then the users, with a separate
generator per segment. The distribution is that of a direct choice, and a process that holds only
the traces of some segments need not draw the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import comb

import numpy as np

from clusterscale.contracts import Ints
from clusterscale.errors import PoolError

NOT_HELD = -1
"""Index that stands for a user whose traces are not held."""

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
    return np.sort(
        ListedCandidates(np.arange(n_users), -1, lists, size).choose(size, rng).users  # no target
    )


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
