"""Beliefs about one epoch: the probability of each user in each ROI, in compressed form."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from clusterscale.contracts import Flags, Traces, Values
from clusterscale.errors import InputError

Ids = NDArray[np.int64]
Ranks = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class EpochBelief:
    """Beliefs about all users in one epoch, compressed by ROI.

    Users are identified by rank: 0 has the most reports, so that ties are decided by rank (PETS17
    §3.3). ROIs with the same users and probabilities share one segment, which makes a uniform
    belief over hundreds of ROIs cheap.

    Probabilities need not sum to 1: those of an assignment are all 1 (PETS17 §3.2.2).

    Attributes
    ----------
    begin, end
        int64, shape (roi,): possible users of ROI ``s`` are ``user[begin[s]:end[s]]``. Two segments
        are identical or disjoint.
    user
        int32, shape (entry,): ranks, increasing within a segment.
    probability
        float64, shape (entry,), above 0: probability of the user in the ROI.
    n_users
        Number of users.
    """

    begin: Ids
    end: Ids
    user: Ranks
    probability: Values
    n_users: int

    @property
    def n_rois(self) -> int:
        """Number of ROIs, including the null ROI."""
        return len(self.begin)

    @property
    def arrays(self) -> tuple[Ids, Ids, Ranks, Values]:
        """The segments, users and probabilities, as kernels take them."""
        return self.begin, self.end, self.user, self.probability

    @classmethod
    def of_table(cls, table: ArrayLike) -> Self:
        """Return the belief of a table of probabilities, real, shape (user, roi).

        Raises
        ------
        InputError
            If it is not a table of finite non-negative numbers.
        """
        dense = np.asarray(table, np.float64)
        if dense.ndim != 2 or not np.isfinite(dense).all() or (dense < 0).any():
            raise InputError(
                "a prior of one epoch must be a table (user, roi) of finite non-negative numbers, "
                f"not of shape {dense.shape}"
            )
        roi, user = np.nonzero(dense.T)
        bounds = np.searchsorted(roi, np.arange(dense.shape[1] + 1))
        return cls(
            bounds[:-1].astype(np.int64),
            bounds[1:].astype(np.int64),
            user.astype(np.int32),
            dense[user, roi],
            dense.shape[0],
        )

    @classmethod
    def of_users(cls, bounds: Ids, user: Ranks, n_users: int) -> Self:
        """Return the belief that assigns users to ROIs with probability 1.

        ``bounds``, shape (roi + 1,): users in ROI ``s`` are ``user[bounds[s]:bounds[s + 1]]``.
        """
        return cls(bounds[:-1], bounds[1:], user, np.ones(len(user)), n_users)

    @classmethod
    def of_all(cls, n_rois: int, n_users: int) -> Self:
        """Return the belief in which all users may be in all ROIs."""
        begin, end = np.zeros(n_rois, np.int64), np.full(n_rois, n_users)
        return cls(begin, end, np.arange(n_users, dtype=np.int32), np.ones(n_users), n_users)

    def table(self) -> Values:
        """Return the probabilities, float64, shape (user, roi)."""
        dense = np.zeros((self.n_users, self.n_rois))
        for roi, (begin, end) in enumerate(zip(self.begin, self.end, strict=True)):
            dense[self.user[begin:end], roi] = self.probability[begin:end]
        return dense

    def mass(self, weights: Values) -> Values:
        """Return the weighted sum of each user's probabilities over ROIs, shape (user,).

        ``weights``, float64, shape (roi,): factor of the probabilities of each ROI.
        """
        begin, end, shares = self.segments()
        factors, total = np.zeros(len(self.user)), np.bincount(shares, weights, len(begin))
        for first, last, factor in zip(begin, end, total, strict=True):
            factors[first:last] = factor
        return np.bincount(self.user, factors * self.probability, self.n_users).astype(np.float64)

    def segments(self) -> tuple[Ids, Ids, Ids]:
        """Return begin and end of each distinct segment, and the segment of each ROI, shape (roi,).

        All empty segments count as one.
        """
        begin = np.where(self.end > self.begin, self.begin, -1)
        starts, first, which = np.unique(begin, return_index=True, return_inverse=True)
        return np.maximum(starts, 0), np.where(starts < 0, 0, self.end[first]), which


def by_activity(activity: ArrayLike, n_users: int) -> Ids:
    """Return the users in order of rank: most reports first, then by index.

    Raises
    ------
    InputError
        If ``activity`` is not one integer for each of ``n_users``.
    """
    reports = np.asarray(activity)
    if reports.shape != (n_users,) or reports.dtype.kind not in "iu":
        raise InputError(
            f"activity must be an integer for each of {n_users} users, not {reports.dtype} of "
            f"shape {reports.shape}"
        )
    return np.argsort(-reports.astype(np.int64), kind="stable")


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
        """Return the visits of traces with a null ROI, with users ranked by ``order``."""
        n_places = traces.n_rois - 1
        cells, n_epochs = traces.cells, traces.n_epochs
        columns = cells % n_epochs * n_places + cells // n_epochs
        visited = np.ones(len(cells), np.bool_), columns, traces.offsets
        shape = traces.n_held, n_epochs * n_places
        table = scipy.sparse.csr_array(visited, shape)[order].tocsc()
        bounds, user = table.indptr.astype(np.int64), table.indices.astype(np.int32)
        return cls(bounds, user, traces.n_held, n_epochs, n_places)

    def at(self, epoch: int) -> tuple[Ids, Ranks]:
        """Return the bounds of each real ROI of an epoch, shape (ROI + 1,), and its users."""
        bounds = self.bounds[epoch * self.n_places : (epoch + 1) * self.n_places + 1]
        return bounds - bounds[0], self.user[bounds[0] : bounds[-1]]

    def truth(self, epoch: int) -> EpochBelief:
        """Return the truth of an epoch; users in no ROI are in the null ROI."""
        bounds, user = self.at(epoch)
        return assign_rest(bounds, user, self.n_users)

    def present(self, epoch: int) -> Flags:
        """Return which users are in any real ROI, bool, shape (user,)."""
        present = np.zeros(self.n_users, np.bool_)
        present[self.at(epoch)[1]] = True
        return present


def assign_rest(bounds: Ids, user: Ranks, n_users: int) -> EpochBelief:
    """Return the belief that assigns users to the listed ROIs, or else to the null ROI.

    ``bounds``, shape (real ROI + 1,), as :meth:`EpochBelief.of_users` takes them.
    """
    nowhere = np.ones(n_users, np.bool_)
    nowhere[user] = False
    absent = np.flatnonzero(nowhere).astype(np.int32)
    ends = np.append(bounds, bounds[-1] + len(absent))
    return EpochBelief.of_users(ends, np.concatenate([user, absent]), n_users)
