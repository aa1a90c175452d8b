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
