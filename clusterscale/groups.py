"""Groups of users: draw who is inside, count where they were."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, comb

import numpy as np

from clusterscale.contracts import Counts, Ints, Labels, Members, Sample, Traces, Values
from clusterscale.errors import PoolError
from clusterscale.kernel import kernel

__all__ = ["check_pool", "count_visits", "draw_groups", "draw_sample", "forget", "largest_group"]
__all__ += ["mean_trace"]

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
    draw = _draw_pair if paired else _draw_two
    members = np.empty((n_groups, size), np.int64)
    seen: set[bytes] = set()
    for i in range(0, n_groups, 2):
        members[i], members[i + 1] = draw(others, target, size, seen, rng)
    return members, np.arange(n_groups) % 2 == 0


def draw_sample(
    traces: Traces,
    pool: Ints,
    target: int,
    *,
    size: int,
    n_groups: int,
    name: str,
    rng: np.random.Generator,
    paired: bool = False,
) -> Sample:
    """Draw groups as :func:`draw_groups` does and count them; a pair forms a block."""
    members, labels = draw_groups(
        pool, target, size=size, n_groups=n_groups, name=name, rng=rng, paired=paired
    )
    blocks = np.arange(n_groups) // (2 if paired else 1)
    return Sample(count_visits(traces, members, pool=pool), labels, blocks)


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


def count_visits(traces: Traces, members: Ints, *, pool: Ints | None = None) -> Counts:
    """Count, for each group, how many members were in each cell.

    Parameters
    ----------
    traces
        Traces of all users that a group may name.
    members
        User indices, shape (group, member), distinct within a group.
    pool
        The users that the groups were drawn from, shape (user,). Groups of more than half of them
        are then counted as the pool less those left out, which reads fewer events.

    Returns
    -------
    Counts
        int32, shape (group, roi, epoch).
    """
    shape = (len(members), traces.n_rois, traces.n_epochs)
    events = _events(traces)
    if pool is None or 2 * members.shape[1] <= len(pool):
        counts = np.zeros((len(members), traces.n_cells), np.int32)
        _count(*events, members, counts)
    else:
        everyone = np.zeros((1, traces.n_cells), np.int32)
        _count(*events, pool[None, :], everyone)
        counts = np.empty((len(members), traces.n_cells), np.int32)
        inside = np.zeros(traces.n_users, np.bool_)
        _count_left_out(*events, members, pool, inside, everyone[0], counts)
    return counts.reshape(shape)


def _events(traces: Traces) -> tuple[Ints, Ints, Labels]:
    """Return what the kernels read; unsigned indices spare them a test for negative ones."""
    cells: Ints = traces.cells.view(np.uint32 if traces.cells.dtype == np.int32 else np.uint64)
    idle: Labels = np.zeros((traces.n_users, 0), np.bool_) if traces.idle is None else traces.idle
    return traces.offsets, cells, idle


@kernel
def _count(offsets: Ints, cells: Ints, idle: Labels, members: Ints, counts: Counts) -> None:
    nowhere = np.empty(idle.shape[1], np.int32)
    for group in range(members.shape[0]):
        nowhere[:] = 0
        for user in members[group]:
            _add(offsets, cells, idle, user, np.int32(1), counts[group], nowhere)
        _close(nowhere, counts[group])


@kernel
def _count_left_out(
    offsets: Ints,
    cells: Ints,
    idle: Labels,
    members: Ints,
    pool: Ints,
    inside: Labels,
    everyone: Counts,
    counts: Counts,
) -> None:
    nowhere = np.empty(idle.shape[1], np.int32)
    for group in range(members.shape[0]):
        counts[group] = everyone
        nowhere[:] = 0
        inside[members[group]] = True
        for user in pool:
            if not inside[user]:
                _add(offsets, cells, idle, user, np.int32(-1), counts[group], nowhere)
        inside[members[group]] = False
        _close(nowhere, counts[group])


@kernel
def _add(
    offsets: Ints,
    cells: Ints,
    idle: Labels,
    user: int,
    weight: np.int32,
    row: Counts,
    nowhere: Counts,
) -> None:
    """Add one user's events to ``row`` and idle epochs to ``nowhere``, times ``weight``."""
    for cell in cells[offsets[user] : offsets[user + 1]]:
        row[cell] += weight
    absent = idle[user]
    for epoch in range(len(nowhere)):  # a straight pass, which runs in parallel lanes
        nowhere[epoch] += weight * np.int32(absent[epoch])


@kernel
def _close(nowhere: Counts, row: Counts) -> None:
    """Add what was counted of the null ROI, whose cells are the last."""
    start = len(row) - len(nowhere)
    for epoch in range(len(nowhere)):
        row[start + epoch] += nowhere[epoch]


def mean_trace(traces: Traces, users: Ints) -> Values:
    """Return the share of ``users`` seen in each cell, float64, shape (roi, epoch)."""
    share: Values = count_visits(traces, np.asarray(users)[None, :])[0].astype(np.float64)
    share /= len(users)
    return share


def forget(trace: Ints, traces: Traces, share: float, *, rng: np.random.Generator) -> Ints:
    """Return a copy of one user's trace that holds only some of the visits (POPETS24 §6.3).

    Parameters
    ----------
    trace
        Sorted flat cells of the user, shape (event,).
    traces
        The traces it is from; the null ROI, if they have one, is derived anew.
    share
        Of the visits, ceil(share · visits) are kept, at random.

    Returns
    -------
    Ints
        Sorted flat cells, the dtype of ``trace``.
    """
    n_seen = traces.n_cells - traces.n_epochs * traces.null_roi  # cells of real ROIs
    visits = trace[trace < n_seen]
    n_kept = ceil(Fraction(share).limit_denominator(10**9) * len(visits))
    kept = np.sort(rng.choice(visits, n_kept, replace=False)).astype(trace.dtype)
    if not traces.null_roi:
        return kept
    idle = np.setdiff1d(np.arange(traces.n_epochs), kept % traces.n_epochs)
    return np.concatenate([kept, (n_seen + idle).astype(trace.dtype)])
