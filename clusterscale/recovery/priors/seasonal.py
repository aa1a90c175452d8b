"""Priors that know how often a user visits each ROI (PETS17 eqs 7 to 9)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from clusterscale.errors import InputError
from clusterscale.jit import kernel
from clusterscale.recovery.epoch_belief import EpochBelief, Ids, Ranks
from clusterscale.recovery.priors.cyclic import DAY, WEEK, Cyclic
from clusterscale.recovery.visits import Visits

__all__ = ["FreqRoi", "RoiDay", "RoiDayWeek"]


class _Seasonal(Cyclic):
    """Share of each ROI, including the null ROI, in a user's reports at one cycle position."""

    def column(self, visits: Visits, observed: int, epoch: int) -> EpochBelief:
        """Return the shares in the observed epochs at the position of ``epoch`` in the cycle.

        Raises
        ------
        InputError
            If ``observed`` exceeds the number of epochs.
        """
        if not 0 <= observed <= visits.n_epochs or epoch < 0:
            raise InputError(
                f"{observed} observed epochs before epoch {epoch} are not among {visits.n_epochs}"
            )
        epochs = self.seen(observed, epoch)
        begin, end, user, times, total = _tally(
            visits.bounds, visits.user, epochs, visits.n_users, visits.n_places
        )
        return EpochBelief(begin, end, user, times / total[user], visits.n_users)


class FreqRoi(_Seasonal):
    """Frequency of each ROI over all observed epochs (PETS17 eq. 7)."""

    cycle: ClassVar[int] = 1

    name: Literal["freq_roi"] = "freq_roi"
    phrase: ClassVar[str] = "frequency of places"


class RoiDay(_Seasonal):
    """Frequency of each ROI by hour of the day (PETS17 eqs 8, 9)."""

    cycle: ClassVar[int] = DAY

    name: Literal["roi_day"] = "roi_day"
    phrase: ClassVar[str] = "frequency of places by hour of the day"


class RoiDayWeek(_Seasonal):
    """Frequency of each ROI by hour of the week (PETS17 eqs 8, 9)."""

    cycle: ClassVar[int] = WEEK

    name: Literal["roi_day_week"] = "roi_day_week"
    phrase: ClassVar[str] = "frequency of places by hour of the week"


@kernel
def _tally(
    bounds: Ids, visitor: Ranks, epochs: Ids, n_users: int, n_places: int
) -> tuple[Ids, Ids, Ranks, Ids, Ids]:
    """Return the segments of a belief, the visits of each entry, and all reports of each user."""
    most = n_users
    for epoch in epochs:
        most += bounds[(epoch + 1) * n_places] - bounds[epoch * n_places]
    user, times = np.empty(most, np.int32), np.empty(most, np.int64)
    begin, end = np.empty(n_places + 1, np.int64), np.empty(n_places + 1, np.int64)
    count, total = np.zeros(n_users, np.int64), np.zeros(n_users, np.int64)
    size = 0
    for roi in range(n_places):
        begin[roi] = size
        for epoch in epochs:
            row = epoch * n_places + roi
            for i in range(bounds[row], bounds[row + 1]):
                if count[visitor[i]] == 0:
                    user[size] = visitor[i]
                    size += 1
                count[visitor[i]] += 1
        end[roi] = size
        user[begin[roi] : size].sort()
        for i in range(begin[roi], size):
            times[i] = count[user[i]]
            total[user[i]] += times[i]
            count[user[i]] = 0
    last = np.full(n_users, -1, np.int64)
    for epoch in epochs:  # from here on, count is the number of epochs with any visit of a user
        for i in range(bounds[epoch * n_places], bounds[(epoch + 1) * n_places]):
            if last[visitor[i]] != epoch:
                last[visitor[i]] = epoch
                count[visitor[i]] += 1
    begin[n_places] = size
    for who in range(n_users):
        idle = len(epochs) - count[who]
        if idle > 0:
            user[size], times[size] = who, idle
            total[who] += idle
            size += 1
    end[n_places] = size
    return begin, end, user[:size].copy(), times[:size].copy(), total
