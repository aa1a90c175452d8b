"""The groups of a screen: draw them, and count them over blocks of users."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Bounds, CellCoordinates, Counts, Ints, Traces
from clusterscale.cube.blocks import Source, ranges, read_block
from clusterscale.cube.bounds import merge_bounds
from clusterscale.errors import InputError, PoolError
from clusterscale.jit import kernel
from clusterscale.screening.plan import LEAST_GROUPS, ScreenSetting
from clusterscale.seeds import stream

__all__ = ["CountTask", "GroupContributions", "check_groups", "combine", "count", "members_within"]


def check_groups(n_users: int, group_size: int, n_groups: int) -> None:
    """Raise :class:`PoolError` if too few groups would be left of those a user is not in."""
    if group_size >= n_users:
        raise PoolError(
            f"groups of {group_size} are too large: of {n_users} users one at least must stand "
            f"outside; the largest that fits is {n_users - 1}"
        )
    left = n_groups * (n_users - group_size) / n_users
    if left < LEAST_GROUPS:
        needed = int(np.ceil(LEAST_GROUPS * n_users / (n_users - group_size)))
        raise PoolError(
            f"groups of {group_size} of {n_users} users: a user stands outside about {left:.0f} of "
            f"{n_groups}, too few to tell an AUC; draw {needed} groups or more (screen.groups), or "
            "smaller ones"
        )


@dataclass(frozen=True, slots=True)
class CountTask:
    """Count the groups ``first`` up to ``last`` among some users, block by block."""

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
    """What some users add to the groups.

    Attributes
    ----------
    base
        int32, shape (group, cell): all members but the stand-in.
    stand_in
        uint8, shape (group, cell): the one member who makes room for a user.
    seen
        int64, shape (cell,): users in each cell, members or not.
    bounds
        The most that one unit of data of any of them changes the counts.
    frame
        Where and when cells are.
    """

    base: Counts
    stand_in: NDArray[np.uint8]
    seen: NDArray[np.int64]
    bounds: Bounds
    frame: CellCoordinates


def members_within(
    source: Source, setting: ScreenSetting, groups: range, n_users: int, start: int, stop: int
) -> tuple[Ints, Ints, Ints]:
    """Return who of the users ``start`` up to ``stop`` is in which group.

    A group is ``group_size`` users at random, one of them, at random, the stand-in. Its draw hangs
    on nothing but the seed, the period, the size and its number, so that mechanisms are compared
    on the same people.

    Returns
    -------
    tuple of int64 arrays
        User, counted from ``start`` and not decreasing; group; and its member who stands in (1) or
        does not (0); shape (membership,).
    """
    users, places, stands = [], [], []
    for group in groups:
        path = ("screen groups", *setting.path[:2], group)
        rng = stream(source.seed, *path)
        members = rng.choice(n_users, setting.group_size, replace=False, shuffle=False)
        chosen = np.zeros(len(members), np.int64)
        chosen[rng.integers(len(members))] = 1
        here = (members >= start) & (members < stop)
        users.append(members[here] - start)
        places.append(np.full(int(here.sum()), group))
        stands.append(chosen[here])
    user, place, stand = (np.concatenate(part) for part in (users, places, stands))
    order = np.argsort(user, kind="stable")
    return user[order], place[order], stand[order]


def count(task: CountTask) -> GroupContributions:
    """Count groups over some users; a pure function of the task and the cube it names."""
    total: GroupContributions | None = None
    groups = range(task.first, task.last)
    for start, stop in ranges(task.start, task.stop, task.block):
        (block,) = read_block(task.source, [task.setting.window], start, stop)
        traces, bounds = block.traces, block.bounds
        if total is None:
            total = _nothing(len(groups), traces, block.frames[-1], bounds)
        who = members_within(task.source, task.setting, groups, task.n_users, start, stop)
        user, group, stand = who
        members = (user, group - task.first, stand)
        events = traces.offsets, traces.cells, traces.idle_epochs
        _count(*events, *members, total.base, total.stand_in, total.seen)
        total = replace(total, bounds=merge_bounds(total.bounds, bounds))
    if total is None:
        raise InputError(f"users {task.start} to {task.stop} are none to count")
    return total


def combine(one: GroupContributions, other: GroupContributions) -> GroupContributions:
    """Add what other users count for."""
    return replace(
        one,
        base=one.base + other.base,
        stand_in=one.stand_in + other.stand_in,
        seen=one.seen + other.seen,
        bounds=merge_bounds(one.bounds, other.bounds),
    )


def _nothing(
    n_groups: int, traces: Traces, frame: CellCoordinates, bounds: Bounds
) -> GroupContributions:
    shape = (n_groups, traces.n_cells)
    empty = np.zeros(shape, np.int32), np.zeros(shape, np.uint8)
    return GroupContributions(*empty, np.zeros(traces.n_cells, np.int64), bounds, frame)


@kernel
def _count(
    offsets: Ints,
    cells: Ints,
    idle: NDArray[np.bool_],
    users: Ints,
    groups: Ints,
    stands: Ints,
    base: Counts,
    stand_in: NDArray[np.uint8],
    seen: NDArray[np.int64],
) -> None:
    """Add every user to ``seen`` and members to their groups; ``users`` do not decrease."""
    nowhere = base.shape[1] - idle.shape[1]
    at = 0
    for user in range(len(offsets) - 1):
        events = cells[offsets[user] : offsets[user + 1]]
        absent = np.flatnonzero(idle[user]) + nowhere
        for cell in events:
            seen[cell] += 1
        for cell in absent:
            seen[cell] += 1
        while at < len(users) and users[at] == user:
            group = groups[at]
            for part in (events.astype(np.int64), absent):
                for cell in part:
                    if stands[at]:
                        stand_in[group, cell] += np.uint8(1)
                    else:
                        base[group, cell] += np.int32(1)
            at += 1
