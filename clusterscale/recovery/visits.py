"""Visits by epoch: traces transposed so that all users' visits of one epoch are contiguous."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from clusterscale.contracts import Ints, Traces
from clusterscale.errors import InputError
from clusterscale.jit import kernel
from clusterscale.recovery.epoch_belief import EpochBelief, Flags, Ids, Ranks

__all__ = ["Visits"]


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """Visits of all users, in order of epoch, ROI and rank.

    Attributes
    ----------
    bounds
        int64, shape (epoch × real ROI + 1,): users in ROI ``s`` at epoch ``t`` are
        ``user[bounds[t * n + s]:bounds[t * n + s + 1]]``, ``n`` being the number of real ROIs.
    user
        int32, shape (visit,): ranks, increasing within an epoch and ROI.
    n_users, n_epochs, n_places
        Numbers of users, epochs and real ROIs (without the null ROI).
    """

    bounds: Ids
    user: Ranks
    n_users: int
    n_epochs: int
    n_places: int

    @classmethod
    def of(cls, traces: Traces, order: Ids) -> Self:
        """Return the visits of traces with a null ROI, with users ranked by ``order``.

        Raises
        ------
        InputError
            If the traces have no null ROI, or ``order`` does not name each user once.
        """
        if not traces.null_roi:
            raise InputError("the traces have no null ROI, which visits need")
        if not np.array_equal(np.sort(order), np.arange(traces.n_held)):
            raise InputError(f"order does not name each of {traces.n_held} users once")
        n_places = traces.n_rois - 1
        bounds, user = _turn(traces.offsets, traces.cells, order, n_places, traces.n_epochs)
        return cls(bounds, user, traces.n_held, traces.n_epochs, n_places)

    def at(self, epoch: int) -> tuple[Ids, Ranks]:
        """Return the bounds of each real ROI of an epoch, shape (ROI + 1,), and its users."""
        bounds = self.bounds[epoch * self.n_places : (epoch + 1) * self.n_places + 1]
        return bounds - bounds[0], self.user[bounds[0] : bounds[-1]]

    def column(self, epoch: int) -> EpochBelief:
        """Return the truth of an epoch; users in no ROI are in the null ROI."""
        bounds, user = self.at(epoch)
        return settle(bounds, user, self.n_users)

    def present(self, epoch: int) -> Flags:
        """Return which users are in any real ROI, bool, shape (user,)."""
        present = np.zeros(self.n_users, np.bool_)
        present[self.at(epoch)[1]] = True
        return present


def settle(bounds: Ids, user: Ranks, n_users: int) -> EpochBelief:
    """Return the belief that assigns users to the listed ROIs, or else to the null ROI.

    ``bounds``, shape (real ROI + 1,), as :meth:`EpochBelief.of_users` takes them.
    """
    nowhere = np.ones(n_users, np.bool_)
    nowhere[user] = False
    absent = np.flatnonzero(nowhere).astype(np.int32)
    ends = np.append(bounds, bounds[-1] + len(absent))
    return EpochBelief.of_users(ends, np.concatenate([user, absent]), n_users)


@kernel
def _turn(offsets: Ids, cells: Ints, order: Ids, n_places: int, n_epochs: int) -> tuple[Ids, Ranks]:
    bounds = np.zeros(n_places * n_epochs + 2, np.int64)
    for cell in cells:
        roi, epoch = divmod(cell, n_epochs)
        bounds[epoch * n_places + roi + 2] += 1
    for i in range(2, len(bounds)):
        bounds[i] += bounds[i - 1]
    user = np.empty(len(cells), np.int32)
    for rank in range(len(order)):
        for i in range(offsets[order[rank]], offsets[order[rank] + 1]):
            roi, epoch = divmod(cells[i], n_epochs)
            row = epoch * n_places + roi + 1
            user[bounds[row]] = rank
            bounds[row] += 1

    return bounds[:-1], user
