"""Commuters on a rail network (preset ``tfl``): habits by day of the week, with irregular trips.

On a working day a user travels from the home station to the work station and back, at habitual
times that vary from day to day, sometimes with errands at midday, a detour on the way home or an
evening out. A day off consists of errands. Every trip reports two stations and times, at its
beginning and end.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints
from clusterscale.cube.synthetic import simulation
from clusterscale.jit import kernel

Floats = NDArray[np.floating[Any]]
Habits = NDArray[np.void]

SQRT_3 = 3.0**0.5
HOUR, DAY = 60, 1440  # minutes
HOME, WORK = 0, 1  # indices of a user's places; others follow, favourites first
MAX_PLACES, MAX_REPORTS = 96, 2048  # per user

# Tuned by hand on 10,000 users; after each colon, the statistics that it affects:
MINUTES_PER_KM, MAX_MINUTES = 1.7, 90.0  # share of trips within one hour: total with null, its sd
DEPART, BACK = (480.0, 50.0), (1065.0, 60.0)  # mean and sd over users, minutes after midnight
JITTER, JITTER_BACK = 8.0, 20.0  # median user's sd over days, minutes: LAST_WEEK, LAST_DAY
LEAVE = 0.07  # share of working days off: LAST_WEEK
SHIFT_WORKERS = 0.1  # share with two days off on any days of the week: LAST_DAY
DWELL = (50.0, 130.0)  # minimum minutes between trips, and range above it: LAST_HOUR
# Probability of another trip: mean events.
CHANCES = {"midday": 0.12, "detour": 0.33, "evening": 0.27, "outing": 0.77}
ZEAL = 0.13  # sd over users of the log of those probabilities: sd of events and active hours
PLACES = (32.0, 0.98)  # median and log-sd over users of the number of places: unique ROIs
LOYALTY = 1.5  # above 1, favourites are preferred: unique ROIs, ROI_DAY_WEEK
CENTRE = 4.0  # km over which the attraction of the centre falls by 1/e: trip length
OUTSKIRTS, ANYWHERE = 0.8, 0.15  # fewer homes in the centre, leisure far out: visits per station
SIZE = (2.8, 30.0)  # log-sd of station sizes, their cap in medians: visits per station
ROAMERS, ROAMING, HASTE = 0.0005, 0.92, 0.5  # rare cards that travel all day: the maxima


HABIT = np.dtype(
    [
        *((name, np.int32) for name in ("home", "work", "n_places")),
        ("works", np.uint8, 7),  # by day of the week
        *((name, np.float32) for name in ("depart", "back", "jitter", "jitter_back")),
        *((name, np.float32) for name in (*CHANCES, "dwell")),
    ]
)


class Person(NamedTuple):
    """A user on the network.

    Attributes
    ----------
    minutes
        Minutes between stations, shape (station, station).
    diary
        Reports so far.
    rois
        Stations of the user's places, shape (place,).
    dwell
        Factor of the time between errands.
    """

    minutes: Floats
    diary: simulation.Diary
    rois: Ints
    dwell: float


class Commuters:
    """Draws commuters, block by block, in the city ``name``."""

    block = 8192

    def __init__(self, name: str, n_rois: int, n_epochs: int) -> None:
        self.n_epochs = n_epochs
        self.regions = simulation.scatter(
            name, "station", n_rois, lat=51.512, lon=-0.12, radius=9.0, spacing=0.35
        )
        size = simulation.heavy_tailed(name, n_rois, sigma=SIZE[0], cap=SIZE[1])
        inner = np.exp(-simulation.from_centre(self.regions) / CENTRE)
        self._home = simulation.cumulative(size * (1.0 - OUTSKIRTS * inner))
        self._work = simulation.cumulative(size * inner)
        minutes = np.minimum(MINUTES_PER_KM * simulation.distances(self.regions), MAX_MINUTES)
        self._leisure = simulation.cumulative(size * (ANYWHERE + inner))
        self._minutes = minutes.astype(np.float32)

    def draw(self, rng: np.random.Generator, n_users: int) -> tuple[Ints, Ints]:
        """Return events of each user, shape (user,), and their cells, shape (event,)."""
        habits = self._habits(rng)
        return _simulate(rng, n_users, habits, self._minutes, self._leisure, self.n_epochs)

    def _habits(self, rng: np.random.Generator) -> Habits:
        """Draw a whole block, even if fewer users are needed, so that the first stay the same."""
        n = self.block
        home, work = (
            simulation.choose(self._home, rng.random(n)),
            simulation.choose(self._work, rng.random(n)),
        )
        works = np.tile(np.arange(7) < 5, (n, 1))
        shift = rng.random(n) < SHIFT_WORKERS
        works[shift] = rng.permuted(works[shift], axis=1)
        roamer = rng.random(n) < ROAMERS
        z = rng.standard_normal((6, n))
        zeal = np.exp(ZEAL * z[0])
        habits = np.zeros(n, HABIT)
        habits["home"] = home
        habits["work"] = np.where(work == home, (work + 1) % len(self.regions), work)
        habits["n_places"] = np.clip(PLACES[0] * np.exp(PLACES[1] * z[1]), 3, MAX_PLACES)
        habits["works"] = works
        habits["depart"] = DEPART[0] + DEPART[1] * z[2]
        habits["back"] = BACK[0] + BACK[1] * z[3]
        habits["jitter"] = JITTER * np.exp(0.5 * z[4])
        habits["jitter_back"] = JITTER_BACK * np.exp(0.5 * z[5])
        for name, chance in CHANCES.items():
            habits[name] = np.where(roamer, ROAMING, np.minimum(chance * zeal, ROAMING))
        habits["dwell"] = np.where(roamer, HASTE, 1.0)
        return habits


@kernel
def _simulate(
    rng: np.random.Generator,
    n_users: int,
    habits: Habits,
    minutes: Floats,
    leisure: Floats,
    n_epochs: int,
) -> tuple[Ints, Ints]:
    diary, rois = simulation.blank_diary(MAX_REPORTS), np.empty(MAX_PLACES, np.int32)
    sizes, cells = np.empty(n_users, np.int64), np.empty(n_users * MAX_REPORTS, np.int32)
    end = 0
    for user in range(n_users):
        simulation.start_over(diary)
        habit = habits[user]
        own = rois[: _settle(rng, habit, leisure, rois)]
        person = Person(minutes, diary, own, habit.dwell)
        now = 0.0
        for day in range(n_epochs * HOUR // DAY):
            first = max(day * DAY, now)  # a late evening shortens the next day
            if habit.works[day % 7] and rng.random() >= LEAVE:
                now = _work(rng, habit, person, day * DAY, first)
            else:
                now = max(first, day * DAY + 540.0 + 300.0 * rng.random())
                now = _errands(rng, person, HOME, now, day * DAY + 1320.0, habit.outing)
        start = end
        end = simulation.collect(diary, own, n_epochs, cells, start)
        sizes[user] = end - start
    return sizes, cells[:end].copy()  # frees the unused rest


@kernel
def _settle(rng: np.random.Generator, habit: Any, leisure: Floats, rois: Ints) -> int:
    """Fill in the user's places; return their number."""
    rois[HOME], rois[WORK] = habit.home, habit.work
    n = 2
    for _ in range(habit.n_places - 2):
        n = simulation.add_place(rois, n, int(np.searchsorted(leisure, rng.random(), side="right")))
    return n


