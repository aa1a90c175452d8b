"""Groups of users: draw who is inside, count where they were."""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Counts, Ints, Labels, Members, Traces, Values
from clusterscale.errors import PoolError
from clusterscale.kernel import kernel

__all__ = ["count_visits", "draw_groups", "largest_group", "mean_trace"]


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
    check_pool(len(others) + 1, size=size, n_groups=n_groups, name=name)
    members = np.empty((n_groups, size), np.int64)
    seen: set[bytes] = set()
    for group in range(n_groups):
        inside = group % 2 == 0
        while True:
            drawn = others[rng.choice(len(others), size - inside, replace=False, shuffle=False)]
            row = np.sort(np.append(drawn, target) if inside else drawn)
            if row.tobytes() not in seen:
                break
        seen.add(row.tobytes())
        members[group] = row
    return members, np.arange(n_groups) % 2 == 0


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


def count_visits(traces: Traces, members: Ints) -> Counts:
    """Count, for each group, how many members were in each cell.

    Parameters
    ----------
    traces
        Traces of all users that a group may name.
    members
        User indices, shape (group, member).

    Returns
    -------
    Counts
        int32, shape (group, roi, epoch).
    """
    counts = np.zeros((len(members), traces.n_rois * traces.n_epochs), np.int32)
    _count(traces.offsets, traces.cells, members, counts)
    return counts.reshape(len(members), traces.n_rois, traces.n_epochs)


@kernel
def _count(offsets: Ints, cells: Ints, members: Ints, counts: NDArray[np.int32]) -> None:
    for group in range(members.shape[0]):
        row = counts[group]
        for member in range(members.shape[1]):
            user = members[group, member]
            for i in range(offsets[user], offsets[user + 1]):
                row[cells[i]] += 1


def mean_trace(traces: Traces, users: Ints) -> Values:
    """Return the share of ``users`` seen in each cell, float64, shape (roi, epoch)."""
    share: Values = count_visits(traces, np.asarray(users)[None, :])[0].astype(np.float64)
    share /= len(users)
    return share
