"""What the adversary knows of everybody's whereabouts before the release (PETS17 §3.2, table 2).

============= ===================================================== ============
name          what it knows of a user                               source
============= ===================================================== ============
freq_roi      how often they are in each ROI                        eq. 7
roi_day       the same, for each hour of a day                      eqs 8, 9
roi_day_week  the same, for each hour of a week                     eqs 8, 9
time_day      at which hours of a day they report, not where        eqs 10, 11
time_day_week at which hours of a week they report, not where       eqs 10, 11
last_week     where they were a week ago                            eq. 14
last_day      where they were a day ago                             eq. 14
last_hour     where they were an hour ago                           eq. 14
============= ===================================================== ============
"""

from clusterscale.recovery.priors.last import LastDay, LastHour, LastWeek
from clusterscale.recovery.priors.seasonal import FreqRoi, RoiDay, RoiDayWeek
from clusterscale.recovery.priors.timely import TimeDay, TimeDayWeek
from clusterscale.recovery.protocols import InferencePrior
from clusterscale.registry import Registry

__all__ = ["BELIEFS"]

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
