"""Statistics of the papers' four data sets, and how unpublished values were inferred.

``tfl`` is published: PETS17 §4.1, and NDSS18 §V-A with the null ROI (728 ± 16 = events + idle
hours; 20 ± 9 unique). Both papers also state 6 M trips of 10,000 users, which contradicts their own
171 events per user; 171 is used, because it is consistent with the 728 and the 115.

``sfc`` is published, with small differences between the papers (3,663 ± 1,116 events without, 3,827
± 1,069 with the null ROI; 77 to 78 ± 6 unique ROIs; 340 ± 94 active hours); the numbers here are
those of the public cabspotting traces in the papers' box, without the null ROI.

``cdr`` has published users, ROIs and epochs, at least one visit a week, and a lognormal activity
that an exponential distribution fits nearly as well (POPETS24 §5.1, Fig. 6). Inferred: 130 visits
per user, since then 99 % of the nonzero counts of 1,000 users are at most 5 (§6.1, Fig. 15), given
ROIs whose popularities have a log-sd of 1 and decrease from the centre; a standard deviation
similar to the mean, as for an exponential distribution. The paper gives neither the city, nor its
time zone, nor the number of ROIs per user.

``milan`` has published users, ROIs and epochs. Inferred: targets, who tweet at least 10 times,
have a sixth of the visits of those of ``cdr`` (§6.1, Fig. 14), about 21; a lognormal distribution
with a log-sd of 1.28 whose upper part has that mean gives 6.3 visits over all users; and again at
least 99 % of the nonzero counts of 1,000 users are at most 5. The paper gives no dates; the start
is the first Monday of November 2013, when the data of the challenge begin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["PRESETS", "Preset", "Statistic"]


@dataclass(frozen=True, slots=True)
class Statistic:
    """Mean and standard deviation over users."""

    mean: float
    sd: float


@dataclass(frozen=True, slots=True)
class Preset:
    """A data set: its size, its calendar and the statistics that a synthetic one must have.

    Attributes
    ----------
    users, rois, epochs
        Size of the original; ROIs without the null ROI, epochs of one hour.
    start, timezone
        Local time at which epoch 0 begins, and its zone.
    events
        Events per user, without the null ROI.
    unique_rois
        ROIs that a user visits at least once, without the null ROI; None if unknown.
    active_epochs
        Epochs in which a user has an event; None if unknown.
    source
        Source of the numbers.
    """

    users: int
    rois: int
    epochs: int
    start: str
    timezone: str
    events: Statistic
    unique_rois: Statistic | None
    active_epochs: Statistic | None
    source: str


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "tfl": Preset(
            users=10_000,
            rois=582,
            epochs=672,
            start="2010-03-01T00:00",
            timezone="Europe/London",
            events=Statistic(171.0, 26.0),
            unique_rois=Statistic(19.0, 9.0),
            active_epochs=Statistic(115.0, 21.0),
            source="PETS17 §4.1; NDSS18 §V-A includes the null ROI: 728 ± 16 and 20 ± 9",
        ),
        "sfc": Preset(
            users=534,
            rois=100,
            epochs=504,
            start="2008-05-19T00:00",
            timezone="America/Los_Angeles",
            events=Statistic(3770.0, 1193.0),
            unique_rois=Statistic(78.1, 6.2),
            active_epochs=Statistic(340.7, 94.1),
            source="the public traces; PETS17 §4.1 and NDSS18 §V-A round or differ by 3 %",
        ),
        "cdr": Preset(
            users=11_000,
            rois=500,
            epochs=720,
            start="2021-06-01T00:00",
            timezone="America/Bogota",
            events=Statistic(130.0, 125.0),
            unique_rois=None,
            active_epochs=None,
            source="POPETS24 §5.1, §6.1; events inferred",
        ),
        "milan": Preset(
            users=4_840,
            rois=100,
            epochs=168,
            start="2013-11-04T00:00",
            timezone="Europe/Rome",
            events=Statistic(6.3, 10.0),
            unique_rois=None,
            active_epochs=None,
            source="POPETS24 §5.1, §6.1; events inferred",
        ),
    }
)
