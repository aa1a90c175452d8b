"""What a guarantee hides: one event, one day, one person, as cells that change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Frame, Guarantee, Ints, Traces
from clusterscale.kernel import kernel

__all__ = ["Kind", "Unit", "draw_unit", "kind_of", "largest_unit", "units_of"]

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


def largest_unit(kind: Kind, traces: Traces, frame: Frame) -> Unit | None:
    """Return the unit that changes the counts most, of all users; None where there is none.

    The first of equals. It is as large as :class:`~clusterscale.contracts.Bounds` says, so noise
    that is scaled to less shows here first.

    Parameters
    ----------
    kind
        Of what.
    traces
        Those of all users over the period, with or without a null ROI.
    frame
        Where and when their cells are; asked for days alone.
    """
    if not traces.n_users:
        return None
    if kind in ("user", "answer"):
        most = int(np.argmax(_n_counted(traces)))
    else:
        most = _largest_users(traces, frame)[_MEASURED.index(kind)]
    parts = _parts(kind, traces, most, frame)
    if kind == "event":  # there can be thousands, and two sizes: alone in an hour, or not
        _, place, n = np.unique(parts % traces.n_epochs, return_inverse=True, return_counts=True)
        parts = parts[np.argsort(n[place] > 1, kind="stable")][:1]
    elif kind == "answer":
        parts = parts[:1]
    return max((_unit(kind, traces, most, frame, part) for part in parts), key=_size, default=None)


def draw_unit(kind: Kind, traces: Traces, frame: Frame, *, rng: np.random.Generator) -> Unit | None:
    """Return a unit of a user, both drawn at random; None where nobody has one."""
    counted = _n_counted(traces) if kind in _OF_NOWHERE else np.diff(traces.offsets)
    users = np.flatnonzero(counted)
    if not len(users):
        return None
    user = int(rng.choice(users))
    return _unit(kind, traces, user, frame, rng.choice(_parts(kind, traces, user, frame)))


def units_of(kind: Kind, traces: Traces, user: int, frame: Frame) -> Iterator[Unit]:
    """Yield every unit of one user.

    An event or a day that goes leaves hours idle, which enter the null ROI where there is one. A
    day is all events in epochs that lie on it, even if these lie on another too. A series, the null
    ROI's among them, and an answer change nothing beside them.
    """
    for part in _parts(kind, traces, user, frame):
        yield _unit(kind, traces, user, frame, part)


def _parts(kind: Kind, traces: Traces, user: int, frame: Frame) -> Ints:
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


def _unit(kind: Kind, traces: Traces, user: int, frame: Frame, part: int) -> Unit:
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
    return int(traces.offsets[user + 1] - traces.offsets[user])


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
    """Return in how many cells each user is counted, shape (user,)."""
    counted: Index = np.diff(traces.offsets)
    return counted if traces.idle is None else counted + traces.idle.sum(axis=1)


_MEASURED = ("event", "user_day", "roi_series")


def _largest_users(traces: Traces, frame: Frame) -> tuple[int, int, int]:
    """Return who has the largest event, day and series; the first of equals."""
    day, until = (np.asarray(days - frame.days[0]) for days in (frame.days, frame.last_days))
    n_idle = np.zeros(traces.n_users, np.int64)
    if traces.idle is not None:
        n_idle = traces.idle.sum(axis=1)
    events = traces.offsets, traces.cells, traces.n_epochs
    event, most_day, series = _find_largest(*events, day, until, n_idle, traces.null_roi)
    return int(event), int(most_day), int(series)


@kernel
def _find_largest(
    offsets: Ints,
    cells: Ints,
    n_epochs: int,
    days: Ints,
    until: Ints,
    n_idle: Ints,
    null_roi: bool,
) -> tuple[int, int, int]:
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
    return who[0], who[1], who[2]
