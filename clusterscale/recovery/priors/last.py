"""Priors that know where a user was a season ago (PETS17 eq. 14).

The window slides: from the second season of the inference period on, it lies within that period.
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
        """One season."""
        return self.lag

    def season(self, epoch: int) -> int:
        """Return the epoch itself: no two have a column in common."""
        return epoch

    def column(self, visits: Visits, observed: int, epoch: int) -> EpochBelief:
        """Return the truth of ``lag`` epochs before, as an assignment."""
        return visits.column(epoch - self.lag)


class LastWeek(_Last):
    """Where each user was at that hour a week ago (PETS17 eq. 14)."""

    lag: ClassVar[int] = WEEK

    name: Literal["last_week"] = "last_week"
    phrase: ClassVar[str] = "whereabouts a week ago"


class LastDay(_Last):
    """Where each user was at that hour a day ago (PETS17 eq. 14)."""

    lag: ClassVar[int] = DAY

    name: Literal["last_day"] = "last_day"
    phrase: ClassVar[str] = "whereabouts a day ago"


class LastHour(_Last):
    """Where each user was an hour ago (PETS17 eq. 14)."""

    lag: ClassVar[int] = 1

    name: Literal["last_hour"] = "last_hour"
    phrase: ClassVar[str] = "whereabouts an hour ago"
