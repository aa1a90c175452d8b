"""Draw the groups of a screen, and count them over blocks of users."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.screening.plan import LEAST_GROUPS, ScreenSetting
from clusterscale.contracts import Bounds, CellCoordinates, Counts, Ints, Traces, Values
from clusterscale.cube.blocks import Source, ranges, read_block
from clusterscale.cube.bounds import merge_bounds
from clusterscale.errors import InputError, PoolError
from clusterscale.jit import kernel
from clusterscale.seeds import stream


def check_groups(n_users: int, group_size: int, n_groups: int) -> None:
    """Raise :class:`PoolError` if a user would be outside too few of the groups."""
    if group_size >= n_users:
        raise PoolError(
            f"groups of {group_size} are too large: at least one of {n_users} users must be "
            f"outside; the largest size is {n_users - 1}"
        )
    left = n_groups * (n_users - group_size) / n_users
    if left < LEAST_GROUPS:
        needed = int(np.ceil(LEAST_GROUPS * n_users / (n_users - group_size)))
        raise PoolError(
            f"groups of {group_size} of {n_users} users: a user is outside about {left:.0f} of "
            f"{n_groups}, too few to estimate an AUC; draw {needed} groups or more "
            "(screen.groups), or smaller ones"
        )


@dataclass(frozen=True, slots=True)
class CountTask:
    """Task to count the groups ``first`` up to ``last`` over some users, block by block."""

    source: Source
    setting: ScreenSetting
    n_users: int
    first: int
    last: int
    start: int
    stop: int
    block: int


@dataclass(frozen=True, slots=True, eq=False)
class GroupContributions:
    """Contributions of some users to the counts of the groups.

    They are of the cells that any of them visits; a count in other cells is 0.

    Attributes
    ----------
    cells
        int64, shape (visited cell,): flat cells, increasing.
    base
        int32, shape (group, visited cell): counts of all members except the stand-in.
    stand_in
        uint8, shape (group, visited cell): the member whom a user replaces.
    seen
        int64, shape (visited cell,): number of users in each cell, members or not.
    bounds
        Largest change of the counts by one privacy unit of any of them.
    frame
        Coordinates of the cells.
    sums
        float64, the shape of ``base``: sums of weights instead of counts; None if users have none.
    alone
        float64, shape (group,): weight of the stand-in, 0 if it is not among these users.
    """

    cells: Ints
    base: Counts
    stand_in: NDArray[np.uint8]
    seen: NDArray[np.int64]
    bounds: Bounds
    frame: CellCoordinates
    n_cells: int
    sums: Values | None
    alone: Values


class Memberships(NamedTuple):
    """Members of groups among some users.

    Int64 arrays of shape (membership,): user, counted from the first and not decreasing; group; and
    whether the user is its stand-in (1) or not (0).
    """

    user: Ints
    group: Ints
    stand_in: Ints


def members_within(
    source: Source, setting: ScreenSetting, groups: range, n_users: int, start: int, stop: int
) -> Memberships:
    """Return the group memberships of the users ``start`` up to ``stop``.

    A group is ``group_size`` random users; a random one of them is the stand-in. Its draw depends
    only on the seed, the period, the size and its number, so that mechanisms are compared on the
    same users.
    """
    users, numbers, stand_ins = [], [], []
    for group in groups:
        path = ("screen groups", *setting.path[:2], group)
        rng = stream(source.seed, *path)
        members = rng.choice(n_users, setting.group_size, replace=False, shuffle=False)
        chosen = np.zeros(len(members), np.int64)
        chosen[rng.integers(len(members))] = 1
        here = (members >= start) & (members < stop)
        users.append(members[here] - start)
        numbers.append(np.full(int(here.sum()), group))
        stand_ins.append(chosen[here])
    user, number, stand_in = (np.concatenate(part) for part in (users, numbers, stand_ins))
    order = np.argsort(user, kind="stable")
    return Memberships(user[order], number[order], stand_in[order])


def count(task: CountTask) -> GroupContributions:
    """Return the counts of groups over some users; a pure function of the task and its cube."""
    total: GroupContributions | None = None
    groups = range(task.first, task.last)
    for start, stop in ranges(task.start, task.stop, task.block):
        (block,) = read_block(task.source, [task.setting.window], start, stop)
        members = members_within(task.source, task.setting, groups, task.n_users, start, stop)
        members = members._replace(group=members.group - task.first)
        counted = _zeros(len(groups), block.traces, block.frames[-1], block.bounds)
        rows = np.zeros(counted.n_cells, np.int32)
        rows[counted.cells] = np.arange(len(counted.cells), dtype=np.int32)
        events = block.traces.offsets, block.traces.cells, block.traces.idle_epochs
        _count(events, rows, members, counted.base, counted.stand_in, counted.seen)
        weights = block.traces.weights
        if weights is not None and counted.sums is not None:
            _weigh(events, rows, members, weights, counted.sums, counted.alone)
        total = counted if total is None else combine(total, counted)
    if total is None:
        raise InputError(f"there are no users from {task.start} to {task.stop} to count")
    return total


def combine(one: GroupContributions, other: GroupContributions) -> GroupContributions:
    """Return the sum of the contributions of two sets of users."""
    visited = np.zeros(one.n_cells, np.bool_)
    visited[one.cells] = visited[other.cells] = True
    cells = np.flatnonzero(visited)
    base = np.zeros((len(one.base), len(cells)), np.int32)
    stand_in, seen = np.zeros(base.shape, np.uint8), np.zeros(len(cells), np.int64)
    sums = None if one.sums is None else np.zeros(base.shape)
    for part in (one, other):
        at = np.searchsorted(cells, part.cells)
        seen[at] += part.seen
        for group in range(len(base)):  # all at once would take a third copy
            base[group, at] += part.base[group]
            stand_in[group, at] += part.stand_in[group]
            if sums is not None and part.sums is not None:
                sums[group, at] += part.sums[group]
    return replace(
        one,
        cells=cells,
        base=base,
        stand_in=stand_in,
        seen=seen,
        bounds=merge_bounds(one.bounds, other.bounds),
        sums=sums,
        alone=one.alone + other.alone,
    )


def _zeros(
    n_groups: int, traces: Traces, frame: CellCoordinates, bounds: Bounds
) -> GroupContributions:
    visited = np.zeros(traces.n_cells, np.bool_)
    visited[traces.cells] = True
    nowhere = traces.n_cells - traces.idle_epochs.shape[1]
    visited[nowhere:] |= traces.idle_epochs.any(axis=0)
    cells = np.flatnonzero(visited)
    shape = (n_groups, len(cells))
    empty = np.zeros(shape, np.int32), np.zeros(shape, np.uint8), np.zeros(len(cells), np.int64)
    sums = None if traces.weights is None else np.zeros(shape)
    alone = np.zeros(n_groups)
    return GroupContributions(cells, *empty, bounds, frame, traces.n_cells, sums, alone)


@kernel
def _count(
    traces: tuple[Ints, Ints, NDArray[np.bool_]],
    rows: NDArray[np.int32],
    members: Memberships,
    base: Counts,
    stand_in: NDArray[np.uint8],
    seen: NDArray[np.int64],
) -> None:
    """Add every user to ``seen`` and members to their groups, in the row of each cell."""
    offsets, cells, idle = traces
    users, groups, is_stand_in = members
    nowhere = len(rows) - idle.shape[1]
    at = 0
    for user in range(len(offsets) - 1):
        events = rows[cells[offsets[user] : offsets[user + 1]]]
        absent = rows[np.flatnonzero(idle[user]) + nowhere]
        for row in events:
            seen[row] += 1
        for row in absent:
            seen[row] += 1
        while at < len(users) and users[at] == user:
            group = groups[at]
            for part in (events, absent):
                for row in part:
                    if is_stand_in[at]:
                        stand_in[group, row] += np.uint8(1)
                    else:
                        base[group, row] += np.int32(1)
            at += 1


@kernel
def _weigh(
    traces: tuple[Ints, Ints, NDArray[np.bool_]],
    rows: NDArray[np.int32],
    members: Memberships,
    weights: Values,
    sums: Values,
    alone: Values,
) -> None:
    """Add the weight of every member to the sums of its groups, or to the stand-ins' weights."""
    offsets, cells, idle = traces
    users, groups, is_stand_in = members
    nowhere = len(rows) - idle.shape[1]
    for i in range(len(users)):
        user, group = users[i], groups[i]
        if is_stand_in[i]:
            alone[group] += weights[user]
            continue
        for cell in cells[offsets[user] : offsets[user + 1]]:
            sums[group, rows[cell]] += weights[user]
        for epoch in np.flatnonzero(idle[user]):
            sums[group, rows[nowhere + epoch]] += weights[user]
