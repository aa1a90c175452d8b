"""What each user changes in a release, and whom the user may be replaced by."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.certify.basis import Substitutes, Visits
from clusterscale.contracts import CellCoordinates, Ints, Mechanism, Traces, TraceStep
from clusterscale.cube.transforms import with_null_roi
from clusterscale.errors import InputError
from clusterscale.jit import kernel
from clusterscale.mechanisms.coarsening import CoarsenSpace, CoarsenTime
from clusterscale.mechanisms.sampling import CapContributions, SampleTraces

_BITS = 21  # of each number in a key
_GROUPS = 32  # of substitutes whose visits are rounded up to the same numbers
_NO_LIMITS = Visits(0)


def draws(steps: Sequence[TraceStep]) -> bool:
    """Return whether trace steps may draw random numbers."""
    return not all(isinstance(step, CoarsenSpace | CoarsenTime) for step in steps)


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
    return _with_null_roi(own, n_idle), _with_null_roi(own, traces.n_epochs - n_idle)


def visits_of_any_draw(
    traces: Traces, frame: CellCoordinates, steps: Sequence[TraceStep], *, null_roi: bool
) -> tuple[Ints, Ints]:
    """Return the same for trace steps that draw, never less than for any draw.

    Events that a step may drop are counted, but at most as many as a cap keeps. A step of others
    that draws can leave anything.

    Parameters
    ----------
    traces, frame
        Traces before the steps, without a null ROI, and the coordinates of their cells.
    steps
        The trace steps.
    null_roi
        Whether idle epochs are counted afterwards.
    """
    most, is_any = np.full(traces.n_held, np.iinfo(np.int64).max), False
    for step in steps:
        rng = np.random.default_rng(0)
        before = rng.bit_generator.state
        after, coordinates = step.apply(traces, frame, rng=rng)
        if isinstance(step, CapContributions | SampleTraces):
            if isinstance(step, CapContributions):
                most = np.minimum(most, np.diff(after.offsets))  # the same number in any draw
        else:
            is_any |= rng.bit_generator.state != before
            traces, frame = after, coordinates
    own, _ = visits_of(traces)
    n_active = traces.n_epochs - with_null_roi(traces).idle_epochs.sum(axis=1, dtype=np.int64)
    if is_any:
        cells = min(traces.n_rois * traces.n_epochs, (1 << _BITS) - 1 - traces.n_epochs)
        own[:], n_active[:] = (cells, traces.n_rois, traces.n_epochs), traces.n_epochs
    else:
        own = np.minimum(own, most[:, None])
    if not null_roi:
        return own, own
    n_epochs = np.full(len(own), traces.n_epochs, np.int64)
    return _with_null_roi(own, n_epochs), _with_null_roi(own, np.minimum(n_active, own[:, 0]))


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


def unpack(key: int, limits: Visits = _NO_LIMITS) -> Visits:
    """Return the visits of a key of :func:`pack`, and of ``limits`` what is not in it."""
    mask = (1 << _BITS) - 1
    cells, rois, series = key >> (2 * _BITS), key >> _BITS & mask, key & mask
    if rois or not cells:
        return replace(limits, cells=cells, rois=rois, series=series)
    return replace(limits, cells=cells)


def cells_of(keys: Ints) -> Ints:
    """Return the cells of the visits of keys, int64, of the same shape."""
    return np.asarray(keys >> (2 * _BITS))


def substitutes_of(
    histogram: Mapping[int, int], n: int, limits: Visits = _NO_LIMITS
) -> dict[int, Substitutes]:
    """Return the visits of a user drawn in the place of another, rounded up to a few numbers.

    Parameters
    ----------
    histogram
        Number of users by key, as :func:`pack` makes them.
    n
        Number of users to draw from. If these are not all others, they are those with most visits.
    limits
        What is not in keys.

    Returns
    -------
    dict
        By the key of the user who is replaced, and who cannot be drawn; empty if it is not known
        who can.
    """
    left = Counter(histogram)
    if left.total() > _GROUPS:  # then without the one who has least, whoever is replaced
        return dict.fromkeys(histogram, _most_of(left - Counter([min(left)]), n, limits))
    return {key: _most_of(left - Counter([key]), n, limits) for key in histogram}


def _most_of(histogram: Counter[int], n: int, limits: Visits) -> Substitutes:
    """Return the visits of one of the ``n`` users with most.

    Cells, ROIs and series are ranked separately, because a bound depends on one of them.
    """
    n_groups = min(n, _GROUPS)
    if not n_groups:
        return ()
    ends = np.arange(1, n_groups + 1) * n // n_groups
    keys, n_each = np.array(list(histogram)), np.array(list(histogram.values()))
    ranked = np.zeros(n_groups, np.int64)
    for shift in (0, _BITS, 2 * _BITS):
        column = keys >> shift & ((1 << _BITS) - 1)
        order = np.argsort(column)
        ranks = np.searchsorted(np.cumsum(n_each[order]), n_each.sum() - n + ends - 1, "right")
        ranked |= column[order][ranks] << shift
    shares = np.diff(ends, prepend=0) / n
    return tuple(
        (unpack(key, limits), share)
        for key, share in zip(ranked.tolist(), shares.tolist(), strict=True)
    )


def widest(visits: Sequence[Visits]) -> Visits:
    """Return visits that are nowhere fewer than any of these."""
    cells = max((one.cells for one in visits), default=0)
    limits = visits[0] if visits else _NO_LIMITS
    if any(one.rois is None or one.series is None for one in visits):
        return replace(limits, cells=cells, rois=None, series=None)
    rois = max((one.rois or 0 for one in visits), default=0)
    series = max((one.series or 0 for one in visits), default=0)
    return replace(limits, cells=cells, rois=rois, series=series)
