"""Count the visits of groups to cells, and sum the weights of the visitors."""

from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Counts, Ints, Labels, Traces, Values, Weights
from clusterscale.errors import InputError
from clusterscale.jit import kernel

NOT_HELD = -1
"""Index that stands for a user whose traces are not held."""

_Events = tuple[int, Ints, Ints, Labels]  # first user, offsets, cells, idle epochs

_Units = NDArray[np.int32] | Weights  # what each user adds: one value for all, or one for each
_Cells = Counts | Values


_ONE = np.ones(1, np.int32)


def count_visits(traces: Traces, members: Ints, *, pool: Ints | None = None) -> Counts:
    """Return how many members were in each cell, int32, shape (group, roi, epoch).

    ``members``, shape (group, member), are distinct within a group; those who are not held
    contribute nothing. ``pool``, shape (user,), are the users that groups were drawn from:
    groups of more than half of them are counted as the pool minus the others, which reads fewer
    events. Raises InputError if ``members`` has another shape, or contains an unknown user.
    """
    if members.ndim != 2:
        raise InputError(f"members have shape {members.shape}, not (group, member)")
    counts = np.empty((len(members), traces.n_rois, traces.n_epochs), np.int32)
    Counter(traces, members.shape[1], pool).count(members, counts)
    return counts


def sum_weights(traces: Traces, members: Ints) -> Values | None:
    """Return the sum of the members' weights in each cell, float64, shape (group, roi, epoch).

    None if users have no weights. ``members``, shape (group, member), are distinct within a
    group; those who are not held contribute nothing. Raises InputError if ``members`` has
    another shape, or contains an unknown user.
    """
    if traces.weights is None:
        return None
    sums = np.empty((len(members), traces.n_rois, traces.n_epochs))
    Counter(traces, members.shape[1]).sum(members, sums)
    return sums


class Counter:
    """Counts groups of one size, a few at a time; parameters are those of :func:`count_visits`.

    Sums of weights are exact if the weights are those of a cube, which are rounded to that end.
    """

    def __init__(self, traces: Traces, size: int, pool: Ints | None = None) -> None:
        self._traces, self._events, self._pool = traces, _events(traces), None
        if pool is not None:
            _check_users(traces, pool, 1)
        if pool is None or 2 * size <= len(pool):
            return
        self._pool = pool[(pool >= traces.first) & (pool < traces.first + traces.n_held)]
        self._everyone = np.zeros((1, traces.n_cells), np.int32)
        _count(self._events, _ONE, self._pool[None, :], self._everyone)
        self._total = None
        if traces.weights is not None:
            self._total = np.zeros((1, traces.n_cells))
            _count(self._events, traces.weights, self._pool[None, :], self._total)
        self._inside = np.zeros(traces.n_held, np.bool_)

    def count(self, members: Ints, counts: Counts) -> None:
        """Write the counts of some groups, shape (group, roi, epoch).

        Raises InputError if ``members`` contains an unknown user.
        """
        self._add_up(members, counts, _ONE, None if self._pool is None else self._everyone)

    def sum(self, members: Ints, sums: Values) -> None:
        """Write the sums of weights of some groups, float64, shape (group, roi, epoch).

        Raises InputError if users have no weights, or ``members`` contains an unknown user.
        """
        weights = self._traces.weights
        if weights is None:
            raise InputError("these traces have no weights of users")
        self._add_up(members, sums, weights, None if self._pool is None else self._total)

    def _add_up(
        self, members: Ints, counts: _Cells, units: _Units, everyone: _Cells | None
    ) -> None:
        _check_users(self._traces, members, 2)
        flat = counts.reshape(len(members), self._traces.n_cells)
        if self._pool is None or everyone is None:
            _count(self._events, units, members, flat)
        else:
            work = self._pool, self._inside
            _count_by_complement(self._events, -units, members, *work, everyone[0], flat)


def _check_users(traces: Traces, users: Ints, n_dims: int) -> None:
    if users.ndim != n_dims or users.dtype.kind not in "iu":
        raise InputError(f"users are {users.dtype} of shape {users.shape}, not integers")
    if users.size and not (users.min() >= NOT_HELD and users.max() < traces.n_users):
        raise InputError(
            f"users from {users.min()} to {users.max()} are not among {traces.n_users} users"
        )


