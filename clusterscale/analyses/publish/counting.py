"""Count the users of a release over blocks of users, and keep the counts of each part.

Exact counts are kept in the folder of the run while it is not finished, so that a resumed run does
not count again.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from clusterscale import storage
from clusterscale.analyses.publish.source import OperatingSystemSource
from clusterscale.contracts import Bounds, Counts, Ints, Values
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Range, Window, block_size, ranges, read_block
from clusterscale.cube.bounds import bounds_before, merge_bounds
from clusterscale.cube.transforms import pick
from clusterscale.groups import count_visits
from clusterscale.groups.count import sum_weights
from clusterscale.storage import manifest
from clusterscale.storage.atomic import staged
from clusterscale.study import JournalFolder
from clusterscale.study.execution import Reduction

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


@dataclass(frozen=True, slots=True)
class CountPart:
    """One block of users of a part."""

    part: PartsOf
    users: Range


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
        Largest change of the counts by one unit of data of these users; None if there are none.
    n_users
        Number of users who were counted.
    """

    counts: Counts
    sums: Values | None
    bounds: Bounds | None
    n_users: int

    def plus(self, other: Counted) -> Counted:
        """Add the counts of other users."""
        sums = self.sums
        if sums is not None and other.sums is not None:
            sums = sums + other.sums
        bounds = self.bounds or other.bounds
        if self.bounds is not None and other.bounds is not None:
            bounds = merge_bounds(self.bounds, other.bounds)
        counts = self.counts + other.counts
        return Counted(counts, sums, bounds, self.n_users + other.n_users)


def divide(
    source: OperatingSystemSource, cube: TraceCube, window: Window, members: str
) -> list[PartsOf]:
    """Return the parts of a cube whose counts are kept; they depend only on the cube."""
    block = block_size(cube)
    return [
        PartsOf(source, window, users, block, members)
        for users in ranges(0, cube.n_users, _BLOCKS * block)
    ]


def fold_part(part: PartsOf) -> Reduction[PartsOf, CountPart, Counted, Counted]:
    """Return the counting of a part as a reduction over blocks of users."""
    blocks = tuple(CountPart(part, users) for users in ranges(*part.users, part.block))
    return Reduction(part, blocks, count_parts, Counted.plus, _total)


def _total(part: PartsOf, total: Counted) -> Counted:
    return total


def count_parts(task: CountPart) -> Counted:
    """Count the users of a block, after the trace steps.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read, or is not the planned one.
    """
    part, (first, stop) = task.part, task.users
    with threadpool_limits(limits=1):
        (block,) = read_block(part.source, [part.window], first, stop)
        traces, bounds = block.traces, block.bounds
        users: Ints = np.arange(first, stop)
        if part.members:
            users = _within(part.members, first, stop)
            chosen = pick(traces, users - first)
            bounds = bounds_before(part.window[1], block.frames, chosen)
        counts, sums = count_visits(traces, users[None])[0], sum_weights(traces, users[None])
        return Counted(
            counts,
            None if sums is None else sums[0],
            bounds if len(users) else None,
            len(users),
        )


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


class CountJournal(JournalFolder):
    """Counts of finished parts, a file each."""

    ending: ClassVar[str] = "npz"

    def keep(self, part: PartsOf, counted: Counted) -> None:
        """Keep the counts of a part; when this returns, they are durable."""
        bounds = [] if counted.bounds is None else [*asdict(counted.bounds).values()]
        arrays = {
            "users": np.array([*part.users, counted.n_users]),
            "counts": counted.counts,
            "bounds": np.array(bounds, np.int64),
        }
        if counted.sums is not None:
            arrays["sums"] = counted.sums
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        self.put(buffer.getvalue())

    def read(self) -> Iterator[tuple[Range, Counted]]:
        """Yield the users and the counts of each part that is kept.

        Raises
        ------
        DamagedError
            If a file is not what was written.
        """
        for path in self.paths():
            yield self.decode(path, _from_bytes)


def _from_bytes(raw: bytes) -> tuple[Range, Counted]:
    with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
        first, stop, n_users = arrays["users"].tolist()
        bounds = None
        if len(arrays["bounds"]):
            event, user_day, user, series, rois, null_roi = arrays["bounds"].tolist()
            bounds = Bounds(event, user_day, user, series, rois, bool(null_roi))
        return (first, stop), Counted(arrays["counts"], arrays.get("sums"), bounds, n_users)
