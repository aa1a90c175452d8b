"""Arrays by their usual names, and the events of some users in memory."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Counts", "Ints", "Labels", "Members", "Scores", "Traces", "Values"]

Ints = NDArray[np.integer[Any]]
Counts = NDArray[np.int32]  # (group, roi, epoch), or (roi, epoch)
Values = NDArray[np.float64]  # the same shape, as published
Labels = NDArray[np.bool_]  # (group,)  True = target inside
Scores = NDArray[np.float64]  # (group,)  higher = more likely inside
Members = NDArray[np.int64]  # (group, member) user indices


@dataclass(frozen=True, slots=True)
class Traces:
    """Events of some users over one period, compressed by user.

    Attributes
    ----------
    offsets
        int64, shape (user + 1,): events of user ``u`` are ``cells[offsets[u]:offsets[u + 1]]``.
    cells
        int32 or int64, shape (event,): flat cell ``roi * n_epochs + epoch``, strictly increasing
        within a user.
    n_rois, n_epochs
        Size of the grid of cells.
    idle
        bool, shape (user, epoch): where a user has no event. The last ROI is then the null ROI
        (NDSS18 §V-A), whose cells are not among ``cells``; None: there is no null ROI.
    """

    offsets: NDArray[np.int64]
    cells: Ints
    n_rois: int
    n_epochs: int
    idle: NDArray[np.bool_] | None = None

    @property
    def null_roi(self) -> bool:
        """Whether the last ROI is the one that stands for nowhere."""
        return self.idle is not None

    @property
    def idle_epochs(self) -> NDArray[np.bool_]:
        """``idle`` as compiled loops want it: without a column where there is no null ROI."""
        return np.zeros((self.n_users, 0), np.bool_) if self.idle is None else self.idle

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.offsets) - 1

    @property
    def n_cells(self) -> int:
        """Number of cells: ROIs × epochs."""
        return self.n_rois * self.n_epochs

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        idle = 0 if self.idle is None else self.idle.nbytes
        return self.offsets.nbytes + self.cells.nbytes + idle

    def trace(self, user: int) -> Ints:
        """Return the sorted flat cells of one user, those of the null ROI too, shape (event,)."""
        cells = self.cells[self.offsets[user] : self.offsets[user + 1]]
        if self.idle is None:
            return cells
        nowhere = self.n_cells - self.n_epochs + np.flatnonzero(self.idle[user])
        return np.concatenate([cells, nowhere])
