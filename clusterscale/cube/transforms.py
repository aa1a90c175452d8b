"""Traces into other traces: cut to a period, to some users, give the null ROI."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints, Traces
from clusterscale.errors import InputError
from clusterscale.kernel import kernel

__all__ = ["cut", "pick", "with_null_roi"]


def cut(traces: Traces, first: int, stop: int) -> Traces:
    """Return only the events of the epochs ``first`` up to ``stop``, which become 0, 1, ….

    Raises
    ------
    InputError
        If the range is empty or reaches beyond the epochs of ``traces``.
    """
    if not 0 <= first < stop <= traces.n_epochs:
        raise InputError(f"epochs {first} to {stop} are not within 0 to {traces.n_epochs}")
    if (first, stop) == (0, traces.n_epochs):
        return traces
    offsets = np.empty_like(traces.offsets)
    cells = np.empty_like(traces.cells)
    size = _cut(traces.offsets, traces.cells, traces.n_epochs, first, stop, offsets, cells)
    return Traces(offsets, cells[:size].copy(), traces.n_rois, stop - first)


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
    """Return the traces of ``users`` (indices, any order, shape (user,)) in that order.

    Raises
    ------
    InputError
        If a user is not in ``traces``.
    """
    if len(users) and not 0 <= users.min() <= users.max() < traces.n_users:
        wrong = users[(users < 0) | (users >= traces.n_users)][0]
        raise InputError(f"user {wrong} is not among {traces.n_users} users")
    sizes = (traces.offsets[1:] - traces.offsets[:-1])[users]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    cells = np.empty(offsets[-1], traces.cells.dtype)
    _gather(traces.offsets, traces.cells, users, offsets, cells)
    return Traces(offsets, cells, traces.n_rois, traces.n_epochs)


@kernel
def _gather(offsets: Ints, cells: Ints, users: Ints, new: Ints, kept: Ints) -> None:
    for i in range(len(users)):
        start = offsets[users[i]]
        for j in range(new[i + 1] - new[i]):
            kept[new[i] + j] = cells[start + j]


def with_null_roi(traces: Traces) -> Traces:
    """Return the traces with a virtual last ROI, visited exactly when no other is (NDSS18 §V-A)."""
    active = np.zeros(traces.n_epochs, np.bool_)
    n_null = _count_idle(traces.offsets, traces.cells, traces.n_epochs, active)
    base = traces.n_rois * traces.n_epochs
    fits = base + traces.n_epochs - 1 <= np.iinfo(traces.cells.dtype).max
    cells = np.empty(traces.cells.size + n_null, traces.cells.dtype if fits else np.int64)
    offsets = np.empty_like(traces.offsets)
    _add_idle(traces.offsets, traces.cells, traces.n_epochs, base, active, offsets, cells)
    return Traces(offsets, cells, traces.n_rois + 1, traces.n_epochs)


@kernel
def _count_idle(offsets: Ints, cells: Ints, n_epochs: int, active: NDArray[np.bool_]) -> int:
    idle = 0
    for user in range(len(offsets) - 1):
        active[:] = False
        for i in range(offsets[user], offsets[user + 1]):
            active[cells[i] % n_epochs] = True
        for epoch in range(n_epochs):
            if not active[epoch]:
                idle += 1
    return idle


@kernel
def _add_idle(
    offsets: Ints,
    cells: Ints,
    n_epochs: int,
    base: int,
    active: NDArray[np.bool_],
    new: Ints,
    kept: Ints,
) -> None:
    size = 0
    for user in range(len(offsets) - 1):
        new[user] = size
        active[:] = False
        for i in range(offsets[user], offsets[user + 1]):
            active[cells[i] % n_epochs] = True
            kept[size] = cells[i]
            size += 1
        for epoch in range(n_epochs):
            if not active[epoch]:
                kept[size] = base + epoch
                size += 1
    new[len(offsets) - 1] = size
