"""How all users of a cube move, block by block: first each for themselves, then against others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Traces
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Source, Span, block_size, open_source, ranges
from clusterscale.cube.transforms import cut
from clusterscale.errors import ConfigError
from clusterscale.traits.characteristics import movement
from clusterscale.traits.unicity import SLOT_BYTES, Sets, n_slots

__all__ = ["MeasureTask", "MobilityMeasures", "UnicityTask", "count_unique", "measure", "part_size"]
__all__ += ["slices"]

_USERS = 1 << 14  # of a task
_PROCESS = 350 * 10**6  # the interpreter and its libraries
_READ_TIMES = 6  # a block's events, while they are decoded and cut

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MeasureTask:
    """Which users, and over which epochs: a first one and the one after the last each."""

    source: Source
    spans: tuple[Span, ...]
    start: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class MobilityMeasures:
    """What is known of some users over one span.

    Attributes
    ----------
    values
        float32, shape (user, 10): see :func:`~clusterscale.traits.characteristics.movement`.
    roi_events, epoch_events
        int64, shapes (roi,) and (epoch,): their events.
    active
        int64, shape (epoch,): how many of them have an event.
    """

    values: NDArray[np.float32]
    roi_events: Ints
    epoch_events: Ints
    active: Ints


@dataclass(frozen=True, slots=True)
class UnicityTask:
    """Some epochs, all users; so many sets of ROIs at most, one for each user and active epoch."""

    source: Source
    span: Span
    n_sets: int


def part_size(cube: TraceCube) -> int:
    """Return how many users a task measures, which hangs on the cube alone."""
    return min(_USERS, block_size(cube))


def measure(task: MeasureTask) -> list[MobilityMeasures]:
    """Measure some users over each span; pure.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read or is another one than was planned for.
    """
    cube = open_source(task.source)
    first, last = min(each[0] for each in task.spans), max(each[1] for each in task.spans)
    traces = cube.block(task.start, task.stop, (first, last))
    days = cube.calendar.days()
    found = []
    for begin, end in task.spans:
        own = cut(traces, begin - first, end - first)
        roi, epoch = np.divmod(own.cells, own.n_epochs)
        values = movement(own, days[begin:end]).astype(np.float32)
        by_roi, by_epoch = np.bincount(roi, minlength=own.n_rois), _by_epoch(epoch, own)
        found.append(MobilityMeasures(values, by_roi, by_epoch, _active(epoch, own)))
    return found


def _by_epoch(epoch: NDArray[np.integer], traces: Traces) -> Ints:
    return np.bincount(epoch, minlength=traces.n_epochs)


def _active(epoch: NDArray[np.integer], traces: Traces) -> Ints:
    """Return how many users have an event in each epoch, shape (epoch,)."""
    there = np.zeros((traces.n_held, traces.n_epochs), np.bool_)
    there[np.repeat(np.arange(traces.n_held), np.diff(traces.offsets)), epoch] = True
    active: Ints = there.sum(axis=0)
    return active


def count_unique(task: UnicityTask) -> NDArray[np.int32]:
    """Return in how many epochs each user is where nobody else is, int32, shape (user,); pure.

    All users are read, some at a time; only hashes are kept.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read or is another one than was planned for.
    """
    cube = open_source(task.source)
    sets = Sets(cube.n_users, task.n_sets)
    for start, stop in ranges(0, cube.n_users, part_size(cube)):
        sets.add(cube.block(start, stop, task.span), start)
    return sets.counts()


def slices(
    cube: TraceCube, active: Ints, span: Span, *, memory: int, n_workers: int
) -> Iterator[tuple[Span, int]]:
    """Yield epochs whose sets of ROIs are counted together, and how many sets these are.

    Parameters
    ----------
    cube
        Whose.
    active
        int64, shape (epoch,): users with an event in each epoch of the span.
    span
        All epochs.
    memory
        Bytes that a worker may use: few make many slices, each of which reads all users once.
    n_workers
        How many there are, each with a slice if there are as many epochs.

    Raises
    ------
    ConfigError
        If the sets of a single epoch do not fit.
    """
    room = memory - _beside(cube)
    wished = -(-int(active.sum()) // n_workers)
    first, total = 0, 0
    for epoch, number in enumerate(active.tolist()):
        if n_slots(number) * SLOT_BYTES > room:
            needed = n_slots(int(active.max())) * SLOT_BYTES + _beside(cube)
            raise ConfigError(
                f"memory: {memory:,} bytes a worker are too few to tell which of {number:,} users "
                f"are unique in an epoch; give {needed:,} or more with `memory`"
            )
        full = total + number > wished or n_slots(total + number) * SLOT_BYTES > room
        if full and epoch > first:
            yield (span[0] + first, span[0] + epoch), total
            first, total = epoch, 0
        total += number
    yield (span[0] + first, span[1]), total


def _beside(cube: TraceCube) -> int:
    """Bytes that a worker needs beside the table."""
    size = part_size(cube)
    events = min(cube.n_events, -(-cube.n_events // cube.n_users) * size)
    return int(_PROCESS + _READ_TIMES * cube.cell_bytes * events + 12 * cube.n_users)
