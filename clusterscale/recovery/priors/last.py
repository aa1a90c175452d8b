"""Priors that know a user's ROIs an hour, a day or a week ago (PETS17 eq. 14).

The window slides: after the first lag of the inference period, it is within that period.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from clusterscale.contracts import NamedModel
from clusterscale.recovery.epoch_belief import EpochBelief
from clusterscale.recovery.priors.cyclic import DAY, WEEK
from clusterscale.recovery.visits import Visits

__all__ = ["LastDay", "LastHour", "LastWeek"]


class _Last(NamedModel):
    lag: ClassVar[int]
    hourly: ClassVar[bool] = True

    @property
    def needs(self) -> int:
        """Number of epochs that must be observed: the lag."""
        return self.lag

    def season(self, epoch: int) -> int:
        """Return the epoch itself, since no two epochs share a belief."""
        return epoch

    def column(self, visits: Visits, observed: int, epoch: int) -> EpochBelief:
        """Return the true visits ``lag`` epochs before, as an assignment."""
        return visits.column(epoch - self.lag)


class LastWeek(_Last):
    """ROIs of each user at the same hour a week ago (PETS17 eq. 14)."""

    lag: ClassVar[int] = WEEK

    name: Literal["last_week"] = "last_week"
    phrase: ClassVar[str] = "location a week ago"


class LastDay(_Last):
    """ROIs of each user at the same hour a day ago (PETS17 eq. 14)."""

    lag: ClassVar[int] = DAY

    name: Literal["last_day"] = "last_day"
    phrase: ClassVar[str] = "location a day ago"


class LastHour(_Last):
    """ROIs of each user an hour ago (PETS17 eq. 14)."""

    lag: ClassVar[int] = 1

    name: Literal["last_hour"] = "last_hour"
    phrase: ClassVar[str] = "location an hour ago"
