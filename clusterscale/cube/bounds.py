"""Measure how much one event, one day or one user can change the counts of a period."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import (
    Bounds,
    CellCoordinates,
    Ints,
    Traces,
    TraceStep,
    check_days,
    stability_of,
)
from clusterscale.jit import kernel


def measure_bounds(
    traces: Traces, days: NDArray[np.int64], until: NDArray[np.int64] | None = None
) -> Bounds:
    """Return the largest change to the counts, in visits, by one unit of data of any user.

    ``days`` and ``until``, shape (epoch,), are the local days in which each epoch begins and
    ends, the same if None; merged hours can belong to two days, and then count towards both.
    All bounds are at least 1. These are the sensitivities of NDSS18 §VII-B and PETS17 §5.2
    ("the maximum number of location reports by a user"), measured. Raises InputError if there
    is not one day for each epoch, or days decrease.
    """
    sizes, _ = find_largest(traces, days, days if until is None else until)
    day, user, series, rois = np.maximum(sizes[1:], 1).tolist()
    return Bounds(2 if traces.null_roi else 1, day, user, series, rois, traces.null_roi)


def find_largest(
    traces: Traces, days: NDArray[np.int64], until: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the largest units of data, and the first held user with each, int64, shape (5,).

    The sizes, in visits that change, are those of an event, a day, a user and a series of a ROI;
    the last is a user's number of ROIs. Parameters and errors are those of :func:`measure_bounds`.
    """
    check_days(days, until, traces.n_epochs)
    first, last = (np.asarray(each - days[0], np.int64) for each in (days, until))
    events = traces.offsets, traces.cells, traces.n_epochs
    return _measure(*events, first, last, traces.idle_epochs)


def bounds_before(
    steps: Sequence[TraceStep], frames: Sequence[CellCoordinates], traces: Traces
) -> Bounds:
    """Return the largest change to the counts by one unit of data before some trace steps.

    Steps whose stability is not known are taken to change nothing else. ``frames`` are the
    coordinates of the cells before each step, and of those after the last, to which ``traces``
    belong.
    """
    bounds = measure_bounds(traces, frames[-1].days, frames[-1].until)
    bounds = replace(bounds, tables=tuple(_by_table(steps, frames, traces)))
    stability = stability_of(steps, frames)
    return bounds if stability is None else stability.limit(bounds)


def _by_table(
    steps: Sequence[TraceStep], frames: Sequence[CellCoordinates], traces: Traces
) -> Iterator[Bounds]:
    """Yield the bounds of each table, if the last step lays out several."""
    first, layout = 0, getattr(steps[-1], "layout", None) if steps else None
    for own_steps, own_frames in () if layout is None else layout(frames[-2]):
        cells = len(own_frames[-1].lat), len(own_frames[-1].days)
        roi, epoch = np.divmod(traces.cells, traces.n_epochs)
        inside = (roi >= first) & (roi < first + cells[0])
        n_before = np.concatenate([[0], np.cumsum(inside)])
        flat = (roi[inside] - first) * cells[1] + epoch[inside]
        own = Traces(n_before[traces.offsets], flat, *cells)
        yield replace(bounds_before(own_steps, own_frames, own), cells=cells)
        first += cells[0]


def merge_bounds(one: Bounds, other: Bounds, pick: Callable[[int, int], int] = max) -> Bounds:
    """Return the bounds for the users of both, or with ``min`` the smaller of each."""
    names = ("event", "user_day", "user", "series", "rois")
    picked: Any = {name: pick(getattr(one, name), getattr(other, name)) for name in names}
    tables = (merge_bounds(*pair, pick) for pair in zip(one.tables, other.tables, strict=True))
    return replace(one, **picked, tables=tuple(tables))


@kernel
def _measure(
    offsets: Ints,
    cells: Ints,
    n_epochs: int,
    days: Ints,
    until: Ints,
    nowhere: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    most, who, size = np.zeros(5, np.int64), np.zeros(5, np.int64), np.zeros(5, np.int64)
    has_null = nowhere.shape[1] > 0
    by_day, in_epoch = np.empty(until.max() + 1, np.int64), np.zeros(n_epochs, np.int64)
    for user in range(len(offsets) - 1):
        by_day[:], size[:] = 0, 0
        n_rois, in_roi, last = 0, 0, -1
        for i in range(offsets[user], offsets[user + 1]):
            roi, epoch = divmod(cells[i], n_epochs)
            by_day[days[epoch] : until[epoch] + 1] += 1
            in_epoch[epoch] += 1
            if roi != last:
                n_rois, in_roi, last = n_rois + 1, 0, roi
            in_roi += 1
            size[3] = max(size[3], in_roi)
        for i in range(offsets[user], offsets[user + 1]):
            epoch = cells[i] % n_epochs
            if in_epoch[epoch] > 0:  # alone in its epoch, which would become idle: two visits
                size[0] = max(size[0], 2 if has_null and in_epoch[epoch] == 1 else 1)
            in_epoch[epoch] = 0
        n_idle = 0
        for epoch in range(nowhere.shape[1]):
            n_idle += nowhere[user, epoch]
            if not nowhere[user, epoch]:  # an hour that could become idle
                by_day[days[epoch] : until[epoch] + 1] += 1
        size[1], size[2] = by_day.max(), offsets[user + 1] - offsets[user] + n_idle
        size[3] = max(size[3], n_idle)
        size[4] = n_rois + (has_null and n_idle > 0)
        for kind in range(5):
            if size[kind] > most[kind]:
                most[kind], who[kind] = size[kind], user
    return most, who