@kernel
def _work(rng: np.random.Generator, habit: Any, person: Person, midnight: int, now: float) -> float:
    """Simulate a working day; return the minute in which it ends."""
    depart = midnight + habit.depart + habit.jitter * _normal(rng)
    back = midnight + habit.back + habit.jitter_back * _normal(rng)
    now = _trip(rng, person, HOME, WORK, max(now, depart))
    now = now + 60.0 + 120.0 * rng.random()
    now = _errands(rng, person, WORK, now, back - 90.0, habit.midday)
    now = max(now + 5.0, back)
    here = WORK
    if rng.random() < habit.detour:
        here = _favourite(rng, person.rois)
        now = _trip(rng, person, WORK, here, now) + 60.0 + 90.0 * rng.random()
    now = _trip(rng, person, here, HOME, now) + 30.0
    return _errands(rng, person, HOME, now, midnight + 1290.0, habit.evening)


@kernel
def _errands(
    rng: np.random.Generator, person: Person, base: int, now: float, until: float, again: float
) -> float:
    """Simulate errands that end at ``base``; return the minute in which they end."""
    here = base
    while now < until and rng.random() < again:
        there = _favourite(rng, person.rois)
        if there != here:
            now = _trip(rng, person, here, there, now)
            here = there
        now += person.dwell * (DWELL[0] + DWELL[1] * rng.random())
    if here != base:
        now = _trip(rng, person, here, base, now)
    return now


@kernel
def _trip(rng: np.random.Generator, person: Person, here: int, there: int, now: float) -> float:
    simulation.note(person.diary, here, int(now) // HOUR)
    minutes = person.minutes[person.rois[here], person.rois[there]]
    now += minutes * (0.8 + 0.4 * rng.random())
    simulation.note(person.diary, there, int(now) // HOUR)
    return now


@kernel
def _favourite(rng: np.random.Generator, rois: Ints) -> int:
    return WORK + int((len(rois) - WORK) * rng.random() ** LOYALTY)


@kernel
def _normal(rng: np.random.Generator) -> float:
    """Return a scaled sum of four uniforms: approximately standard normal, and bounded."""
    return (rng.random() + rng.random() + rng.random() + rng.random() - 2.0) * SQRT_3
