"""Array types, and the events of some users in memory."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import InputError

__all__ = ["Counts", "Ints", "Labels", "Members", "Scores", "Traces", "Values", "Weights"]
__all__ += ["check_weights"]

Ints = NDArray[np.integer[Any]]
Counts = NDArray[np.int32]  # (group, roi, epoch), or (roi, epoch)
Values = NDArray[np.float64]  # the same shape, as published
Labels = NDArray[np.bool_]  # (group,)  True = target inside
Scores = NDArray[np.float64]  # (group,)  higher = more likely inside
Members = NDArray[np.int64]  # (group, member) user indices
Weights = NDArray[np.float64]  # (user,)  people for whom each user counts


def check_weights(weights: NDArray[Any], n_users: int) -> None:
    """Check that weights are positive numbers, one for each user.

    Parameters
    ----------
    weights
        Number of people for whom each user counts, shape (user,).
    n_users
        Number of users.

    Raises
    ------
    InputError
        If they are not.
    """
    if weights.dtype != np.float64 or weights.shape != (n_users,):
        raise InputError(
            f"weights are {weights.dtype} of shape {weights.shape}, not float64 of shape "
            f"{(n_users,)}"
        )
    n_wrong = int((~(np.isfinite(weights) & (weights > 0))).sum())
    if n_wrong:
        raise InputError(f"{n_wrong:,} of {n_users:,} weights are not positive numbers")


@dataclass(frozen=True, slots=True)
class Traces:
    """Events of some users over one period, compressed by user.

    Users are identified by their index in a population, of which an object may hold only a
    contiguous part. Users who are not held have no events here, so the counts of all users are the
    sum of the counts of all parts.

    Attributes
    ----------
    offsets
        int64, shape (held user + 1,): events of user ``first + i`` are
        ``cells[offsets[i]:offsets[i + 1]]``.
    cells
        int32 or int64, shape (event,): flat cell ``roi * n_epochs + epoch``, strictly increasing
        within a user.
    n_rois, n_epochs
        Size of the grid of cells, including the null ROI.
    idle
        bool, shape (held user, epoch): True if the user has no event. The last ROI is then the null
        ROI (NDSS18 §V-A), whose cells are not in ``cells``; None: there is no null ROI.
    first
        Index of the first user held.
    population
        Number of users in the population; None: only those held.
    weights
        float64, shape (held user,): the number of people for whom each user counts, positive;
        None: every user counts as one. Counts are of users in any case.

    Raises
    ------
    InputError
        If a shape or dtype is wrong, offsets, cells or users are out of range, or a weight is not a
        positive number. The order of cells is not checked.
    """

    offsets: NDArray[np.int64]
    cells: Ints
    n_rois: int
    n_epochs: int
    idle: NDArray[np.bool_] | None = None
    first: int = 0
    population: int | None = None
    weights: Weights | None = None

    def __post_init__(self) -> None:
        offsets, cells, idle = self.offsets, self.cells, self.idle
        if offsets.dtype != np.int64 or offsets.ndim != 1 or not len(offsets):
            raise InputError(
                f"offsets are {offsets.dtype} of shape {offsets.shape}, not int64 of shape "
                "(user + 1,)"
            )
        if cells.dtype not in (np.int32, np.int64) or cells.ndim != 1:
            raise InputError(
                f"cells are {cells.dtype} of shape {cells.shape}, not int32 or int64 of shape "
                "(event,)"
            )
        if offsets[0] < 0 or offsets[-1] > len(cells) or (offsets[1:] < offsets[:-1]).any():
            raise InputError(f"offsets do not increase from 0 to at most {len(cells)} events")
        n_visible = self.n_cells - self.n_epochs * self.null_roi
        unsigned = cells.view(f"u{cells.itemsize}")  # negative numbers become the largest
        if len(cells) and unsigned.max() >= max(n_visible, 0):
            raise InputError(
                f"cells from {cells.min()} to {cells.max()} are not within 0 to {n_visible - 1}: "
                f"{self.n_rois} ROIs{', one of them the null ROI,' if self.null_roi else ''} and "
                f"{self.n_epochs} epochs"
            )
        if idle is not None and (
            idle.shape != (self.n_held, self.n_epochs) or idle.dtype != np.bool_
        ):
            raise InputError(
                f"idle is {idle.dtype} of shape {idle.shape}, not bool of shape "
                f"{(self.n_held, self.n_epochs)}"
            )
        if self.first < 0 or self.first + self.n_held > self.n_users:
            raise InputError(
                f"users {self.first} to {self.first + self.n_held} are not within a population of "
                f"{self.n_users}"
            )
        if self.weights is not None:
            check_weights(self.weights, self.n_held)

    @property
    def null_roi(self) -> bool:
        """Whether the last ROI is the null ROI (user not observed anywhere)."""
        return self.idle is not None

    @property
    def idle_epochs(self) -> NDArray[np.bool_]:
        """``idle`` for compiled loops: with no columns if there is no null ROI."""
        return np.zeros((self.n_held, 0), np.bool_) if self.idle is None else self.idle

    @property
    def n_users(self) -> int:
        """Number of users, held or not."""
        return self.n_held if self.population is None else self.population

    @property
    def n_held(self) -> int:
        """Number of users held."""
        return len(self.offsets) - 1

    @property
    def n_cells(self) -> int:
        """Number of cells: ROIs × epochs."""
        return self.n_rois * self.n_epochs

    def weight(self, user: int) -> float:
        """Return the weight of one user: 1 if users have none, 0 if the user is not held."""
        row = user - self.first
        if not 0 <= row < self.n_held:
            return 0.0
        return 1.0 if self.weights is None else float(self.weights[row])

    def check_user(self, user: int) -> None:
        """Raise :class:`InputError` if ``user`` is not in the population."""
        whole = isinstance(user, int | np.integer) and not isinstance(user, bool)
        if not whole or not 0 <= user < self.n_users:
            raise InputError(f"user {user} is not among {self.n_users} users")

    def trace(self, user: int) -> Ints:
        """Return the sorted flat cells of one user, including the null ROI, shape (event,).

        Empty for a user who is not held.

        Raises
        ------
        InputError
            If there is no such user.
        """
        self.check_user(user)
        row = user - self.first
        held = 0 <= row < self.n_held
        cells = self.cells[self.offsets[row] : self.offsets[row + 1]] if held else self.cells[:0]
        if self.idle is None:
            return cells
        idle = np.flatnonzero(self.idle[row]) if held else np.zeros(0, np.int64)
        return np.concatenate([cells, self.n_cells - self.n_epochs + idle])
