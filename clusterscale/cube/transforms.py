"""Transform traces: cut to a period, select users, add the null ROI."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints, Traces
from clusterscale.errors import InputError
from clusterscale.jit import kernel


def find_unsorted(traces: Traces) -> int:
    """Return the first held user whose cells do not strictly increase, −1 if there is none."""
    return int(_find_unsorted(traces.offsets, traces.cells))


@kernel
def _find_unsorted(offsets: Ints, cells: Ints) -> int:
    n_falls = 0
    for i in range(offsets[0] + 1, offsets[-1]):  # one pass without branches
        n_falls += cells[i] <= cells[i - 1]
    for user in range(1, len(offsets) - 1):  # between users, cells may decrease
        first = offsets[user]
        if max(offsets[0], offsets[user - 1]) < first < offsets[-1]:
            n_falls -= cells[first] <= cells[first - 1]
    if n_falls > 0:
        for user in range(len(offsets) - 1):
            for i in range(offsets[user] + 1, offsets[user + 1]):
                if cells[i] <= cells[i - 1]:
                    return user
    return -1


def cut(traces: Traces, first: int, stop: int) -> Traces:
    """Return only the events of the epochs ``first`` up to ``stop``, which become 0, 1, ….

    Raises InputError if the range is empty or extends beyond the epochs of ``traces``.
    """
    if not 0 <= first < stop <= traces.n_epochs:
        raise InputError(f"epochs {first} to {stop} are not within 0 to {traces.n_epochs}")
    if (first, stop) == (0, traces.n_epochs):
        return traces
    offsets = np.empty_like(traces.offsets)
    cells = np.empty_like(traces.cells)
    size = _cut(traces.offsets, traces.cells, traces.n_epochs, first, stop, offsets, cells)
    return replace(
        traces,
        offsets=offsets,
        cells=cells[:size].copy(),
        n_epochs=stop - first,
        idle=None if traces.idle is None else traces.idle[:, first:stop],
    )


@kernel
def _cut(
    offsets: Ints, cells: Ints, n_epochs: int, first: int, stop: int, new: Ints, kept: Ints
) -> int:
    size = 0
    width = stop - first
    for user in range(len(offsets) - 1):
        new[user] = size
        for i in range(offsets[user], offsets[user + 1]):
            roi, epoch = divmod(cells[i], n_epochs)
            if first <= epoch < stop:
                kept[size] = roi * width + epoch - first
                size += 1
    new[len(offsets) - 1] = size
    return size


def pick(traces: Traces, users: Ints) -> Traces:
    """Return the traces of ``users``, int, shape (user,), in that order: indices among those held.

    Raises InputError if a user is not in ``traces``.
    """
    if len(users) and not 0 <= users.min() <= users.max() < traces.n_held:
        wrong = users[(users < 0) | (users >= traces.n_held)][0]
        raise InputError(f"user {wrong} is not among {traces.n_held} users")
    sizes = (traces.offsets[1:] - traces.offsets[:-1])[users]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    cells = np.empty(offsets[-1], traces.cells.dtype)
    _gather(traces.offsets, traces.cells, users, offsets, cells)
    idle = None if traces.idle is None else traces.idle[users]
    weights = None if traces.weights is None else traces.weights[users]
    return replace(
        traces, offsets=offsets, cells=cells, idle=idle, weights=weights, first=0, population=None
    )


@kernel
def _gather(offsets: Ints, cells: Ints, users: Ints, new: Ints, kept: Ints) -> None:
    for i in range(len(users)):
        start = offsets[users[i]]
        for j in range(new[i + 1] - new[i]):
            kept[new[i] + j] = cells[start + j]


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
