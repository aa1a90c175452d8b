"""Mobility characteristics: ten from a user's own events, and unicity from all users' events."""

from collections.abc import Mapping
from math import log2

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.traits.unicity import unicity
from clusterscale.contracts import Ints, Traces, Values
from clusterscale.errors import InputError
from clusterscale.jit import kernel

TITLES: Mapping[str, str] = {
    "total_events": "events",
    "unique_rois": "unique ROIs",
    "active_epochs": "active epochs",
    "rois_per_active_epoch": "ROIs per active epoch",
    "events_per_weekday": "events per weekday",
    "events_per_weekend_day": "events per weekend day",
    "active_epochs_per_weekday": "active epochs per weekday",
    "active_epochs_per_weekend_day": "active epochs per weekend day",
    "spatial_entropy": "spatial entropy in bits",
    "temporal_entropy": "temporal entropy in bits",
    "unicity": "share of epochs that are unique",
}
"""Title of each characteristic, by name."""

CHARACTERISTICS = tuple(TITLES)

UNICITY = CHARACTERISTICS.index("unicity")
"""Index of unicity, the last one, and the only one that depends on other users."""


def characteristics(traces: Traces, days: Ints) -> Values:
    """Return all characteristics of users in memory (POMACS20 §3.1), float64, shape (user, 11).

    Parameters
    ----------
    traces
        Events of all users over a period; the null ROI counts neither as event nor as ROI.
    days
        Int, shape (epoch,): the ordinal of the local day in which each epoch begins
        (:meth:`clusterscale.cube.Calendar.days`).

    Returns
    -------
    float64, shape (user, characteristic)
        In the order of :data:`CHARACTERISTICS`: the columns of :func:`movement`, then
        :func:`~clusterscale.analyses.traits.unicity.unicity`.

    Raises
    ------
    InputError
        If the number of days is not the number of epochs.
    """
    return np.column_stack([movement(traces, days), unicity(traces)])


def movement(traces: Traces, days: Ints) -> Values:
    """Return the characteristics that depend only on a user's own events (POMACS20 §3.1).

    Parameters
    ----------
    traces, days
        As for :func:`characteristics`.

    Returns
    -------
    float64, shape (held user, 10)
        Events; distinct ROIs; epochs with an event; mean events per active epoch; mean events and
        active epochs per weekday and per weekend day, over all such days with an epoch that begins
        in them; and the entropies, in bits, of a user's events over ROIs and over epochs. A user
        without events has zeros; weekday values are zero for all users if the period has no
        weekdays, and likewise for weekend days.

    Raises
    ------
    InputError
        As :func:`characteristics`.
    """
    if np.shape(days) != (traces.n_epochs,):
        raise InputError(f"{traces.n_epochs} epochs and {np.size(days)} days: give one for each")
    free = is_weekend(days)
    n_days = np.array([len(np.unique(days[~free])), len(np.unique(days[free]))])
    table = np.zeros((traces.n_held, UNICITY))
    _measure(traces.offsets, traces.cells, free, n_days, table)
    return table


def is_weekend(days: Ints) -> NDArray[np.bool_]:
    """Return which days, by their proleptic Gregorian ordinal, are Saturdays and Sundays."""
    return (np.asarray(days) + 6) % 7 >= 5  # day 1 was a Monday


@kernel
def _measure(
    offsets: Ints, cells: Ints, free: NDArray[np.bool_], n_days: Ints, table: Values
) -> None:
    n_epochs = len(free)
    visits = np.zeros(n_epochs, np.int64)  # of one user; reset to zeros after each user
    for user in range(len(offsets) - 1):
        own = cells[offsets[user] : offsets[user + 1]]
        if len(own) == 0:
            continue
        rois = active = active_free = events_free = run = 0
        previous = -1
        spatial = temporal = 0.0
        for cell in own:
            roi, epoch = divmod(cell, n_epochs)
            if roi != previous:  # cells are sorted, so a user's visits to a ROI are contiguous
                spatial += _surprise(run, len(own))
                rois, run, previous = rois + 1, 0, roi
            run += 1
            if visits[epoch] == 0:
                active += 1
                active_free += free[epoch]
            visits[epoch] += 1
            events_free += free[epoch]
        spatial += _surprise(run, len(own))
        for cell in own:
            epoch = cell % n_epochs
            temporal += _surprise(visits[epoch], len(own))
            visits[epoch] = 0
        table[user, 0], table[user, 1], table[user, 2] = len(own), rois, active
        table[user, 3] = len(own) / active
        if n_days[0] > 0:
            table[user, 4] = (len(own) - events_free) / n_days[0]
            table[user, 6] = (active - active_free) / n_days[0]
        if n_days[1] > 0:
            table[user, 5] = events_free / n_days[1]
            table[user, 7] = active_free / n_days[1]
        table[user, 8], table[user, 9] = spatial, temporal


@kernel
def _surprise(count: int, total: int) -> float:
    """Return the contribution of a share to an entropy, in bits; exactly 0 for shares 0 and 1."""
    if count == 0:
        return 0.0
    share = count / total
    return share * log2(1.0 / share)
