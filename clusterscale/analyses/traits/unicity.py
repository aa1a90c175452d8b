"""Unicity: the share of epochs in which a user's set of ROIs is unique, in one pass over the users.

A user's ROIs in an epoch are hashed to 128 bits, and hashes are counted in a table with open
addressing. Each slot stores the user of its hash, until a second user has the same hash. Two
different sets with the same hash would be counted as equal: among n sets this has a probability of
about n² / 2¹²⁹, for ten billion sets 10⁻¹⁹, far less than that of a bit flip in memory. The two
halves are mixed by different functions (the finalizers of SplitMix64 and of MurmurHash3), so that
structure in the numbers of ROIs does not make both collide.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints, Traces, Values
from clusterscale.errors import InputError
from clusterscale.jit import kernel

Words = NDArray[np.uint64]

SLOT_BYTES = 8 + 8 + 4
"""Bytes of a slot: two halves of a hash, and its user."""

_FREE, _SHARED = -1, -2
_SALT_A, _SALT_B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
_A1, _A2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_B1, _B2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_S27, _S30, _S31, _S33 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(33)


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
    sets = Sets(traces.n_held, len(traces.cells))
    sets.add(traces)
    return sets.counts() / traces.n_epochs


def n_slots(n_sets: int) -> int:
    """Return the slots of a table for ``n_sets``: a power of two, at least a third of them free."""
    return 1 << max(1, (3 * n_sets // 2).bit_length())


class Sets:
    """Table of the users' sets of ROIs in each epoch; users are added in blocks, in any order.

    Parameters
    ----------
    n_users
        Number of users.
    n_sets
        Upper bound of the number of pairs of user and active epoch.
    """

    def __init__(self, n_users: int, n_sets: int) -> None:
        size = n_slots(n_sets)
        self._n_users, self._n_sets, self._n_added = n_users, n_sets, 0
        halves = np.zeros(size, np.uint64), np.zeros(size, np.uint64)
        self._table = _Table(*halves, np.full(size, _FREE, np.int32))

    def add(self, traces: Traces, start: int = 0) -> None:
        """Add users from index ``start`` on, who must not have been added before.

        Raises
        ------
        InputError
            If there are more sets or users than declared.
        """
        if start < 0 or start + traces.n_held > self._n_users:
            raise InputError(
                f"users {start} to {start + traces.n_held} are not among the {self._n_users} "
                "declared users"
            )
        most = self._n_sets - self._n_added
        n_added = _add(traces.offsets, traces.cells, traces.n_epochs, start, most, self._table)
        if n_added < 0:
            raise InputError(f"there are more than the {self._n_sets} declared sets")
        self._n_added += n_added

    def counts(self) -> NDArray[np.int32]:
        """Return in how many epochs each user's set is unique, int32, shape (user,)."""
        counts = np.zeros(self._n_users, np.int32)
        _count(self._table.owner, counts)
        return counts


class _Table(NamedTuple):
    """Slots of hashes, one per pair of user and epoch: the halves of a hash, and its user."""

    a: Words
    b: Words
    owner: NDArray[np.int32]


@kernel
def _add(offsets: Ints, cells: Ints, n_epochs: int, start: int, most: int, table: _Table) -> int:
    """Hash each user's sorted ROIs by epoch; return the number of sets, −1 if there are too many.

    A hash starts with the epoch, so that sets of different epochs differ.
    """
    last_user = np.full(n_epochs, -1, np.int64)
    active = np.empty(n_epochs, np.int64)
    hash_a, hash_b = np.zeros(n_epochs, np.uint64), np.zeros(n_epochs, np.uint64)
    n_sets = 0
    for user in range(len(offsets) - 1):
        n_active = 0
        for i in range(offsets[user], offsets[user + 1]):
            roi, epoch = divmod(cells[i], n_epochs)
            if last_user[epoch] != user:
                last_user[epoch] = user
                active[n_active] = epoch
                n_active += 1
                hash_a[epoch] = _mix_a(np.uint64(epoch + 1) * _SALT_A)
                hash_b[epoch] = _mix_b(np.uint64(epoch + 1) * _SALT_B)
            hash_a[epoch] = _mix_a(hash_a[epoch] ^ (np.uint64(roi + 1) * _SALT_A))
            hash_b[epoch] = _mix_b(hash_b[epoch] ^ (np.uint64(roi + 1) * _SALT_B))
        n_sets += n_active
        if n_sets > most:
            return -1
        for epoch in active[:n_active]:
            _insert(hash_a[epoch], hash_b[epoch], start + user, table)
    return n_sets


@kernel
def _insert(one: np.uint64, other: np.uint64, user: int, table: _Table) -> None:
    a, b, owner = table
    last = len(owner) - 1
    slot = np.int64(one & np.uint64(last))
    while owner[slot] != _FREE:
        if a[slot] == one and b[slot] == other:
            owner[slot] = _SHARED
            return
        slot = (slot + 1) & last
    a[slot], b[slot], owner[slot] = one, other, user


@kernel
def _mix_a(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> _S30)) * _A1
    word = (word ^ (word >> _S27)) * _A2
    return word ^ (word >> _S31)


@kernel
def _mix_b(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> _S33)) * _B1
    word = (word ^ (word >> _S33)) * _B2
    return word ^ (word >> _S33)


@kernel
def _count(owner: NDArray[np.int32], counts: NDArray[np.int32]) -> None:
    for user in owner:
        if user >= 0:
            counts[user] += 1
