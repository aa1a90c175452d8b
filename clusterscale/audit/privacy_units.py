"""What a guarantee hides: one event, one day, one person, as cells that change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import CellCoordinates, Guarantee, Ints, Traces, check_days
from clusterscale.jit import kernel

__all__ = ["Kind", "Largest", "Survey", "Unit"]
__all__ += ["draw_unit", "kind_of", "largest_unit", "survey_units", "units_of"]

Kind = Literal["event", "user_day", "user", "roi_series", "answer"]
Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One unit of data of one user.

    ``inside`` are the flat cells in which the user is counted with it, ``outside`` those without
    it, both sorted, shape (event,), with those of the null ROI where there is one.
    """

    user: int
    inside: Ints
    outside: Ints


def kind_of(guarantee: Guarantee) -> Kind | None:
    """Return what neighbouring inputs differ in, None where nothing is promised.

    Where neighbours replace data, the unit is one ``answer``: what a user says of one cell, and
    nothing else changes with it.
    """
    if guarantee.unit == "none" or not np.isfinite(guarantee.epsilon):
        return None
    return "answer" if guarantee.neighbours == "replace" else guarantee.unit


@dataclass(frozen=True, slots=True)
class Largest:
    """The size of the largest unit of some users, in visits that change, and the first whose it is.

    The size is 0 where none of them has such a unit.
    """

    size: int
    user: int


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """What is known of the units of some users.

    Attributes
    ----------
    largest
        Of each kind but answers, which are all of a size.
    n_counted
        int64, shape (2, block): users of each block with a unit that idle hours are part of, and
        with one that they are no part of.
    block
        How many users a block has.
    """

    largest: dict[Kind, Largest]
    n_counted: Index
    block: int

    def plus(self, other: Survey) -> Survey:
        """Return what is known of these users and of others, who follow them."""
        largest = {
            kind: max(mine, other.largest[kind], key=lambda each: each.size)
            for kind, mine in self.largest.items()
        }
        n_counted = np.concatenate([self.n_counted, other.n_counted], axis=1)
        return Survey(largest, n_counted, self.block)


def survey_units(traces: Traces, frame: CellCoordinates, *, block: int) -> Survey:
    """Look at the units of all users who are held.

    Parameters
    ----------
    traces
        Theirs over the period, with or without a null ROI; the first begins a block.
    frame
        Where and when their cells are; asked for days alone.
    block
        How many users to count together.
    """
    counted = _n_counted(traces)
    most = int(np.argmax(counted)) if len(counted) else 0
    whole = Largest(int(counted[most]) if len(counted) else 0, traces.first + most)
    largest: dict[Kind, Largest] = {"user": whole, **_largest(traces, frame)}
    starts = np.arange(0, traces.n_held, block)
    any_of = np.stack([counted > 0, np.diff(traces.offsets) > 0])
    return Survey(largest, np.add.reduceat(any_of, starts, axis=1, dtype=np.int64), block)


def largest_unit(kind: Kind, traces: Traces, user: int, frame: CellCoordinates) -> Unit | None:
    """Return the unit of one user that changes the counts most; None where there is none.

    The first of equals. Of the user whom a :class:`Survey` of everyone names, it is as large as
    :class:`~clusterscale.contracts.Bounds` says, so noise that is scaled to less shows here first.

    Parameters
    ----------
    kind
        Of what.
    traces
        The user's, among others, over the period, with or without a null ROI.
    user
        Whose.
    frame
        Where and when cells are; asked for days alone.
    """
    parts = _parts(kind, traces, user, frame)
    if kind == "event":  # there can be thousands, and two sizes: alone in an hour, or not
        _, place, n = np.unique(parts % traces.n_epochs, return_inverse=True, return_counts=True)
        parts = parts[np.argsort(n[place] > 1, kind="stable")][:1]
    elif kind == "answer":
        parts = parts[:1]
    return max((_unit(kind, traces, user, frame, part) for part in parts), key=_size, default=None)


def draw_unit(
    kind: Kind,
    survey: Survey,
    find: Callable[[int], Traces],
    frame: CellCoordinates,
    *,
    rng: np.random.Generator,
) -> Unit | None:
    """Return a unit of a user, both drawn at random; None where nobody has one.

    Parameters
    ----------
    kind
        Of what.
    survey
        Of everyone.
    find
        Returns traces that hold a user and all of their block.
    frame
        Where and when cells are.
    rng
        Source of the draws.
    """
    n_counted = survey.n_counted[0 if kind in _OF_NOWHERE else 1]
    if not n_counted.any():
        return None
    rank, ends = int(rng.integers(n_counted.sum())), np.cumsum(n_counted)
    block = int(np.searchsorted(ends, rank, side="right"))
    traces = find(block * survey.block)
    counted = _n_counted(traces) if kind in _OF_NOWHERE else np.diff(traces.offsets)
    start = block * survey.block - traces.first
    within = np.flatnonzero(counted[start : start + survey.block])
    user = int(block * survey.block + within[rank - (ends[block] - n_counted[block])])
    return _unit(kind, traces, user, frame, rng.choice(_parts(kind, traces, user, frame)))


