"""Priors that know when a user reports, but not where (PETS17 eqs 10, 11)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from clusterscale.recovery.epoch_belief import EpochBelief
from clusterscale.recovery.priors.cyclic import DAY, WEEK, Cyclic
from clusterscale.recovery.visits import Visits

__all__ = ["TimeDay", "TimeDayWeek"]


class _Timely(Cyclic):
    """Uniform over the real ROIs if a user ever reported at that time, else the null ROI."""

    def column(self, visits: Visits, observed: int, epoch: int) -> EpochBelief:
        """Return uniform shares for users who ever reported at the position of ``epoch``."""
        reporting = np.zeros(visits.n_users, np.bool_)
        for past in self.seen(observed, epoch):
            reporting |= visits.present(int(past))
        users = [np.flatnonzero(who).astype(np.int32) for who in (reporting, ~reporting)]
        n_reporting, n_places = len(users[0]), visits.n_places
        begin = np.zeros(n_places + 1, np.int64)
        begin[-1] = n_reporting
        end = np.full(n_places + 1, n_reporting)
        end[-1] = visits.n_users
        shares = np.repeat([1 / n_places, 1.0], [n_reporting, visits.n_users - n_reporting])
        return EpochBelief(begin, end, np.concatenate(users), shares, visits.n_users)


class TimeDay(_Timely):
    """Hours of the day at which a user reports (PETS17 eqs 10, 11)."""

    cycle: ClassVar[int] = DAY

    name: Literal["time_day"] = "time_day"
    phrase: ClassVar[str] = "active hours of the day"


class TimeDayWeek(_Timely):
    """Hours of the week at which a user reports (PETS17 eqs 10, 11)."""

    cycle: ClassVar[int] = WEEK

    name: Literal["time_day_week"] = "time_day_week"
    phrase: ClassVar[str] = "active hours of the week"
