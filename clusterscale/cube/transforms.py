"""Transform traces: cut to a period, select users, add the null ROI."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints, Traces
from clusterscale.errors import InputError
from clusterscale.jit import kernel


def find_unsorted(offsets: Ints, cells: Ints) -> int:
    """Return the first user whose cells do not strictly increase, −1 if there is none."""
    falls = np.flatnonzero(cells[1:] <= cells[:-1]) + 1
    users = np.searchsorted(offsets, falls, side="right") - 1
    held = (users >= 0) & (users < len(offsets) - 1)
    users = users[held & (offsets[users] < falls)]  # between users, cells may decrease
    return int(users[0]) if len(users) else -1


def cut(traces: Traces, first: int, stop: int) -> Traces:
    """Return only the events of the epochs ``first`` up to ``stop``, which become 0, 1, ….

    Raises InputError if the range is empty or extends beyond the epochs of ``traces``.
    """
    if not 0 <= first < stop <= traces.n_epochs:
        raise InputError(f"epochs {first} to {stop} are not within 0 to {traces.n_epochs}")
    if (first, stop) == (0, traces.n_epochs):
        return traces
    begin, end = traces.offsets[[0, -1]]
    roi, epoch = np.divmod(traces.cells[begin:end], traces.n_epochs)
    inside = (epoch >= first) & (epoch < stop)
    n_before = np.concatenate([[0], np.cumsum(inside)])
    return replace(
        traces,
        offsets=n_before[traces.offsets - begin],
        cells=roi[inside] * (stop - first) + epoch[inside] - first,
        n_epochs=stop - first,
        idle=None if traces.idle is None else traces.idle[:, first:stop],
    )


def pick(traces: Traces, users: Ints) -> Traces:
    """Return the traces of ``users``, int, shape (user,), in that order: indices among those held.

    Raises InputError if a user is not in ``traces``.
    """
    if len(users) and not 0 <= users.min() <= users.max() < traces.n_held:
        wrong = users[(users < 0) | (users >= traces.n_held)][0]
        raise InputError(f"user {wrong} is not among {traces.n_held} users")
    sizes = (traces.offsets[1:] - traces.offsets[:-1])[users]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    shift = np.repeat(traces.offsets[users] - offsets[:-1], sizes)
    cells = traces.cells[shift + np.arange(offsets[-1])]
    idle = None if traces.idle is None else traces.idle[users]
    weights = None if traces.weights is None else traces.weights[users]
    return replace(
        traces, offsets=offsets, cells=cells, idle=idle, weights=weights, first=0, population=None
    )


def with_null_roi(traces: Traces) -> Traces:
    """Return the traces with a virtual last ROI, visited exactly when no other is (NDSS18 §V-A).

    Raises InputError if they have one already.
    """
    if traces.null_roi:
        raise InputError("these traces already have a null ROI")
    idle = np.ones((traces.n_held, traces.n_epochs), np.bool_)
    _mark_active(traces.offsets, traces.cells, idle)
    return replace(traces, n_rois=traces.n_rois + 1, idle=idle)


@kernel
def _mark_active(offsets: Ints, cells: Ints, idle: NDArray[np.bool_]) -> None:
    for user in range(idle.shape[0]):
        for i in range(offsets[user], offsets[user + 1]):
            idle[user, cells[i] % idle.shape[1]] = False
