"""Count the users of a release over blocks of users, and keep the counts of each part.

Exact counts are kept in the folder of the run while it is not finished, so that a resumed run does
not count again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from clusterscale import storage
from clusterscale.analyses.publish.source import OperatingSystemSource
from clusterscale.contracts import Bounds, Counts, Ints, Values
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Range, Window, block_size, ranges, read_block
from clusterscale.cube.bounds import bounds_before, merge_bounds
from clusterscale.cube.describe import count_by_day
from clusterscale.cube.transforms import pick
from clusterscale.groups import count_visits
from clusterscale.groups.count import sum_weights
from clusterscale.mechanisms.sampling import CapContributions
from clusterscale.storage import manifest
from clusterscale.storage.atomic import staged
from clusterscale.storage.records import Parts, Records
from clusterscale.study.execution import Part, Reduction

_BLOCKS = 16  # in a part, whose counts are kept: a resumed run counts at most the open ones again
_MEMBERS = "members"


@dataclass(frozen=True, slots=True)
class PartsOf:
    """Consecutive users, and what is counted of them: a URI and a few numbers.

    ``members``: Zarr group with the rows of those who are counted, empty for all.
    """

    source: OperatingSystemSource
    window: Window
    users: Range
    block: int
    members: str = ""

    @property
    def blocks(self) -> tuple[Part[PartsOf], ...]:
        """The blocks of users that are counted together."""
        return tuple(Part(self, users) for users in ranges(*self.users, self.block))


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Counts of some users.

    Attributes
    ----------
    counts
        int32, shape (roi, epoch), visits.
    sums
        float64, the same shape: sums of weights; None if they are not used.
    bounds
        Largest change of the counts by one unit of data of these users; the least if there are
        none.
    n_users
        Number of users who were counted.
    """

    counts: Counts
    sums: Values | None
    bounds: Bounds
    n_users: int

    def plus(self, other: Counted) -> Counted:
        """Add the counts of other users."""
        sums = None if self.sums is None or other.sums is None else self.sums + other.sums
        bounds = merge_bounds(self.bounds, other.bounds)
        return Counted(self.counts + other.counts, sums, bounds, self.n_users + other.n_users)


def divide(
    source: OperatingSystemSource, cube: TraceCube, window: Window, members: str
) -> list[PartsOf]:
    """Return the parts of a cube whose counts are kept; they depend only on the cube."""
    block = block_size(cube)
    return [
        PartsOf(source, window, users, block, members)
        for users in ranges(0, cube.n_users, _BLOCKS * block)
    ]


def fold_part(part: PartsOf) -> Reduction[PartsOf, Part[PartsOf], Counted, Counted]:
    """Return the counting of a part as a reduction over blocks of users."""
    return Reduction(part, part.blocks, count_parts, Counted.plus)


def count_parts(block_of: Part[PartsOf]) -> Counted:
    """Count the users of a block, after the trace steps.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read, or is not the planned one.
    """
    part, (first, stop) = block_of.task, block_of.users
    with threadpool_limits(limits=1):
        (block,) = read_block(part.source, [part.window], first, stop)
        traces, bounds = block.traces, block.bounds
        users: Ints = np.arange(first, stop)
        if part.members:
            users = _within(part.members, first, stop)
            bounds = bounds_before(part.window[1], block.frames, pick(traces, users - first))
        counts, sums = count_visits(traces, users[None])[0], sum_weights(traces, users[None])
        return Counted(counts, None if sums is None else sums[0], bounds, len(users))


def fold_days(part: PartsOf) -> Reduction[PartsOf, Part[PartsOf], Ints, Ints]:
    """Return the counting of the user-days of a part by their events, over blocks of users."""
    return Reduction(part, part.blocks, count_days, np.add)


def count_days(block_of: Part[PartsOf]) -> Ints:
    """Return how many user-days of a block have 0, 1, 2, … events, int64, shape (events + 1,).

    The last number is that of days with as many events as the first step, a cap, keeps, or more.
    """
    part, (first, stop) = block_of.task, block_of.users
    span, (cap, *_) = part.window
    assert isinstance(cap, CapContributions)  # a plan is checked
    (block,) = read_block(replace(part.source, null_roi=False), [(span, ())], first, stop)
    users = _within(part.members, first, stop) if part.members else np.arange(first, stop)
    n_events = count_by_day(pick(block.traces, users - first), block.frames[0].days)
    return np.bincount(np.minimum(n_events, cap.per_day), minlength=cap.per_day + 1)


def write_members(uri: str, rows: Ints) -> None:
    """Write the rows of the users who are counted, int64, shape (user,), for the workers."""
    with staged(uri, force=True) as staging:
        group = storage.create_group(staging)
        group.create_array(_MEMBERS, shape=rows.shape, dtype=np.int64)[:] = rows
        manifest.seal(staging)


@lru_cache(maxsize=1)
def _members(uri: str) -> Ints:
    manifest.check(uri)
    return np.asarray(storage.open_group(uri)[_MEMBERS][:], np.int64)


def _within(uri: str, first: int, stop: int) -> Ints:
    rows = _members(uri)
    return rows[np.searchsorted(rows, first) : np.searchsorted(rows, stop)]


def counts_in(uri: str) -> Records[tuple[Range, Counted]]:
    """Return the counts of finished parts that are kept in a folder, with their users."""
    return Records(uri, _encode, _decode)


def _encode(part: tuple[Range, Counted]) -> Parts:
    users, counted = part
    arrays: dict[str, Any] = {"counts": counted.counts}
    if counted.sums is not None:
        arrays["sums"] = counted.sums
    bounds = asdict(counted.bounds)
    return {"users": users, "n_users": counted.n_users, "bounds": bounds}, arrays


def _decode(plain: Any, arrays: Mapping[str, Any]) -> tuple[Range, Counted]:
    (first, stop), bounds = plain["users"], Bounds(**plain["bounds"])
    sums = arrays.get("sums")
    return (first, stop), Counted(arrays["counts"], sums, bounds, plain["n_users"])
