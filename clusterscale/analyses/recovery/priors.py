"""Prior knowledge of the adversary about each user's locations (PETS17 §3.2, table 2).

============= ===================================================== ============
name          known about a user                                    source
============= ===================================================== ============
freq_roi      frequency of each ROI                                 eq. 7
roi_day       frequency of each ROI by hour of the day              eqs 8, 9
roi_day_week  frequency of each ROI by hour of the week             eqs 8, 9
time_day      active hours of the day, not the ROIs                 eqs 10, 11
time_day_week active hours of the week, not the ROIs                eqs 10, 11
last_week     ROIs a week ago                                       eq. 14
last_day      ROIs a day ago                                        eq. 14
last_hour     ROIs an hour ago                                      eq. 14
============= ===================================================== ============
"""

from typing import ClassVar, Literal

import numpy as np
import scipy

from clusterscale.analyses.recovery.epoch_belief import EpochBelief, Ids, Visits
from clusterscale.analyses.recovery.estimates import InferencePrior
from clusterscale.contracts import NamedModel
from clusterscale.registry import Registry

DAY, WEEK = 24, 168  # epochs, which are hours


class Cyclic(NamedModel):
    """A prior with equal beliefs for all epochs at the same position in a cycle (PETS17 §3.2.1)."""

    needs: ClassVar[int]
    """Number of epochs that must be observed: one full cycle."""

    @property
    def hourly(self) -> bool:
        """Whether epochs must be hours."""
        return self.needs > 1

    def season(self, epoch: int) -> int:
        """Return the position of an epoch in the cycle."""
        return epoch % self.needs

    def seen(self, observed: int, epoch: int) -> Ids:
        """Return the observed epochs at that position in the cycle, int64, shape (epoch,)."""
        return np.arange(self.season(epoch), observed, self.needs)


class _Seasonal(Cyclic):
    """Share of each ROI, including the null ROI, in a user's reports at one cycle position."""

    def belief(self, visits: Visits, observed: int, epoch: int) -> EpochBelief:
        """Return the shares in the observed epochs at the position of ``epoch`` in the cycle."""
        epochs = self.seen(observed, epoch).tolist()
        columns = [visits.at(past) for past in epochs]
        places = np.arange(visits.n_places, dtype=np.int32)
        roi = [np.repeat(places, np.diff(bounds)) for bounds, _ in columns]
        where = [visitors for _, visitors in columns], roi
        cells = tuple(np.concatenate([places[:0], *parts]) for parts in where)
        units = np.ones(len(cells[0]), np.int32)
        table = scipy.sparse.coo_array((units, cells), (visits.n_users, len(places))).tocsc()
        idle = len(epochs) - np.sum([visits.present(past) for past in epochs], axis=0, dtype=int)
        absent = np.flatnonzero(idle)
        user = np.append(table.indices, absent).astype(np.int32)
        times = np.append(table.data, np.broadcast_to(idle, visits.n_users)[absent])
        ends = np.append(table.indptr, len(user)).astype(np.int64)
        shares = times / np.bincount(user, times, visits.n_users)[user]
        return EpochBelief(ends[:-1], ends[1:], user, shares, visits.n_users)


class FreqRoi(_Seasonal):
    """Frequency of each ROI over all observed epochs (PETS17 eq. 7)."""

    needs: ClassVar[int] = 1
    name: Literal["freq_roi"] = "freq_roi"
    phrase: ClassVar[str] = "frequency of places"


class RoiDay(_Seasonal):
    """Frequency of each ROI by hour of the day (PETS17 eqs 8, 9)."""

    needs: ClassVar[int] = DAY
    name: Literal["roi_day"] = "roi_day"
    phrase: ClassVar[str] = "frequency of places by hour of the day"


class RoiDayWeek(_Seasonal):
    """Frequency of each ROI by hour of the week (PETS17 eqs 8, 9)."""

    needs: ClassVar[int] = WEEK
    name: Literal["roi_day_week"] = "roi_day_week"
    phrase: ClassVar[str] = "frequency of places by hour of the week"


class _Timely(Cyclic):
    """Uniform over the real ROIs if a user ever reported at that time, else the null ROI."""

    def belief(self, visits: Visits, observed: int, epoch: int) -> EpochBelief:
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

    needs: ClassVar[int] = DAY
    name: Literal["time_day"] = "time_day"
    phrase: ClassVar[str] = "active hours of the day"


class TimeDayWeek(_Timely):
    """Hours of the week at which a user reports (PETS17 eqs 10, 11)."""

    needs: ClassVar[int] = WEEK
    name: Literal["time_day_week"] = "time_day_week"
    phrase: ClassVar[str] = "active hours of the week"


class _Last(NamedModel):
    needs: ClassVar[int]
    """Number of epochs that must be observed: the lag."""
    hourly: ClassVar[bool] = True

    def season(self, epoch: int) -> int:
        """Return the epoch itself, since no two epochs share a belief."""
        return epoch

    def belief(self, visits: Visits, observed: int, epoch: int) -> EpochBelief:
        """Return the true visits at the lag before, as an assignment."""
        return visits.truth(epoch - self.needs)


class LastWeek(_Last):
    """ROIs of each user at the same hour a week ago (PETS17 eq. 14)."""

    needs: ClassVar[int] = WEEK
    name: Literal["last_week"] = "last_week"
    phrase: ClassVar[str] = "location a week ago"


class LastDay(_Last):
    """ROIs of each user at the same hour a day ago (PETS17 eq. 14)."""

    needs: ClassVar[int] = DAY
    name: Literal["last_day"] = "last_day"
    phrase: ClassVar[str] = "location a day ago"


class LastHour(_Last):
    """ROIs of each user an hour ago (PETS17 eq. 14)."""

    needs: ClassVar[int] = 1
    name: Literal["last_hour"] = "last_hour"
    phrase: ClassVar[str] = "location an hour ago"


BELIEFS: Registry[InferencePrior] = Registry(
    "recovery prior",
    FreqRoi,
    RoiDay,
    RoiDayWeek,
    TimeDay,
    TimeDayWeek,
    LastWeek,
    LastDay,
    LastHour,
)
