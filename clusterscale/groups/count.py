"""Count where the members of groups were."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np

from clusterscale.contracts import Counts, Ints, Labels, Traces, Values
from clusterscale.kernel import kernel

__all__ = ["count_visits", "forget", "mean_trace", "replace_member"]


def count_visits(traces: Traces, members: Ints, *, pool: Ints | None = None) -> Counts:
    """Count, for each group, how many members were in each cell.

    Parameters
    ----------
    traces
        Traces of all users that a group may name.
    members
        User indices, shape (group, member), distinct within a group.
    pool
        The users that the groups were drawn from, shape (user,). Groups of more than half of them
        are then counted as the pool less those left out, which reads fewer events.

    Returns
    -------
    Counts
        int32, shape (group, roi, epoch).
    """
    shape = (len(members), traces.n_rois, traces.n_epochs)
    events = _events(traces)
    if pool is None or 2 * members.shape[1] <= len(pool):
        counts = np.zeros((len(members), traces.n_cells), np.int32)
        _count(*events, members, counts)
    else:
        everyone = np.zeros((1, traces.n_cells), np.int32)
        _count(*events, pool[None, :], everyone)
        counts = np.empty((len(members), traces.n_cells), np.int32)
        inside = np.zeros(traces.n_users, np.bool_)
        _count_left_out(*events, members, pool, inside, everyone[0], counts)
    return counts.reshape(shape)


def _events(traces: Traces) -> tuple[Ints, Ints, Labels]:
    """Return what the kernels read; unsigned indices spare them a test for negative ones."""
    cells: Ints = traces.cells.view(np.uint32 if traces.cells.dtype == np.int32 else np.uint64)
    return traces.offsets, cells, traces.idle_epochs


@kernel
def _count(offsets: Ints, cells: Ints, idle: Labels, members: Ints, counts: Counts) -> None:
    nowhere = np.empty(idle.shape[1], np.int32)
    for group in range(members.shape[0]):
        nowhere[:] = 0
        for user in members[group]:
            _add(offsets, cells, idle, user, np.int32(1), counts[group], nowhere)
        _close(nowhere, counts[group])


@kernel
def _count_left_out(
    offsets: Ints,
    cells: Ints,
    idle: Labels,
    members: Ints,
    pool: Ints,
    inside: Labels,
    everyone: Counts,
    counts: Counts,
) -> None:
    nowhere = np.empty(idle.shape[1], np.int32)
    for group in range(members.shape[0]):
        counts[group] = everyone
        nowhere[:] = 0
        inside[members[group]] = True
        for user in pool:
            if not inside[user]:
                _add(offsets, cells, idle, user, np.int32(-1), counts[group], nowhere)
        inside[members[group]] = False
        _close(nowhere, counts[group])


@kernel
def _add(
    offsets: Ints,
    cells: Ints,
    idle: Labels,
    user: int,
    weight: np.int32,
    row: Counts,
    nowhere: Counts,
) -> None:
    """Add one user's events to ``row`` and idle epochs to ``nowhere``, times ``weight``."""
    for cell in cells[offsets[user] : offsets[user + 1]]:
        row[cell] += weight
    absent = idle[user]
    for epoch in range(len(nowhere)):  # a straight pass, which runs in parallel lanes
        nowhere[epoch] += weight * np.int32(absent[epoch])


@kernel
def _close(nowhere: Counts, row: Counts) -> None:
    """Add what was counted of the null ROI, whose cells are the last."""
    start = len(row) - len(nowhere)
    for epoch in range(len(nowhere)):
        row[start + epoch] += nowhere[epoch]


def replace_member(counts: Counts, traces: Traces, old: int, new: Ints) -> Counts:
    """Return the counts of groups after one member made way for another.

    Parameters
    ----------
    counts
        Of groups that hold user ``old``, shape (group, roi, epoch); left as they are.
    traces
        What was counted.
    old, new
        The member that leaves all groups, and the one that enters each, shape (group,).

    Returns
    -------
    Counts
        int32, shape (group, roi, epoch).
    """
    changed = counts.copy()
    flat = changed.reshape(len(counts), -1)
    flat[:, traces.trace(old)] -= 1
    for row, user in zip(flat, new, strict=True):
        row[traces.trace(user)] += 1
    return changed


def mean_trace(traces: Traces, users: Ints) -> Values:
    """Return the share of ``users`` seen in each cell, float64, shape (roi, epoch)."""
    share: Values = count_visits(traces, np.asarray(users)[None, :])[0].astype(np.float64)
    share /= len(users)
    return share


def forget(trace: Ints, traces: Traces, share: float, *, rng: np.random.Generator) -> Ints:
    """Return a copy of one user's trace that holds only some of the visits (POPETS24 §6.3).

    Parameters
    ----------
    trace
        Sorted flat cells of the user, shape (event,).
    traces
        The traces it is from; the null ROI, if they have one, is derived anew.
    share
        Of the visits, ceil(share · visits) are kept, at random.

    Returns
    -------
    Ints
        Sorted flat cells, the dtype of ``trace``.
    """
    n_seen = traces.n_cells - traces.n_epochs * traces.null_roi  # cells of real ROIs
    visits = trace[trace < n_seen]
    n_kept = ceil(Fraction(share).limit_denominator(10**9) * len(visits))
    kept = np.sort(rng.choice(visits, n_kept, replace=False)).astype(trace.dtype)
    if not traces.null_roi:
        return kept
    idle = np.setdiff1d(np.arange(traces.n_epochs), kept % traces.n_epochs)
    return np.concatenate([kept, (n_seen + idle).astype(trace.dtype)])
