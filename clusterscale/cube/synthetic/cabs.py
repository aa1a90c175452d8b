"""Cabs in a city grid (preset ``sfc``): long shifts, chains of rides, every cell on the route."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints
from clusterscale.cube.regions import Box, Grid
from clusterscale.cube.synthetic import simulation
from clusterscale.jit import kernel

Floats = NDArray[np.floating[Any]]

SIDE = 10
BOX = Box(37.7282, -122.4528, 37.8021, -122.3637)  # contains the papers' 534 cabs and 2 M events

# Tuned by hand on 1,024 cabs; after each colon, the statistics that it affects:
SHARE = (0.01, 0.98, 2.35, 0.83)  # share of hours on duty, min + span · Beta(a, b): active hours
SHIFT = 9.0  # mean hours of a shift
RHYTHM = 0.45  # amplitude of a cab's own daily cycle: LAST_WEEK, LAST_DAY
RIDES = (2.25, 2.36, 0.08)  # rides per hour: base, per share on duty, log-sd: events
DOUBLES = (0.005, 2.3)  # share of cabs in double use, factor on rides: the maximum
DOWNTOWN = (8.0, 4.5, 2.6, 2.4)  # row, column and sd, in cells, of the busy district
SUBURB, DECAY, WATER = 0.075, 12.0, 0.02  # weight of other cells, and of the bay: unique ROIs
WATERFRONT = 7  # first column of the bay
# Share of cabs on duty by hour, up to a factor: lowest at 3:00, highest at 20:00.
NIGHT, MORNING = (7.0, 6.1, 5.0, 3.7, 3.8, 4.7), (5.7, 6.4, 6.9, 7.1, 7.1, 7.2)
AFTERNOON, EVENING = (7.4, 7.5, 7.7, 7.7, 7.4, 7.4), (7.8, 7.9, 8.0, 7.8, 7.8, 7.5)
BY_HOUR = np.array([NIGHT, MORNING, AFTERNOON, EVENING]).ravel()


class Cabs:
    """Draws cabs, block by block."""

    block = 128

    def __init__(self, n_epochs: int) -> None:
        self.n_epochs = n_epochs
        self.regions = Grid(BOX, SIDE, SIDE).regions
        row, column = np.divmod(np.arange(SIDE * SIDE), SIDE)
        distance = ((row - DOWNTOWN[0]) / DOWNTOWN[2]) ** 2 + (
            (column - DOWNTOWN[1]) / DOWNTOWN[3]
        ) ** 2
        land = np.where(column < WATERFRONT, 1.0, WATER)
        self._popular = simulation.cumulative(
            land * (SUBURB * np.exp(-distance / DECAY) + np.exp(-distance / 2))
        )
        self._hours = BY_HOUR / BY_HOUR.mean()

    def draw(self, rng: np.random.Generator, n_users: int) -> tuple[Ints, Ints]:
        """Return events of each user, shape (user,), and their cells, shape (event,)."""
        n = self.block
        share = SHARE[0] + SHARE[1] * rng.beta(SHARE[2], SHARE[3], n)
        double = np.where(rng.random(n) < DOUBLES[0], DOUBLES[1], 1.0)
        spread = np.exp(RIDES[2] * rng.standard_normal(n))
        rides = (RIDES[0] + RIDES[1] * share) * spread * double
        return _simulate(rng, n_users, share, rides, self._popular, self._hours, self.n_epochs)


@kernel
def _simulate(
    rng: np.random.Generator,
    n_users: int,
    shares: Floats,
    rides: Floats,
    popular: Floats,
    hours: Floats,
    n_epochs: int,
) -> tuple[Ints, Ints]:
    room = n_epochs * SIDE * SIDE
    diary, rois = simulation.blank_diary(room), np.arange(SIDE * SIDE)
    sizes, cells = np.empty(n_users, np.int64), np.empty(n_users * room, np.int32)
    end = 0
    for user in range(n_users):
        simulation.start_over(diary)
        here = int(np.searchsorted(popular, rng.random(), side="right"))
        on = rng.random() < shares[user]
        phase = 24.0 * rng.random()
        for epoch in range(n_epochs):
            rhythm = 1.0 + RHYTHM * np.cos(np.pi / 12.0 * (epoch - phase))
            on = _on_duty(rng, on, min(shares[user] * hours[epoch % 24] * rhythm, 0.98))
            if on:
                here = _drive(rng, popular, diary, here, rides[user], epoch)
        if diary[0, 0] == 0:  # every user in a data set has an event
            simulation.note(diary, here, n_epochs - 1)
        start = end
        end = simulation.collect(diary, rois, n_epochs, cells, start)
        sizes[user] = end - start
    return sizes, cells[:end].copy()  # frees the unused rest


@kernel
def _on_duty(rng: np.random.Generator, on: bool, share: float) -> bool:
    """Return the next state of a two-state Markov chain that is on for ``share`` of the time."""
    if on:
        return rng.random() >= 1.0 / SHIFT
    return rng.random() < min(share / (SHIFT * (1.0 - share)), 1.0)


@kernel
def _drive(
    rng: np.random.Generator,
    popular: Floats,
    diary: simulation.Diary,
    here: int,
    rides: float,
    epoch: int,
) -> int:
    """Simulate one hour on duty; return the cell in which it ends."""
    simulation.note(diary, here, epoch)
    left = rides * (0.35 + 1.3 * rng.random())
    while rng.random() < left:
        left -= 1.0
        there = int(np.searchsorted(popular, rng.random(), side="right"))
        _ride(diary, here, there, epoch)
        here = there
    return here


@kernel
def _ride(diary: simulation.Diary, here: int, there: int, epoch: int) -> None:
    """Report every cell on the straight line."""
    row, column = here // SIDE, here % SIDE
    rows, columns = there // SIDE - row, there % SIDE - column
    steps = max(abs(rows), abs(columns), 1)
    for step in range(1, steps + 1):
        i = int(row + rows * step / steps + 0.5)
        j = int(column + columns * step / steps + 0.5)
        simulation.note(diary, i * SIDE + j, epoch)
