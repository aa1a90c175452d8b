"""Draw who is in which group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import comb

import numpy as np

from clusterscale.contracts import Ints, Labels, Members, Sample, Traces
from clusterscale.errors import PoolError
from clusterscale.groups.count import count_visits, replace_member

__all__ = ["Pool", "check_pool", "draw_groups", "largest_group"]

_MOST_TRIES = 10_000


def largest_group(n_pool: int, n_groups: int) -> int:
    """Return the largest size for which a pool holds enough distinct groups, 0 where none does.

    Parameters
    ----------
    n_pool
        Users in the pool, the target among them.
    n_groups
        Groups wanted, half with the target.
    """
    return next((m for m in range(n_pool - 1, 0, -1) if _fits(n_pool, n_groups, m)), 0)


def draw_groups(
    pool: Ints,
    target: int,
    *,
    size: int,
    n_groups: int,
    name: str,
    rng: np.random.Generator,
    paired: bool = False,
    seen: set[bytes] | None = None,
) -> tuple[Members, Labels]:
    """Draw distinct groups, every second one with the target (NDSS18 §V-B, "Aggregation").

    Parameters
    ----------
    pool
        User indices, distinct; whether the target is among them does not matter.
    target
        The user whose membership is at stake.
    size
        Members in each group, the target counted.
    n_groups
        How many groups, an even number.
    name
        What to call the pool in an error.
    rng
        Source of the draws.
    paired
        A group with the target and the next one, without, share all other members (POPETS24 §4.4).
    seen
        Groups of an earlier draw of the same kind, none of which is drawn again; those of this
        draw are added.

    Returns
    -------
    members
        int64, shape (group, member), sorted within a group.
    labels
        bool, shape (group,): True, False, True, …

    Raises
    ------
    PoolError
        If the pool has too few users for that many distinct groups; names the pool, its size and
        the largest group that fits.
    """
    others = pool[pool != target]
    seen = set() if seen is None else seen
    check_pool(len(others) + 1, size=size, n_groups=len(seen) + n_groups, name=name)
    draw = _draw_pair if paired else _draw_two
    members = np.empty((n_groups, size), np.int64)
    for i in range(0, n_groups, 2):
        members[i], members[i + 1] = draw(others, target, size, seen, rng)
    return members, np.arange(n_groups) % 2 == 0


@dataclass(frozen=True, slots=True)
class Pool:
    """Users that groups of one size are drawn from and counted, for one target.

    Attributes
    ----------
    traces
        What is counted.
    users
        User indices, distinct, shape (user,), the target among them.
    target
        The user whose membership is at stake.
    size
        Members in each group, the target counted.
    name
        What to call the pool in an error.
    seen
        The groups drawn so far, none of which is drawn again.
    """

    traces: Traces
    users: Ints
    target: int
    size: int
    name: str
    seen: set[bytes] = field(default_factory=set)

    def draw(
        self, n_groups: int, *, rng: np.random.Generator, paired: bool = False
    ) -> tuple[Sample, Members]:
        """Draw groups as :func:`draw_groups` does and count them; a pair forms a block."""
        members, labels = draw_groups(
            self.users,
            self.target,
            size=self.size,
            n_groups=n_groups,
            name=self.name,
            rng=rng,
            paired=paired,
            seen=self.seen,
        )
        blocks = np.arange(n_groups) // (2 if paired else 1)
        counts = count_visits(self.traces, members, pool=self.users)
        return Sample(counts, labels, blocks), members

    def add(self, rng: np.random.Generator, n_groups: int) -> Sample:
        """Draw and count so many more groups."""
        return self.draw(n_groups, rng=rng)[0]

    def without_target(
        self, sample: Sample, members: Members, *, rng: np.random.Generator
    ) -> Sample:
        """Return the same groups with another user of the pool wherever the target was.

        What tells these from groups without the target is not the target, but how groups with it
        were formed.

        Parameters
        ----------
        sample, members
            Counted groups, and who is in each, shape (group, member).
        rng
            Draws, for each group with the target, who takes its place: anybody in the pool who is
            not in the group.

        Returns
        -------
        Sample
            Labels and blocks as they were: True where the target was.
        """
        rows = np.flatnonzero(sample.labels)
        inside = np.zeros(self.traces.n_users, np.bool_)
        new = np.empty(len(rows), np.int64)
        for i, row in enumerate(rows):
            inside[members[row]] = True
            new[i] = rng.choice(self.users[~inside[self.users]])
            inside[members[row]] = False
        counts = sample.counts.copy()
        counts[rows] = replace_member(counts[rows], self.traces, self.target, new)
        return replace(sample, counts=counts)

    def strangers(self, n_groups: int, *, rng: np.random.Generator) -> Sample:
        """Draw other groups of either kind, with another user wherever the target would be.

        For adversaries who recognise the groups they have seen, whoever is inside.
        """
        other = replace(self, seen=set())
        return other.without_target(*other.draw(n_groups, rng=rng), rng=rng)


def _draw_two(
    others: Ints, target: int, size: int, seen: set[bytes], rng: np.random.Generator
) -> tuple[Ints, Ints]:
    inside = _draw_new(lambda: np.append(_choose(others, size - 1, rng), target), seen)
    return inside, _draw_new(lambda: _choose(others, size, rng), seen)


def _draw_pair(
    others: Ints, target: int, size: int, seen: set[bytes], rng: np.random.Generator
) -> tuple[Ints, Ints]:
    for _ in range(_MOST_TRIES):
        outside = _choose(others, size, rng)
        inside = outside.copy()
        inside[rng.integers(size)] = target
        pair = np.sort(inside), np.sort(outside)
        if not any(row.tobytes() in seen for row in pair):
            seen.update(row.tobytes() for row in pair)
            return pair
    raise PoolError(
        f"{len(seen) // 2} pairs of groups of {size} were drawn from {len(others) + 1} users with "
        "the target, and no other was found: draw fewer, or smaller groups"
    )


def _draw_new(draw: Callable[[], Ints], seen: set[bytes]) -> Ints:
    while True:
        row = np.sort(draw())
        key = row.tobytes()
        if key not in seen:
            seen.add(key)
            return row


def _choose(others: Ints, size: int, rng: np.random.Generator) -> Ints:
    return others[rng.choice(len(others), size, replace=False, shuffle=False)]


def check_pool(n_pool: int, *, size: int, n_groups: int, name: str) -> None:
    """Raise :class:`PoolError` if ``n_pool`` users cannot supply the groups."""
    if _fits(n_pool, n_groups, size):
        return
    largest = largest_group(n_pool, n_groups)
    room = f"the largest that fits is {largest}" if largest else "no group size fits"
    extent = "large" if size > largest else "small"
    raise PoolError(
        f"groups of {size} are too {extent}: the {name} pool holds {n_pool} users with the target, "
        f"and {n_groups} distinct groups are wanted; {room}"
    )


def _fits(n_pool: int, n_groups: int, size: int) -> bool:
    half = n_groups // 2
    return _distinct(n_pool - 1, size - 1, half) and _distinct(n_pool - 1, size, half)


def _distinct(n: int, k: int, wanted: int) -> bool:
    """Tell whether ``n`` users form at least ``wanted`` distinct groups of ``k``."""
    if not 0 <= k <= n:
        return False
    if 0 < k < n and n >= wanted:  # n choose k is at least n
        return True
    return comb(n, k) >= wanted
