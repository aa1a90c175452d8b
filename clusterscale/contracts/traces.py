"""Arrays by their usual names, and the events of some users in memory."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import InputError

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

    Users are called by their place in a population, of whom perhaps only some in a row are held
    here. Those who are not held have no events here: what is counted of all users is then the sum
    of what is counted of each part.

    Attributes
    ----------
    offsets
        int64, shape (held user + 1,): events of user ``first + i`` are
        ``cells[offsets[i]:offsets[i + 1]]``.
    cells
        int32 or int64, shape (event,): flat cell ``roi * n_epochs + epoch``, strictly increasing
        within a user.
    n_rois, n_epochs
        Size of the grid of cells.
    idle
        bool, shape (held user, epoch): where a user has no event. The last ROI is then the null
        ROI (NDSS18 §V-A), whose cells are not among ``cells``; None: there is no null ROI.
    first
        The first user who is held.
    population
        How many users there are in all; None: those who are held.
    """

    offsets: NDArray[np.int64]
    cells: Ints
    n_rois: int
    n_epochs: int
    idle: NDArray[np.bool_] | None = None
    first: int = 0
    population: int | None = None

    @property
    def null_roi(self) -> bool:
        """Whether the last ROI is the one that stands for nowhere."""
        return self.idle is not None

    @property
    def idle_epochs(self) -> NDArray[np.bool_]:
        """``idle`` as compiled loops want it: without a column where there is no null ROI."""
        return np.zeros((self.n_held, 0), np.bool_) if self.idle is None else self.idle

    @property
    def n_users(self) -> int:
        """Number of users, held or not."""
        return self.n_held if self.population is None else self.population

    @property
    def n_held(self) -> int:
        """Number of users who are held."""
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
        """Return the sorted flat cells of one user, those of the null ROI too, shape (event,).

        None of a user who is not held.

        Raises
        ------
        InputError
            If there is no such user.
        """
        if not 0 <= user < self.n_users:
            raise InputError(f"user {user} is not among {self.n_users} users")
        at = user - self.first
        held = 0 <= at < self.n_held
        cells = self.cells[self.offsets[at] : self.offsets[at + 1]] if held else self.cells[:0]
        if self.idle is None:
            return cells
        idle = np.flatnonzero(self.idle[at]) if held else np.zeros(0, np.int64)
        return np.concatenate([cells, self.n_cells - self.n_epochs + idle])
