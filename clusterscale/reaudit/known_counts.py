"""Known true counts of a release, counted over parts of the users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
from threadpoolctl import threadpool_limits

from clusterscale.contracts import Bounds, Counts, Ints, TraceStep
from clusterscale.cube.blocks import Range
from clusterscale.cube.bounds import merge_bounds
from clusterscale.cube.trace_settings import TraceSource, load_settings
from clusterscale.groups import count_visits
from clusterscale.storage import open_group
from clusterscale.study.execution import Executor

__all__ = ["INSIDE", "KnownCounts", "count_known"]

INSIDE = "inside"
"""Name of the Zarr array with the rows of known members, int64, (user,)."""


@dataclass(frozen=True, slots=True)
class KnownTask:
    """The users to count: URIs and a few numbers."""

    source: TraceSource
    steps: tuple[TraceStep, ...]
    users: Range
    uri: str


@dataclass(frozen=True, slots=True, eq=False)
class KnownCounts:
    """Counts of some users for a release.

    Attributes
    ----------
    inside
        Visits of known members, int32, shape (roi, epoch).
    everyone
        Visits of all users, int64, the same shape.
    bounds
        Largest change of the counts by one unit of data of these users.
    """

    inside: Counts
    everyone: Ints
    bounds: Bounds

    def counts(self, *, complete: bool) -> Counts:
        """Return the true counts, −1 where they are not known, int32, shape (roi, epoch).

        If all members are known (``complete``), so are all counts. Otherwise a count is only known,
        to be 0, where no user of the cube has a visit.
        """
        if complete:
            return self.inside
        return np.where(self.everyone == 0, np.int32(0), np.int32(-1))


def count_known(
    source: TraceSource,
    steps: tuple[TraceStep, ...],
    users: Sequence[Range],
    uri: str,
    executor: Executor,
) -> KnownCounts:
    """Count known members and all users, over parts of the users.

    Parameters
    ----------
    source, steps
        The traces, and the trace steps before they are counted.
    users
        First user of each part and the one after its last.
    uri
        Zarr group with the rows of known members.
    executor
        Runs the tasks.
    """
    tasks = [KnownTask(source, steps, part, uri) for part in users]
    return executor.reduce(_count, tasks, _add)


def _count(task: KnownTask) -> KnownCounts:
    with threadpool_limits(limits=1):
        setting = load_settings(task.source, [task.steps], task.users)[task.steps]
        first, stop = task.users
        everyone = count_visits(setting.traces, np.arange(first, stop)[None])[0]
        inside = count_visits(setting.traces, _inside(task.uri)[None])[0]
        return KnownCounts(inside, everyone.astype(np.int64), setting.bounds)


def _add(one: KnownCounts, other: KnownCounts) -> KnownCounts:
    bounds = merge_bounds(one.bounds, other.bounds)
    return KnownCounts(one.inside + other.inside, one.everyone + other.everyone, bounds)


@lru_cache(maxsize=2)
def _inside(uri: str) -> Ints:
    return cast(Ints, np.asarray(open_group(uri)[INSIDE][:], np.int64))
