"""Mobility characteristics: ten from a user's own events, and unicity from all users' events.

Unicity is the share of epochs in which a user's set of ROIs is unique. A user's ROIs in an epoch
are hashed to 128 bits, and equal hashes are found by sorting them. Two different sets with the same
hash would be counted as equal: among n sets this has a probability of about n² / 2¹²⁹, for ten
billion sets 10⁻¹⁹, far less than that of a bit flip in memory. The two halves are mixed by
different functions (the finalizers of SplitMix64 and of MurmurHash3), so that structure in the
numbers of ROIs does not make both collide.
"""

from collections.abc import Mapping
from math import log2

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints, Traces, Values
from clusterscale.errors import InputError
from clusterscale.jit import kernel

Words = NDArray[np.uint64]

SET_BYTES = 64
"""Bytes of a set while all are compared: two halves of a hash and its user, several times."""

_SET = np.dtype([("a", np.uint64), ("b", np.uint64), ("user", np.int32)])
_MIXERS = {
    "a": (0x9E3779B97F4A7C15, (30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), 31),
    "b": (0xD1B54A32D192ED03, (33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53), 33),
}


def unicity(traces: Traces) -> Values:
    """Return the share of all epochs in which a user's set of ROIs is unique (POMACS20 §3.1).

    An epoch counts if the user has an event in it, and no other user has exactly the same ROIs.

    Parameters
    ----------
    traces
        Events of all users over a period; the null ROI does not count.

    Returns
    -------
    float64, shape (user,)
    """
    sets = Sets(traces.n_held)
    sets.add(traces)
    return sets.counts() / traces.n_epochs


class Sets:
    """The users' sets of ROIs in each epoch; users are added in blocks, in any order.

    Parameters
    ----------
    n_users
        Number of users.
    """

    def __init__(self, n_users: int) -> None:
        self._n_users, self._sets = n_users, [np.zeros(0, _SET)]

    def add(self, traces: Traces, start: int = 0) -> None:
        """Add users from index ``start`` on, who must not have been added before."""
        user = np.repeat(np.arange(traces.n_held), np.diff(traces.offsets))
        active = user * traces.n_epochs + traces.cells % traces.n_epochs
        active, which = np.unique(active, return_inverse=True)
        sets = np.zeros(len(active), _SET)
        sets["user"] = start + active // traces.n_epochs
        for half in _MIXERS:  # cells have the epoch, so that sets of different epochs differ
            np.add.at(sets[half], which, _mix(traces.cells.astype(np.uint64), half))
        self._sets.append(sets)

    def counts(self) -> NDArray[np.int32]:
        """Return in how many epochs each user's set is unique, int32, shape (user,)."""
        sets = np.concatenate(self._sets)
        sets = sets[np.lexsort((sets["b"], sets["a"]))]
        differs = np.ones(len(sets) + 1, np.bool_)  # from the set before
        differs[1:-1] = (np.diff(sets["a"]) > 0) | (np.diff(sets["b"]) != 0)
        alone = differs[:-1] & differs[1:]
        return np.bincount(sets["user"][alone], minlength=self._n_users).astype(np.int32)


def _mix(words: Words, half: str) -> Words:
    """Return random-looking words, the same for equal ones."""
    salt, *rounds, last = _MIXERS[half]
    words = (words + np.uint64(1)) * np.uint64(salt)
    for shift, factor in rounds:
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return words ^ (words >> np.uint64(last))


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
        :func:`~clusterscale.analyses.traits.characteristics.unicity`.

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
