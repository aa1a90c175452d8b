"""The groups of a screen: drawn, counted over blocks of users, and stored.

They are written once, and read by every task.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache, reduce
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterscale import storage
from clusterscale.analyses.screening.plan import LEAST_GROUPS, ScreenSetting
from clusterscale.contracts import Bounds, Counts, Ints, Values
from clusterscale.cube import arrays
from clusterscale.cube.blocks import Source, open_source, ranges, read_block
from clusterscale.cube.bounds import merge_bounds
from clusterscale.errors import DamagedError, PoolError
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
    shape
        Numbers of ROIs (including the null ROI) and epochs.
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
    shape: tuple[int, int]
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
        rng = stream(source.seed, "screen groups", *setting.path[:2], group)
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
    blocks = ranges(task.start, task.stop, task.block)
    return reduce(combine, (_count(task, *users) for users in blocks))


def combine(one: GroupContributions, other: GroupContributions) -> GroupContributions:
    """Return the sum of the contributions of two sets of users."""
    visited = np.zeros(prod(one.shape), np.bool_)
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


def _count(task: CountTask, start: int, stop: int) -> GroupContributions:
    """Return the counts of groups over the users of a block."""
    (block,) = read_block(task.source, [task.setting.window], start, stop)
    traces, groups = block.traces, range(task.first, task.last)
    n_users = open_source(task.source).n_users
    members = members_within(task.source, task.setting, groups, n_users, start, stop)
    numbers, is_stand_in = members.group - task.first, members.stand_in > 0
    idle, weights = traces.idle_epochs, traces.weights
    visits = np.bincount(traces.cells, minlength=traces.n_cells)
    visits[traces.n_cells - idle.shape[1] :] += idle.sum(axis=0)
    cells, rows = np.flatnonzero(visits), np.zeros(traces.n_cells, np.int32)
    rows[cells] = np.arange(len(cells), dtype=np.int32)
    shape = len(groups), len(cells)
    sets = [(members.user[some], numbers[some]) for some in (~is_stand_in, is_stand_in)]
    events = traces.offsets, traces.cells, idle, rows
    base, stand_in = np.zeros(shape, np.int32), np.zeros(shape, np.uint8)
    _add(events, *sets[0], np.ones(1, base.dtype), base)
    _add(events, *sets[1], np.ones(1, stand_in.dtype), stand_in)
    sums, alone = None, np.zeros(len(groups))
    if weights is not None:
        sums, (user, group) = np.zeros(shape), sets[1]
        _add(events, *sets[0], weights, sums)
        alone[group] = weights[user]  # a group has one stand-in
    grid = traces.n_rois, traces.n_epochs
    return GroupContributions(cells, base, stand_in, visits[cells], block.bounds, grid, sums, alone)


@kernel
def _add(
    traces: tuple[Ints, Ints, NDArray[np.bool_], NDArray[np.int32]],
    users: Ints,
    groups: Ints,
    units: NDArray[Any],
    counts: NDArray[Any],
) -> None:
    """Add the unit of each member, one or that of all, to its group, in the row of each cell."""
    offsets, cells, idle, rows = traces
    nowhere = len(rows) - idle.shape[1]
    for i in range(len(users)):
        user, row = users[i], counts[groups[i]]
        unit = units[min(user, len(units) - 1)]
        for cell in cells[offsets[user] : offsets[user + 1]]:
            row[rows[cell]] += unit
        for epoch in np.flatnonzero(idle[user]):
            row[rows[nowhere + epoch]] += unit


_CHUNK = 1 << 22  # elements in a chunk, a few groups
_FILES = "files"  # attribute with their digests

Ids = NDArray[np.int64]


class GroupCounts(NamedTuple):
    """Counts of one group in the visited cells; counts of other cells are 0.

    ``counts`` and ``stand_in``: int32, shape (row,), of all members but the stand-in, and of the
    stand-in. ``sums`` and ``stand_in_sums``: float64, the same of weights; None if users have none.
    """

    group: int
    counts: Counts
    stand_in: Counts
    sums: Values | None
    stand_in_sums: Values | None

    @property
    def of_all(self) -> tuple[Counts, Values | None]:
        """Counts and sums of all members."""
        sums = None
        if self.sums is not None and self.stand_in_sums is not None:
            sums = self.sums + self.stand_in_sums
        return self.counts + self.stand_in, sums


@dataclass(frozen=True, eq=False)
class BaseGroups:
    """Counted groups of one setting; see :func:`open_groups`.

    Attributes
    ----------
    setting, source
        The setting that was counted, and its cube.
    n_users
        Number of users of the cube, which are the adversary's reference.
    shape
        Numbers of ROIs (including the null ROI) and epochs.
    bounds
        Largest change of the counts by one privacy unit.
    """

    uri: str
    setting: ScreenSetting
    source: Source
    n_users: int
    shape: tuple[int, int]
    bounds: Bounds

    @cached_property
    def cells(self) -> Ids:
        """Flat cells that any user visits, int64, shape (row,), increasing."""
        return self._read("cells", 0, self._n_rows)

    @cached_property
    def mean_trace(self) -> NDArray[np.float64]:
        """Share of all users in each of ``cells``, float64, shape (row,)."""
        return self._read("seen", 0, self._n_rows) / self.n_users

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """Index of each cell in ``cells``, −1 for the others, int32, shape (cell,)."""
        rows = np.full(self.n_cells, -1, np.int32)
        rows[self.cells] = np.arange(len(self.cells), dtype=np.int32)
        return rows

    @property
    def n_cells(self) -> int:
        """ROIs × epochs."""
        return self.shape[0] * self.shape[1]

    def counts(self, groups: range) -> Iterator[GroupCounts]:
        """Yield the counts of each group; a chunk of groups is read at a time."""
        n_rows, weighed = self._n_rows, "sums" in self._group
        step = max(_CHUNK // max(n_rows, 1), 1)
        for start in range(groups.start // step * step, groups.stop, step):
            some = range(max(start, groups.start), min(start + step, groups.stop))
            span = some.start * n_rows, some.stop * n_rows
            base, stand_in = (
                self._read(name, *span).reshape(len(some), n_rows) for name in ("base", "stand_in")
            )
            for i, group in enumerate(some):
                own = stand_in[i].astype(np.int32)
                sums = alone = None
                if weighed:
                    sums = self._read("sums", group * n_rows, (group + 1) * n_rows)
                    alone = own * self._read("alone", group, group + 1)
                yield GroupCounts(group, base[i], own, sums, alone)

    def everywhere(self, counts: NDArray[Any]) -> NDArray[Any]:
        """Return counts or sums of ``cells`` as those of all cells, shape (cell,)."""
        if len(self.cells) == self.n_cells:
            return counts
        dense = np.zeros(self.n_cells, counts.dtype)
        dense[self.cells] = counts
        return dense

    @cached_property
    def _group(self) -> Any:
        return _open(self.uri)

    @cached_property
    def _n_rows(self) -> int:
        return int(self._group["cells"].shape[0])

    def _read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        array = arrays.open_array(self._group, name, where=self.uri)
        return arrays.read(array, start, stop, where=self.uri)


def write_groups(group: Any, first: int, counted: GroupContributions, n_groups: int) -> None:
    """Write counted groups from number ``first`` on; the first ones also create the arrays."""
    n_rows, last = len(counted.cells), first + len(counted.base)
    size, width = n_groups * n_rows, max(n_rows, 1)
    some, chunk = slice(first * n_rows, last * n_rows), max(width, _CHUNK // width * width)
    written: dict[str, tuple[Any, str, int, int, slice]] = {
        "base": (np.int32, "count", chunk, size, some),
        "stand_in": (np.int8, "count", chunk, size, some),
    }
    if counted.sums is not None:
        written["sums"] = np.float64, "count", chunk, size, some
        written["alone"] = np.float64, "count", n_groups, n_groups, slice(first, last)
    if first == 0:
        written |= dict.fromkeys(("cells", "seen"), (np.int64, "row", width, n_rows, slice(None)))
        group.attrs.put({"bounds": asdict(counted.bounds), "shape": list(counted.shape)})
    for name, (dtype, dim, most, n, where) in written.items():
        if first == 0:
            arrays.new_array(group, name, dtype=dtype, chunk=min(most, n or 1), dim=dim, size=n)
        group[name][where] = getattr(counted, name).astype(dtype).ravel()


def seal_groups(group: Any) -> None:
    """List the digests of all files of counted groups, so that none is lost without an error."""
    group.attrs[_FILES] = {key: one for key, one in group.store.digests.items() if "/" in key}


def _open(uri: str) -> Any:
    """Open a store of counted groups; from here on, what is read is what was written."""
    group: Any = storage.open_group(uri)
    if _FILES not in group.attrs:
        raise DamagedError(
            f"{uri} does not list its files: remove it, and the same command counts again"
        )
    group.store.expected = group.attrs[_FILES]
    return group


@lru_cache(maxsize=2)
def open_groups(uri: str, setting: ScreenSetting, source: Source) -> BaseGroups:
    """Open the counted groups of a setting.

    Raises
    ------
    MissingError, DamagedError
        If ``uri`` has no counted groups, or they do not list their files.
    """
    about = _open(uri).attrs
    n_users, (rois, epochs) = open_source(source).n_users, about["shape"]
    return BaseGroups(uri, setting, source, n_users, (rois, epochs), Bounds(**about["bounds"]))
