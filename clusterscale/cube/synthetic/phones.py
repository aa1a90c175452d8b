"""Phones that report occasionally (presets ``cdr`` and ``milan``).

A user reports from home and work and places near them, at hours with the same distribution for all
users; the number of reports is lognormal over users (POPETS24 Fig. 6).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints
from clusterscale.cube.regions import Box, Grid, Regions
from clusterscale.cube.synthetic import simulation
from clusterscale.jit import kernel

Floats = NDArray[np.floating[Any]]

HOME, WORK = 0, 1  # indices of a user's places; others follow, favourites first
MAX_PLACES = 24
NEIGHBOURS = 6  # number of nearest ROIs from which places near home and work are drawn
POPULARITY = (1.0, 20.0)  # log-sd of popularities and their cap in medians
CENTRE = 5.0  # km over which popularity falls by 1/e

# Inferred, since the papers give no numbers: quiet nights, busy evenings, quiet Sundays.
NIGHT, MORNING = (1.5, 0.8, 0.5, 0.4, 0.5, 1.0), (2.0, 4.0, 5.0, 6.0, 6.0, 6.5)
AFTERNOON, EVENING = (7.0, 7.0, 6.5, 6.5, 7.0, 7.5), (8.0, 8.0, 7.5, 6.5, 4.5, 2.8)
BY_HOUR = np.array([NIGHT, MORNING, AFTERNOON, EVENING]).ravel()
BY_DAY = np.array([1.0, 1.0, 1.0, 1.02, 1.1, 1.0, 0.85])  # Monday first


@dataclass(frozen=True, slots=True)
class ReportingActivity:
    """Number of reports per user: lognormal, between ``least`` and ``most``.

    The calendar is divided into ``stretches`` of equal activity (at most one per report), and a
    user reports about equally often in each: no user is silent for long.
    """

    median: float
    sigma: float
    least: int
    most: int
    stretches: int


class Phones:
    """Draws users, block by block, in the city ``name``; ``monday``: epoch of the first Monday."""

    block = 4096

    def __init__(
        self, name: str, regions: Regions, n_epochs: int, monday: int, activity: ReportingActivity
    ) -> None:
        self.regions, self.n_epochs, self._activity = regions, n_epochs, activity
        sigma, cap = POPULARITY
        inner = np.exp(-simulation.from_centre(regions) / CENTRE)
        self._popular = simulation.cumulative(
            simulation.heavy_tailed(name, len(regions), sigma=sigma, cap=cap) * inner
        )
        order = np.argsort(simulation.distances(regions), axis=1, kind="stable")
        self._nearest = order[:, 1 : NEIGHBOURS + 1].astype(np.int32)
        hour = (np.arange(n_epochs) - monday) % 168
        self._time = simulation.cumulative(BY_DAY[hour // 24] * BY_HOUR[hour % 24])
        self._working = (hour // 24 < 5) & (hour % 24 >= 8) & (hour % 24 < 18)

    def draw(self, rng: np.random.Generator, n_users: int) -> tuple[Ints, Ints]:
        """Return events of each user, shape (user,), and their cells, shape (event,)."""
        law = self._activity
        amount = law.median * np.exp(law.sigma * rng.standard_normal(self.block))
        n_reports = np.clip(np.rint(amount), law.least, law.most).astype(np.int64)[:n_users]
        city = self._popular, self._nearest, self._time, self._working
        return _simulate(rng, n_reports, law.stretches, *city)


def antennas(n_rois: int) -> Regions:
    """Return antennas, half of them within 4 km of the centre of a metropolis."""
    return simulation.scatter(
        "cdr", "antenna", n_rois, lat=4.65, lon=-74.1, radius=4.0, spacing=0.15
    )


def squares() -> Regions:
    """Return a grid of 10 × 10 squares of 1.6 km over Milan."""
    return Grid(Box(45.392, 9.0876, 45.536, 9.2924), 10, 10).regions


@kernel
def _simulate(
    rng: np.random.Generator,
    n_reports: Ints,
    n_stretches: int,
    popular: Floats,
    nearest: Ints,
    time: Floats,
    working: NDArray[np.bool_],
) -> tuple[Ints, Ints]:
    diary, rois = simulation.blank_diary(n_reports.max()), np.empty(MAX_PLACES, np.int32)
    sizes, cells = np.empty(len(n_reports), np.int64), np.empty(n_reports.sum(), np.int32)
    end = 0
    for user in range(len(n_reports)):
        simulation.start_over(diary)
        own = rois[: _settle(rng, popular, nearest, rois)]
        n, epoch = n_reports[user], 0
        n_parts = min(n, n_stretches)
        for part in range(n_parts):
            left = n * (part + 1) // n_parts - n * part // n_parts
            u = 0.0
            while left > 0:
                # The minimum of ``left`` uniforms above u, so that times are sorted.
                u = 1.0 - (1.0 - u) * rng.random() ** (1.0 / left)
                left -= 1
                while epoch < len(time) - 1 and time[epoch] * n_parts <= part + u:
                    epoch += 1
                simulation.note(diary, _where(rng, len(own), working[epoch]), epoch)
        start = end
        end = simulation.collect(diary, own, len(time), cells, start)
        sizes[user] = end - start
    return sizes, cells[:end].copy()  # frees the unused rest


@kernel
def _settle(rng: np.random.Generator, popular: Floats, nearest: Ints, rois: Ints) -> int:
    """Fill in the user's places: home, work, some near them and some anywhere."""
    rois[HOME] = np.searchsorted(popular, rng.random(), side="right")
    rois[WORK] = np.searchsorted(popular, rng.random(), side="right")
    if rois[WORK] == rois[HOME]:
        rois[WORK] = nearest[rois[HOME], 0]
    n = 2
    for i in range(6 + int((MAX_PLACES - 9) * rng.random())):
        if i % 3 < 2:
            roi = nearest[rois[i % 3], int(NEIGHBOURS * rng.random())]
        else:
            roi = np.searchsorted(popular, rng.random(), side="right")
        n = simulation.add_place(rois, n, roi)
    return n


@kernel
def _where(rng: np.random.Generator, n_places: int, working: bool) -> int:
    chance = rng.random()
    if chance < 0.55:
        return WORK if working else HOME
    if chance < 0.65:
        return HOME if working else WORK
    return int(n_places * rng.random() ** 1.5)
