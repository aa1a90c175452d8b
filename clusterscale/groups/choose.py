"""Choose random users from a pool; the choice does not depend on whose traces are held.

Small choices are made directly. Large choices from large pools are made segment by segment: first
the number from each segment, which is multivariate hypergeometric, then the users, with a separate
generator per segment. The distribution is that of a direct choice, and a process that holds only
the traces of some segments need not draw the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from clusterscale.contracts import Ints

__all__ = ["NOBODY", "CandidatePool", "ChosenUsers"]

NOBODY = -1
"""Index that stands for a user whose traces are not held."""

_SEGMENT = 1 << 16  # users; their indices stay in a processor's cache
_FEW = 64  # from more than a segment of users, the same 64 recur once in 10^200 draws


@dataclass(frozen=True, slots=True, eq=False)
class ChosenUsers:
    """The result of a choice.

    Attributes
    ----------
    users
        int64, shape (user,), by segment, unordered within a segment; :data:`NOBODY` for users of
        segments that are not held.
    sizes
        Number of users from each segment, shape (segment,); shape (1,) for a direct choice.
    key
        Identifies the set of users; equal sets have equal keys. For a choice by segments it is
        random, because such choices practically never coincide.
    """

    users: Ints
    sizes: Ints
    key: bytes

    def without(self, place: int) -> ChosenUsers:
        """Return the choice without the user at index ``place``."""
        sizes = self.sizes.copy()
        sizes[np.searchsorted(np.cumsum(sizes), place, side="right")] -= 1
        users = np.delete(self.users, place)
        key = self.key + b"-" if len(sizes) > 1 else _digest(users)
        return ChosenUsers(users, sizes, key)


class CandidatePool:
    """All users of a pool except the target.

    Parameters
    ----------
    pool
        User indices, distinct, shape (user,), with or without the target.
    target
        User to exclude.
    held
        First user held and the one after the last; None for all users.
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
        users, ends = np.full(size, NOBODY), np.cumsum(sizes)
        for segment in np.flatnonzero(self._wanted):
            within = self.users[self._edges[segment] : self._edges[segment + 1]]
            own = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, int(segment)]))
            n, stop = int(sizes[segment]), int(ends[segment])
            positions = own.choice(len(within), n, replace=False, shuffle=False)
            users[stop - n : stop] = within[positions]
        return ChosenUsers(users, sizes, key.tobytes())

    def outsider(self, choice: ChosenUsers, rank: int) -> int:
        """Return the user of that rank, by index, among those not chosen.

        :data:`NOBODY` if that user's segment is not held.
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
    """Return the user of that rank among ``users``, increasing, without the chosen ones."""
    free = np.ones(len(users), np.bool_)
    free[np.searchsorted(users, chosen)] = False
    return int(users[np.flatnonzero(free)[rank]])


def _digest(users: Ints) -> bytes:
    return blake2b(np.sort(users).tobytes(), digest_size=16).digest()
