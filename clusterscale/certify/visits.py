"""What each user changes in a release, and whom the user may be replaced by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from clusterscale.certify.basis import Substitutes, Visits
from clusterscale.contracts import Ints, Mechanism, Traces
from clusterscale.errors import InputError
from clusterscale.jit import kernel

__all__ = [
    "cells_of",
    "needs_series",
    "pack",
    "substitutes_of",
    "unpack",
    "visits_of",
    "widest",
]

_BITS = 21  # of each number in a key
_GROUPS = 32  # of substitutes whose visits are rounded up to the same numbers


def visits_of(traces: Traces) -> tuple[Ints, Ints]:
    """Return what changes if a user is added, and if the user is replaced by somebody idle.

    Without a null ROI both are the events. With it, adding a user also adds the idle epochs,
    but somebody else is idle too: only active epochs differ.

    Parameters
    ----------
    traces
        Traces of some users, as they are counted.

    Returns
    -------
    tuple of ndarray
        Two arrays, int64, shape (held user, 3): cells, ROIs, and the most cells in one ROI.
    """
    own = np.empty((traces.n_held, 3), np.int64)
    _count(traces.offsets, traces.cells, traces.n_epochs, own)
    if traces.idle is None:
        return own, own
    n_idle = traces.idle.sum(axis=1, dtype=np.int64)
    return tuple(_with_null_roi(own, n) for n in (n_idle, traces.n_epochs - n_idle))  # type: ignore[return-value]


def _with_null_roi(own: Ints, n: Ints) -> Ints:
    columns = own[:, 0] + n, own[:, 1] + (n > 0), np.maximum(own[:, 2], n)
    return np.stack(columns, axis=1)


@kernel
def _count(offsets: Ints, cells: Ints, n_epochs: int, own: Ints) -> None:
    for user in range(len(offsets) - 1):
        n_rois, in_roi, most, last = 0, 0, 0, -1
        for i in range(offsets[user], offsets[user + 1]):
            roi = cells[i] // n_epochs
            if roi != last:
                n_rois, in_roi, last = n_rois + 1, 0, roi
            in_roi += 1
            most = max(most, in_roi)
        own[user, 0] = offsets[user + 1] - offsets[user]
        own[user, 1] = n_rois
        own[user, 2] = most


def needs_series(mechanism: Mechanism) -> bool:
    """Return whether the ceiling depends on the places of visits, not only on their number."""
    return mechanism.noise_scope == "series" or mechanism.guarantee.unit == "roi_series"


def pack(visits: Ints, *, series: bool) -> NDArray[np.int64]:
    """Return one number for each row of visits, int64, shape (user,).

    Parameters
    ----------
    visits
        int64, shape (user, 3), as :func:`visits_of` returns them.
    series
        Whether ROIs and series matter.

    Raises
    ------
    InputError
        If somebody has more than two million visits.
    """
    if visits.size and int(visits.max()) >> _BITS:
        raise InputError(f"a user changes {int(visits.max()):,} counts, more than can be certified")
    keys = visits[:, 0] << (2 * _BITS)
    return keys | visits[:, 1] << _BITS | visits[:, 2] if series else keys


def unpack(key: int) -> Visits:
    """Return the visits of a key of :func:`pack`; what is not in it is None."""
    mask = (1 << _BITS) - 1
    cells, rois, series = key >> (2 * _BITS), key >> _BITS & mask, key & mask
    return Visits(cells, rois, series) if rois or not cells else Visits(cells)


def cells_of(keys: Ints) -> Ints:
    """Return the cells of the visits of keys, int64, of the same shape."""
    return np.asarray(keys >> (2 * _BITS))


def substitutes_of(histogram: Mapping[int, int]) -> Substitutes:
    """Return the visits of a random user, rounded up to a few numbers.

    Parameters
    ----------
    histogram
        Number of users by key, as :func:`pack` makes them.
    """
    total = sum(histogram.values())
    groups = ((list(map(unpack, keys)), sum(map(histogram.__getitem__, keys)) / total)
              for keys in _in_groups(histogram, total))  # fmt: skip
    return tuple((widest(visits), share) for visits, share in groups)


def widest(visits: Sequence[Visits]) -> Visits:
    """Return visits that are nowhere fewer than any of these."""
    cells = max((one.cells for one in visits), default=0)
    if any(one.rois is None or one.series is None for one in visits):
        return Visits(cells)
    rois = max((one.rois or 0 for one in visits), default=0)
    return Visits(cells, rois, max((one.series or 0 for one in visits), default=0))


def _in_groups(histogram: Mapping[int, int], total: int) -> Iterator[list[int]]:
    """Yield keys in increasing order, some at a time, with about the same number of users."""
    group: list[int] = []
    n_users = n_before = 0
    for key in sorted(histogram):
        group.append(key)
        n_users += histogram[key]
        if (n_users - n_before) * _GROUPS >= total:
            yield group
            group, n_before = [], n_users
    if group:
        yield group