def units_of(kind: Kind, traces: Traces, user: int, frame: CellCoordinates) -> Iterator[Unit]:
    """Yield every unit of one user.

    An event or a day that goes leaves hours idle, which enter the null ROI where there is one. A
    day is all events in epochs that lie on it, even if these lie on another too. A series, the null
    ROI's among them, and an answer change nothing beside them.
    """
    for part in _parts(kind, traces, user, frame):
        yield _unit(kind, traces, user, frame, part)


def _parts(kind: Kind, traces: Traces, user: int, frame: CellCoordinates) -> Ints:
    """Return what tells the units of a user apart: cells, days, ROIs, or the user."""
    trace = traces.trace(user)
    if kind == "user":
        return np.full(min(1, len(trace)), user)
    if kind == "answer":
        return trace
    if kind == "roi_series":
        return np.unique(trace // traces.n_epochs)
    events = trace[: _n_events(traces, user)]
    if kind == "event":
        return events
    epochs = events % traces.n_epochs
    return np.unique(np.concatenate([frame.days[epochs], frame.last_days[epochs]]))


def _unit(kind: Kind, traces: Traces, user: int, frame: CellCoordinates, part: int) -> Unit:
    trace = traces.trace(user)
    if kind == "user":
        return Unit(user, trace, trace[:0])
    if kind == "answer":
        return Unit(user, trace, trace[trace != part])
    if kind == "roi_series":
        return Unit(user, trace, trace[trace // traces.n_epochs != part])
    n_events = _n_events(traces, user)
    events, nowhere = trace[:n_events], trace[n_events:]
    epochs = events % traces.n_epochs
    gone = events == part
    if kind == "user_day":
        gone = (frame.days[epochs] <= part) & (part <= frame.last_days[epochs])
    return Unit(user, trace, _without(traces, events, nowhere, gone))


def _n_events(traces: Traces, user: int) -> int:
    at = user - traces.first
    return int(traces.offsets[at + 1] - traces.offsets[at])


def _without(traces: Traces, events: Ints, nowhere: Ints, gone: NDArray[np.bool_]) -> Ints:
    """Return the cells of a user whose events are gone, the hours these leave idle among them."""
    kept = events[~gone]
    if not traces.null_roi:
        return kept
    fallen = np.setdiff1d(events[gone] % traces.n_epochs, kept % traces.n_epochs)
    idle = np.union1d(nowhere, traces.n_cells - traces.n_epochs + fallen)
    return np.concatenate([kept, idle.astype(kept.dtype)])


def _size(unit: Unit) -> int:
    return len(np.setxor1d(unit.inside, unit.outside, assume_unique=True))


_OF_NOWHERE = ("user", "roi_series", "answer")  # units that idle hours are part of


def _n_counted(traces: Traces) -> Index:
    """Return in how many cells each user who is held is counted, shape (user,)."""
    counted: Index = np.diff(traces.offsets)
    return counted if traces.idle is None else counted + traces.idle.sum(axis=1)


def _largest(traces: Traces, frame: CellCoordinates) -> dict[Kind, Largest]:
    """Return the largest event, day and series."""
    check_days(frame.days, frame.last_days, traces.n_epochs)
    day, until = (np.asarray(days - frame.days[0]) for days in (frame.days, frame.last_days))
    n_idle = np.zeros(traces.n_held, np.int64)
    if traces.idle is not None:
        n_idle = traces.idle.sum(axis=1)
    events = traces.offsets, traces.cells, traces.n_epochs
    sizes, who = _find_largest(*events, day, until, n_idle, traces.null_roi)
    event, most_day, series = map(Largest, sizes.tolist(), (who + traces.first).tolist())
    return {"event": event, "user_day": most_day, "roi_series": series}


@kernel
def _find_largest(
    offsets: Ints,
    cells: Ints,
    n_epochs: int,
    days: Ints,
    until: Ints,
    n_idle: Ints,
    null_roi: bool,
) -> tuple[Index, Index]:
    """Return the size of the largest event, day and series, and the first user of each."""
    most = np.zeros(3, np.int64)
    who = np.zeros(3, np.int64)
    found = np.zeros(3, np.int64)
    in_epoch = np.zeros(n_epochs, np.int64)
    on_day = np.zeros(until.max() + 1, np.int64)
    for user in range(len(offsets) - 1):
        found[0], found[1], found[2] = 0, 0, n_idle[user]
        in_roi, last = 0, -1
        for i in range(offsets[user], offsets[user + 1]):
            roi, epoch = divmod(cells[i], n_epochs)
            in_epoch[epoch] += 1
            # the hour itself would fall idle, once
            change = 2 if null_roi and in_epoch[epoch] == 1 else 1
            on = on_day[days[epoch] : until[epoch] + 1]
            on += change
            found[1] = max(found[1], on.max())
            in_roi = in_roi + 1 if roi == last else 1
            last = roi
            found[2] = max(found[2], in_roi)
        for i in range(offsets[user], offsets[user + 1]):
            epoch = cells[i] % n_epochs
            if in_epoch[epoch] > 0:
                found[0] = max(found[0], 2 if null_roi and in_epoch[epoch] == 1 else 1)
            in_epoch[epoch] = 0
            on_day[days[epoch] : until[epoch] + 1] = 0
        for kind in range(3):
            if found[kind] > most[kind]:
                most[kind], who[kind] = found[kind], user
    return most, who
