"""Coordinates of cells, and bounds on what one person can change in a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import InputError

__all__ = ["Bounds", "CellCoordinates", "check_days"]


@dataclass(frozen=True, slots=True, eq=False)
class CellCoordinates:
    """Position and time of the cells of some traces.

    Attributes
    ----------
    days
        int64, shape (epoch,): number of the local day in which each epoch begins, not decreasing.
    lat, lon
        float64, shape (roi,): centres in degrees; NaN if unknown. The null ROI, which has
        no position, is not among them.
    until
        int64, shape (epoch,): the local day in which each epoch ends; equal to ``days`` if None.
    """

    days: NDArray[np.int64]
    lat: NDArray[np.float64]
    lon: NDArray[np.float64]
    until: NDArray[np.int64] | None = None

    @property
    def last_days(self) -> NDArray[np.int64]:
        """The local day in which each epoch ends, int64, shape (epoch,)."""
        return self.days if self.until is None else self.until


def check_days(days: NDArray[Any], until: NDArray[Any], n_epochs: int) -> None:
    """Check that each epoch has a first and a last local day.

    Parameters
    ----------
    days, until
        Int, shape (epoch,): the days in which each epoch begins and ends. ``days`` must not
        decrease, and no epoch may end before it begins.
    n_epochs
        Number of epochs.

    Raises
    ------
    InputError
        If an array has another form, or the days decrease.
    """
    for name, array in (("days", days), ("until", until)):
        if array.shape != (n_epochs,) or array.dtype.kind not in "iu":
            raise InputError(
                f"{name} are {array.dtype} of shape {array.shape}, but {n_epochs} epochs need "
                f"integers of shape {(n_epochs,)}"
            )
    if (days[1:] < days[:-1]).any() or (until < days).any():
        raise InputError("days of epochs decrease, or an epoch ends before it begins")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Largest change that one unit of data makes to the counts of a period, over all users.

    Changes are in visits, L1 norm: the counts lost when the unit is removed plus, with a null ROI,
    the counts that the null ROI gains (an hour without its only event is idle).

    Attributes
    ----------
    event
        One event: 1, or 2 with a null ROI.
    user_day
        All events of one user on one local day.
    user
        All counts of one user, including idle epochs if there is a null ROI (the Δ of NDSS18
        §VII-B).
    series
        The counts of one user in one ROI.
    rois
        Number of ROIs in which one user is counted.
    null_roi
        Whether there is a null ROI.
    """

    event: int
    user_day: int
    user: int
    series: int
    rois: int
    null_roi: bool
