"""Summary statistics of a cube, as reported in the papers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale import storage
from clusterscale.contracts import Ints, Traces
from clusterscale.cube.blocks import Span, block_size
from clusterscale.cube.describe import raw_bytes
from clusterscale.cube.store import TraceCube
from clusterscale.cube.writer import Fingerprint
from clusterscale.errors import DamagedError
from clusterscale.jit import kernel

_BLOCK = 100_000


@dataclass(frozen=True, slots=True)
class CubeSummary:
    """Sizes of a cube, and per-user statistics as mean and standard deviation (ddof 0).

    ``events`` are visits to a cell; ``unique_rois`` the ROIs ever visited; ``active_epochs`` the
    epochs with a visit (NDSS18 §V-A). ``raw_bytes`` is the uncompressed size of users'
    events, ``stored_bytes`` the size of the store.
    """

    n_users: int
    n_rois: int
    n_epochs: int
    n_events: int
    when: str
    events: tuple[float, float]
    unique_rois: tuple[float, float]
    active_epochs: tuple[float, float]
    raw_bytes: int
    stored_bytes: int

    @property
    def compression(self) -> float:
        """Uncompressed over stored bytes."""
        return self.raw_bytes / self.stored_bytes


def summarise(cube: TraceCube) -> CubeSummary:
    """Summarise a cube, reading all of it block by block, which also detects damage.

    Raises
    ------
    DamagedError
        If a chunk cannot be read (the message names it), or the fingerprint does not match.
    """
    sizes = np.diff(cube.offsets)
    rois, epochs = np.empty_like(sizes), np.empty_like(sizes)
    content = Fingerprint()
    for start, traces in cube.blocks(_BLOCK):
        block = slice(start, start + traces.n_users)
        rois[block], epochs[block] = activity(traces)
        users = [str(user) for user in cube.user_ids(block.start, block.stop)]
        content.update(users, sizes[block], traces.cells)
    if content.result(cube.regions, cube.calendar, cube.weights) != cube.fingerprint:
        raise DamagedError(f"{cube.uri}: the content does not match the stored fingerprint")
    return CubeSummary(
        n_users=cube.n_users,
        n_rois=cube.n_rois,
        n_epochs=cube.n_epochs,
        n_events=cube.n_events,
        when=cube.calendar.describe(),
        events=_mean_sd(sizes),
        unique_rois=_mean_sd(rois),
        active_epochs=_mean_sd(epochs),
        raw_bytes=raw_bytes(cube),
        stored_bytes=storage.size(cube.uri),
    )


@lru_cache(maxsize=4)
def count_events(cube: TraceCube, spans: tuple[Span, ...]) -> NDArray[np.int64]:
    """Return how many events each user has in each span of epochs, and in all spans together.

    The events are read once, a block of users at a time; not at all if every span is the whole
    cube. Recent results are cached.

    Parameters
    ----------
    cube
        The cube.
    spans
        First epoch and the one after the last of each span; spans may overlap.

    Returns
    -------
    NDArray[np.int64]
        Shape (span + 1, user), read-only. The last row counts each event once, even if it is in
        several spans.

    Raises
    ------
    DamagedError
        If a chunk cannot be read; the message names it.
    """
    total = np.empty((len(spans) + 1, cube.n_users), np.int64)
    if set(spans) == {(0, cube.n_epochs)}:
        total[:] = np.diff(cube.offsets)
    else:
        within = np.zeros((len(spans) + 1, cube.n_epochs), np.bool_)
        for row, (first, last) in zip(within, spans, strict=False):
            row[first:last] = True
        within[-1] = within.any(axis=0)
        for start, traces in cube.blocks(block_size(cube)):
            epochs, users = traces.cells % cube.n_epochs, slice(start, start + traces.n_held)
            for i, inside in enumerate(within):
                until = np.concatenate([[0], np.cumsum(inside[epochs])])
                total[i, users] = np.diff(until[traces.offsets])
    total.setflags(write=False)
    return total


def activity(traces: Traces) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each user's number of distinct ROIs and of active epochs, int64, shape (user,)."""
    n_rois = np.empty(traces.n_users, np.int64)
    n_active = np.empty(traces.n_users, np.int64)
    last_seen = np.full(traces.n_epochs, -1, np.int64)
    _activity(traces.offsets, traces.cells, traces.n_epochs, last_seen, n_rois, n_active)
    return n_rois, n_active


@kernel
def _activity(
    offsets: Ints, cells: Ints, n_epochs: int, last_seen: Ints, n_rois: Ints, n_active: Ints
) -> None:
    for user in range(len(offsets) - 1):
        rois = active = 0
        previous = -1
        for i in range(offsets[user], offsets[user + 1]):
            roi, epoch = divmod(cells[i], n_epochs)
            if roi != previous:  # cells are sorted, so a user's visits to a ROI are contiguous
                rois += 1
                previous = roi
            if last_seen[epoch] != user:
                last_seen[epoch] = user
                active += 1
        n_rois[user] = rois
        n_active[user] = active


def _mean_sd(values: NDArray[Any]) -> tuple[float, float]:
    return (float(values.mean()), float(values.std())) if len(values) else (0.0, 0.0)