def _events(traces: Traces) -> _Events:
    """Return the arguments of the kernels; unsigned cells avoid a check for negative indices."""
    cells: Ints = traces.cells.view(np.uint32 if traces.cells.dtype == np.int32 else np.uint64)
    return traces.first, traces.offsets, cells, traces.idle_epochs


@kernel
def _count(events: _Events, units: _Units, members: Ints, counts: _Cells) -> None:
    for group in range(members.shape[0]):
        counts[group] = 0  # here, so that the row is in the cache
        _add(events, units, members[group], counts[group])


@kernel
def _count_by_complement(
    events: _Events,
    units: _Units,
    members: Ints,
    pool: Ints,
    inside: Labels,
    everyone: _Cells,
    counts: _Cells,
) -> None:
    """Count each group as ``pool``, all held, minus those who are not in the group.

    ``units`` are negative.
    """
    first = events[0]
    for group in range(members.shape[0]):
        counts[group] = everyone
        inside[:] = False
        for user in members[group]:
            if first <= user < first + len(inside):
                inside[user - first] = True
        _add(events, units, pool[~inside[pool - first]], counts[group])


@kernel
def _add(events: _Events, units: _Units, users: Ints, row: _Cells) -> None:
    """Add the events and the idle epochs of those users who are held to ``row``."""
    first, offsets, cells, idle = events
    null_counts = np.zeros(idle.shape[1], row.dtype)
    for user in users:
        at = user - first
        if 0 <= at < len(offsets) - 1:
            unit, idle_epochs = units[min(at, len(units) - 1)], idle[at]
            for cell in cells[offsets[at] : offsets[at + 1]]:
                row[cell] += unit
            for epoch in range(len(null_counts)):  # a plain loop, which is vectorised
                null_counts[epoch] += unit * np.int32(idle_epochs[epoch])
    row[len(row) - len(null_counts) :] += null_counts


def replace_member(
    counts: Counts, traces: Traces, old: int, new: Ints, sums: Values | None = None
) -> None:
    """Replace user ``old`` by ``new``, shape (group,), in counts and sums of weights, in place.

    ``counts``, shape (group, roi, epoch), are of groups that contain ``old``, ``sums`` the
    weights in the same groups, float64, the same shape. A negative index is a user who is not
    held.
    """
    trace = traces.trace(old)
    for i, user in enumerate(new):
        joins = traces.trace(user) if user >= 0 else trace[:0]
        row = counts[i].reshape(-1)
        row[trace] -= 1
        row[joins] += 1
        if sums is not None:
            weighed = sums[i].reshape(-1)
            weighed[trace] -= traces.weight(old)
            weighed[joins] += traces.weight(int(user))


def subsample_trace(trace: Ints, traces: Traces, share: float, *, rng: np.random.Generator) -> Ints:
    """Return ceil(share · visits) of a user's visits at random, sorted flat cells (POPETS24 §6.3).

    ``trace``, shape (event,), is part of ``traces``; the null ROI, if there is one, is derived
    again. The empty trace of a user who is not held stays empty.
    """
    if not len(trace):
        return trace
    n_seen = traces.n_cells - traces.n_epochs * traces.null_roi  # cells of real ROIs
    visits = trace[trace < n_seen]
    n_kept = ceil(Fraction(share).limit_denominator(10**9) * len(visits))
    kept = np.sort(rng.choice(visits, n_kept, replace=False)).astype(trace.dtype)
    return add_idle(kept, traces.n_rois, traces.n_epochs) if traces.null_roi else kept


def add_idle(visits: Ints, n_rois: int, n_epochs: int) -> Ints:
    """Return flat cells of visits, followed by those of the null ROI, the last of ``n_rois``."""
    idle = np.setdiff1d(np.arange(n_epochs), visits % n_epochs)
    return np.concatenate([visits, ((n_rois - 1) * n_epochs + idle).astype(visits.dtype)])
