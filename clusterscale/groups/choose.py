"""Choose some of many users at random, the same ones whoever holds whom.

Few users are chosen in one go. Many of very many are chosen segment by segment: first how many of
each, which is multivariate hypergeometric, then who, each segment from a generator of its own. That
is the law of a choice in one go, and whoever holds the traces of some segments alone need not draw
the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from clusterscale.contracts import Ints

__all__ = ["NOBODY", "CandidatePool", "ChosenUsers"]

NOBODY = -1
"""Stands for a user who is not held, in place of an index."""

_SEGMENT = 1 << 16  # users; their indices stay in a processor's cache
_FEW = 64  # of more than a segment of users, the same 64 are chosen again once in 10^200 draws


@dataclass(frozen=True, slots=True, eq=False)
class ChosenUsers:
    """Some users who were chosen.

    Attributes
    ----------
    users
        int64, shape (user,), segment by segment, without order within; :data:`NOBODY` where a
        user's segment was not wanted.
    sizes
        How many of each segment, shape (segment,); of all, where there are no segments.
    key
        Two choices of the same users have the same key. By segments keys are drawn, for two such
        choices are never the same.
    """

    users: Ints
    sizes: Ints
    key: bytes

    def without(self, place: int) -> ChosenUsers:
        """Return the choice less the user at a place."""
        sizes = self.sizes.copy()
        sizes[np.searchsorted(np.cumsum(sizes), place, side="right")] -= 1
        users = np.delete(self.users, place)
        key = self.key + b"-" if len(sizes) > 1 else _digest(users)
        return ChosenUsers(users, sizes, key)


class CandidatePool:
    """Everyone in a pool but the target.

    Parameters
    ----------
    pool
        User indices, distinct, shape (user,); whether the target is among them does not matter.
    target
        Who is left out.
    held
        The first user whose place in a group matters, and the one after the last; None: everyone's.
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
        """Choose so many users, all choices being equally likely."""
        if self._in_one_go or not _FEW <= size <= len(self) - _FEW:
            users = self.users[rng.choice(len(self), size, replace=False, shuffle=False)]
            return ChosenUsers(users, np.array([size]), _digest(users))
        sizes = rng.multivariate_hypergeometric(np.diff(self._edges), size)
        key = rng.integers(0, 2**64, 2, np.uint64)
        users, ends = np.full(size, NOBODY), np.cumsum(sizes)
        for segment in np.flatnonzero(self._wanted):
            within = self.users[self._edges[segment] : self._edges[segment + 1]]
            own = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, int(segment)]))
            n, stop = int(sizes[segment]), int(ends[segment])
            places = own.choice(len(within), n, replace=False, shuffle=False)
            users[stop - n : stop] = within[places]
        return ChosenUsers(users, sizes, key.tobytes())

    def outsider(self, choice: ChosenUsers, rank: int) -> int:
        """Return the user of that rank among those who were not chosen, by index.

        :data:`NOBODY` if that user's segment is not wanted.
        """
        if len(choice.sizes) == 1:
            return _outside(self.users, choice.users, rank)
        left = np.cumsum(np.diff(self._edges) - choice.sizes)
        segment = int(np.searchsorted(left, rank, side="right"))
        if not self._wanted[segment]:
            return NOBODY
        stop = int(choice.sizes[: segment + 1].sum())
        chosen = choice.users[stop - choice.sizes[segment] : stop]
        within = self.users[self._edges[segment] : self._edges[segment + 1]]
        return _outside(within, chosen, rank - (int(left[segment - 1]) if segment else 0))


def _outside(users: Ints, chosen: Ints, rank: int) -> int:
    """Return who has that rank among ``users``, increasing, once the chosen ones are gone."""
    free = np.ones(len(users), np.bool_)
    free[np.searchsorted(users, chosen)] = False
    return int(users[np.flatnonzero(free)[rank]])


def _digest(users: Ints) -> bytes:
    return blake2b(np.sort(users).tobytes(), digest_size=16).digest()
