"""Reports of a simulated user in chronological order, and their conversion to sorted cells.

A diary is one int32 array of shape (report + 1, 2): row 0 holds the number of reports, each further
row a place and an epoch. It is one array rather than a tuple of arrays because passing arrays
between kernels is costly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.jit import kernel

__all__ = ["Cells", "Diary", "Ints", "blank_diary", "collect", "note", "start_over"]

Cells = NDArray[np.int32]
Diary = NDArray[np.int32]
Ints = NDArray[np.integer[Any]]

PLACE, EPOCH = 0, 1


def blank_diary(n_reports: int) -> Diary:
    """Return a diary with room for ``n_reports``; further reports are dropped."""
    return np.zeros((n_reports + 1, 2), np.int32)


@kernel
def start_over(diary: Diary) -> None:
    """Delete all reports."""
    diary[0, 0] = 0


@kernel
def note(diary: Diary, place: int, epoch: int) -> None:
    """Report one of the user's places in ``epoch``, not earlier than the last report."""
    n = diary[0, 0] + 1
    if n < len(diary):
        diary[n, PLACE] = place
        diary[n, EPOCH] = epoch
        diary[0, 0] = n


@kernel
def collect(diary: Diary, rois: Ints, n_epochs: int, cells: Cells, start: int) -> int:
    """Write the reports from ``cells[start]`` on as increasing cells; return the end index.

    ``rois`` are the ROIs of the user's places, all different. A place that is reported more than
    once in an epoch counts once; reports after the last epoch are ignored. Reports are in
    chronological order, so one counting sort by place suffices.
    """
    n = diary[0, 0]
    while n > 0 and diary[n, EPOCH] >= n_epochs:
        n -= 1
    ends = np.zeros(len(rois), np.int64)  # first the cells per place, then their end index
    latest = np.full(len(rois), -1, np.int32)
    for i in range(1, n + 1):
        place, epoch = diary[i, PLACE], diary[i, EPOCH]
        if latest[place] == epoch:
            diary[i, PLACE] = -1
        else:
            latest[place] = epoch
            ends[place] += 1
    end = start
    for place in np.argsort(rois):
        size = ends[place]
        ends[place] = end
        end += size
    for i in range(1, n + 1):
        place, epoch = diary[i, PLACE], diary[i, EPOCH]
        if place >= 0:
            cells[ends[place]] = rois[place] * n_epochs + epoch
            ends[place] += 1
    return end
