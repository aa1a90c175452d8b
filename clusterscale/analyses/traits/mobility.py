"""Measure the mobility of all users of a cube block by block: movement, then unicity."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.traits.characteristics import SET_BYTES, Sets, movement
from clusterscale.contracts import Ints
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Source, Span, block_size, open_source, ranges
from clusterscale.cube.transforms import cut
from clusterscale.study import PROCESS_BYTES, require_memory

_USERS = 1 << 14  # users per task
_READ_TIMES = 6  # memory of a block in multiples of its events, while they are decoded and cut
_HASHED = 64  # bytes of an event of a block, while it is hashed


@dataclass(frozen=True, slots=True)
class MeasureTask:
    """Users to measure, and spans of epochs: each a first one and the one after the last."""

    source: Source
    spans: tuple[Span, ...]
    start: int
    stop: int


class MobilityMeasures(NamedTuple):
    """Mobility of some users over one span.

    Attributes
    ----------
    values
        float32, shape (user, 10): see ``movement``.
    roi_events, epoch_events
        int64, shapes (roi,) and (epoch,): number of their events.
    active
        int64, shape (epoch,): number of them with an event.
    """

    values: NDArray[np.float32]
    roi_events: Ints
    epoch_events: Ints
    active: Ints


@dataclass(frozen=True, slots=True)
class UnicityTask:
    """Epochs in which to compare all users."""

    source: Source
    span: Span


def part_size(cube: TraceCube) -> int:
    """Return the number of users per task, which depends only on the cube."""
    return min(_USERS, block_size(cube))


def measure(task: MeasureTask) -> list[MobilityMeasures]:
    """Return the mobility of some users over each span; a pure function."""
    cube = open_source(task.source)
    first, last = min(begin for begin, _ in task.spans), max(end for _, end in task.spans)
    traces = cube.block(task.start, task.stop, (first, last))
    days = cube.calendar.days()
    measures = []
    for begin, end in task.spans:
        own = cut(traces, begin - first, end - first)
        roi, epoch = np.divmod(own.cells, own.n_epochs)
        values = movement(own, days[begin:end]).astype(np.float32)
        by_roi = np.bincount(roi, minlength=own.n_rois)
        by_epoch = np.bincount(epoch, minlength=own.n_epochs)
        present = np.zeros((own.n_held, own.n_epochs), np.bool_)
        present[np.repeat(np.arange(own.n_held), np.diff(own.offsets)), epoch] = True
        measures.append(MobilityMeasures(values, by_roi, by_epoch, present.sum(axis=0)))
    return measures


def count_unique(task: UnicityTask) -> NDArray[np.int32]:
    """Return in how many epochs each user's set of ROIs is unique, int32, shape (user,); pure.

    All users are read block by block; only hashes are kept.
    """
    cube = open_source(task.source)
    sets = Sets(cube.n_users)
    for start, stop in ranges(0, cube.n_users, part_size(cube)):
        sets.add(cube.block(start, stop, task.span), start)
    return sets.counts()


def slices(
    cube: TraceCube, active: Ints, span: Span, *, memory: int, n_workers: int
) -> Iterator[Span]:
    """Yield spans of epochs whose sets of ROIs are counted together.

    Parameters
    ----------
    cube
        Cube of the users.
    active
        int64, shape (epoch,): users with an event in each epoch of the span.
    span
        Span of all epochs.
    memory
        Bytes that a worker may use: less memory needs more slices, each a pass over all users.
    n_workers
        Number of workers; each gets a slice if there are enough epochs.

    Raises
    ------
    ConfigError
        If the sets of a single epoch do not fit into memory.
    """
    room = memory - _overhead(cube)
    target = -(-int(active.sum()) // n_workers)
    first, total = 0, 0
    for epoch, number in enumerate(active.tolist()):
        if number * SET_BYTES > room:
            needed = int(active.max()) * SET_BYTES + _overhead(cube)
            require_memory(memory, needed, f"to compare {number:,} users in an epoch")
        full = total + number > target or (total + number) * SET_BYTES > room
        if full and epoch > first:
            yield span[0] + first, span[0] + epoch
            first, total = epoch, 0
        total += number
    yield span[0] + first, span[1]


def _overhead(cube: TraceCube) -> int:
    """Return the bytes that a worker needs in addition to the sets."""
    events = min(cube.n_events, -(-cube.n_events // cube.n_users) * part_size(cube))
    of_event = _READ_TIMES * cube.cell_bytes + _HASHED
    return int(PROCESS_BYTES + of_event * events + 12 * cube.n_users)
