"""Where and when cells are, and how much of a release one person can change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import InputError

__all__ = ["Bounds", "CellCoordinates", "check_days"]


@dataclass(frozen=True, slots=True, eq=False)
class CellCoordinates:
    """Place and time of the cells of some traces.

    Attributes
    ----------
    days
        int64, shape (epoch,): number of the local day in which each epoch begins, increasing.
    lat, lon
        float64, shape (roi,): centres in degrees; not a number where not known. The null ROI,
        which is nowhere, is not among them.
    until
        int64, shape (epoch,): the local day in which each epoch ends; as ``days`` where None.
    """

    days: NDArray[np.int64]
    lat: NDArray[np.float64]
    lon: NDArray[np.float64]
    until: NDArray[np.int64] | None = None

    @property
    def last_days(self) -> NDArray[np.int64]:
        """The local day in which each epoch ends, int64, shape (epoch,)."""
        return self.days if self.until is None else self.until

    @property
    def grid(self) -> tuple[int, int] | None:
        """Rows and columns where the ROIs are a grid, row by row; None where they are not."""
        lat, lon = np.round(self.lat, 9), np.round(self.lon, 9)
        rows, columns = np.unique(lat), np.unique(lon)
        shape = (len(rows), len(columns))
        if shape[0] * shape[1] != len(lat) or not np.isfinite(lat + lon).all():
            return None
        regular = (lat.reshape(shape) == rows[:, None]) & (lon.reshape(shape) == columns)
        return shape if regular.all() else None


def check_days(days: NDArray[Any], until: NDArray[Any], n_epochs: int) -> None:
    """Raise :class:`InputError` unless there is a first and a last local day for each epoch.

    Parameters
    ----------
    days, until
        Int, shape (epoch,): the day in which each epoch begins, not decreasing, and in which it
        ends, not before.
    n_epochs
        How many epochs there are.
    """
    for name, each in (("days", days), ("until", until)):
        if each.shape != (n_epochs,) or each.dtype.kind not in "iu":
            raise InputError(
                f"{name} are {each.dtype} of shape {each.shape}, but {n_epochs} epochs need "
                f"integers of shape {(n_epochs,)}"
            )
    if (days[1:] < days[:-1]).any() or (until < days).any():
        raise InputError("days of epochs decrease, or an epoch ends before it begins")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that one unit of data changes the counts of a period, over all users of a cube.

    Changes are in visits and in L1 norm: what leaves the counts when the unit is removed, and,
    where there is a null ROI, what enters there (an hour without its only event is idle).

    Attributes
    ----------
    event
        One event: 1, or 2 with a null ROI.
    user_day
        All events of one user on one local day.
    user
        All that is counted of one user, idle epochs too where there is a null ROI (the Δ of
        NDSS18 §VII-B).
    series
        One user in the series of one ROI.
    rois
        ROIs in which one user is counted.
    null_roi
        Whether there is one.
    """

    event: int
    user_day: int
    user: int
    series: int
    rois: int
    null_roi: bool
