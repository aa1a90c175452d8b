"""Measure how much one event, one day or one user can change the counts of a period."""

from collections.abc import Sequence

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
    check_days(days, days if until is None else until, traces.n_epochs)
    first = np.asarray(days - days[0], np.int64)
    last = first if until is None else np.asarray(until - days[0], np.int64)
    maxima = _measure(
        traces.offsets, traces.cells, traces.n_epochs, first, last, traces.idle_epochs
    )
    most_day, most_user, most_series, most_rois = (max(1, int(value)) for value in maxima)
    return Bounds(
        event=2 if traces.null_roi else 1,
        user_day=most_day,
        user=most_user,
        series=most_series,
        rois=most_rois,
        null_roi=traces.null_roi,
    )


def bounds_before(
    steps: Sequence[TraceStep], frames: Sequence[CellCoordinates], traces: Traces
) -> Bounds:
    """Return the largest change to the counts by one unit of data before some trace steps.

    Steps whose stability is not known are taken to change nothing else. ``frames`` are the
    coordinates of the cells before each step, and of those after the last, to which ``traces``
    belong.
    """
    bounds = measure_bounds(traces, frames[-1].days, frames[-1].until)
    stability = stability_of(steps, frames)
    return bounds if stability is None else stability.limit(bounds)


def merge_bounds(one: Bounds, other: Bounds) -> Bounds:
    """Return the bounds for the users of both."""
    return Bounds(
        event=max(one.event, other.event),
        user_day=max(one.user_day, other.user_day),
        user=max(one.user, other.user),
        series=max(one.series, other.series),
        rois=max(one.rois, other.rois),
        null_roi=one.null_roi,
    )


@kernel
def _measure(
    offsets: Ints,
    cells: Ints,
    n_epochs: int,
    days: Ints,
    until: Ints,
    nowhere: NDArray[np.bool_],
) -> tuple[int, int, int, int]:
    most_day, most_user, most_series, most_rois = 0, 0, 0, 0
    has_null = nowhere.shape[1] > 0
    by_day = np.empty(until.max() + 1, np.int64)
    for user in range(len(offsets) - 1):
        by_day[:] = 0
        n_rois, in_roi, last = 0, 0, -1
        for i in range(offsets[user], offsets[user + 1]):
            roi, epoch = divmod(cells[i], n_epochs)
            by_day[days[epoch] : until[epoch] + 1] += 1
            if roi != last:
                n_rois, in_roi, last = n_rois + 1, 0, roi
            in_roi += 1
            most_series = max(most_series, in_roi)
        n_idle = 0
        for epoch in range(nowhere.shape[1]):
            n_idle += nowhere[user, epoch]
            if not nowhere[user, epoch]:  # an hour that could become idle
                by_day[days[epoch] : until[epoch] + 1] += 1
        most_day = max(most_day, by_day.max())
        most_user = max(most_user, offsets[user + 1] - offsets[user] + n_idle)
        most_series = max(most_series, n_idle)
        most_rois = max(most_rois, n_rois + (has_null and n_idle > 0))
    return most_day, most_user, most_series, most_rois
