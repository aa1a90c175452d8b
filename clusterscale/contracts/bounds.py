"""Coordinates of cells, and bounds on what one person can change in a release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import InputError

__all__ = ["Bounds", "CellCoordinates", "Stability", "check_days"]


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

    A unit is one of the traces before any trace step. Changes are in visits, L1 norm: the counts
    lost when the unit is removed, those gained by events that trace steps then let in and, with a
    null ROI, those that the null ROI gains (an hour without its only event is idle).

    Attributes
    ----------
    event
        One event: 1, or 2 with a null ROI, times the events that the trace steps change.
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


@dataclass(frozen=True, slots=True)
class Stability:
    """How many events of a user change after trace steps if a unit is removed before them.

    Each step acts on the events of one user, and on nobody else's. If it is random, the numbers
    hold for some joint draw of what it keeps with and without the unit. An event that is dropped
    and another that is let in instead are two changes.

    Attributes
    ----------
    event
        Changes if one event is removed.
    user_day
        Changes if all events on one local day are removed; infinite if no step limits them.
    confined
        Whether removing a day only removes events in epochs that are on that day, and all of those
        in epochs that are on no other day. If not, ``user_day`` must be finite.
    """

    event: int = 1
    user_day: float = np.inf
    confined: bool = True

    def __post_init__(self) -> None:
        if not self.confined and not np.isfinite(self.user_day):
            raise InputError("user_day is infinite, but a day changes events of other days")

    def limit(self, bounds: Bounds) -> Bounds:
        """Return the bounds for units before the steps.

        Parameters
        ----------
        bounds
            Those for units after the steps.
        """
        event, user_day = self.event * bounds.event, bounds.user_day
        if np.isfinite(self.user_day):
            user_day = int(self.user_day) * bounds.event
        return replace(bounds, event=event, user_day=user_day)
