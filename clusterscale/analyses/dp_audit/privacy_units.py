"""Privacy units, which a guarantee protects: an event, a day or a user, as cells that change."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import CellCoordinates, Ints, Mechanism, Traces
from clusterscale.cube.bounds import find_largest
from clusterscale.mechanisms.accounting import needs_equal_numbers

Replaced = Literal["replaced_event", "replaced_user_day", "replaced_user", "replaced_roi_series"]
Kind = Literal["event", "user_day", "user", "roi_series", "answer"] | Replaced
Index = NDArray[np.int64]

_SURVEYED: tuple[Kind, ...] = ("event", "user_day", "user", "roi_series")


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One unit of data of one user.

    ``inside`` are the flat cells in which the user is counted with the unit, ``outside`` those
    without it, both sorted, shape (event,), including cells of the null ROI if there is one.
    """

    user: int
    inside: Ints
    outside: Ints


_REPLACED: dict[str, Replaced] = {
    kind.removeprefix("replaced_"): kind for kind in get_args(Replaced)
}


def kind_of(mechanism: Mechanism) -> Kind | None:
    """Return the unit in which neighbouring inputs differ, None without a guarantee.

    If neighbours replace data of a user and each count has noise of its own, the unit is an
    ``answer``: the report of the user on one cell, which changes no other cell. Else the unit is
    replaced by a single event, so the two usually have different numbers of events.
    """
    guarantee = mechanism.guarantee
    if guarantee.unit == "none" or not np.isfinite(guarantee.epsilon):
        return None
    if guarantee.neighbours == "add_remove":
        return guarantee.unit
    is_user = guarantee.unit == "user"
    return _REPLACED[guarantee.unit] if is_user or needs_equal_numbers(mechanism) else "answer"


def measured_as(kind: Kind) -> Kind:
    """Return the unit of a survey whose size says how much one of this kind may change."""
    base: Any = kind.removeprefix("replaced_")
    return "user" if kind == "answer" else base


@dataclass(frozen=True, slots=True)
class Largest:
    """Size of the largest unit of some users, in visits that change, and the first user with it.

    The size is 0 if none of them has such a unit.
    """

    size: int
    user: int


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Statistics of the units of some users.

    Attributes
    ----------
    largest
        The largest unit of each kind, except answers, which all have the same size.
    n_counted
        int64, shape (2, block): in each block, users with a unit that includes idle epochs, and
        users with a unit that does not.
    block
        Number of users in a block.
    """

    largest: dict[Kind, Largest]
    n_counted: Index
    block: int

    def plus(self, other: "Survey") -> "Survey":
        """Return the statistics of these users and of those that follow them."""
        largest = {
            kind: max(mine, other.largest[kind], key=lambda unit: unit.size)
            for kind, mine in self.largest.items()
        }
        n_counted = np.concatenate([self.n_counted, other.n_counted], axis=1)
        return Survey(largest, n_counted, self.block)


def survey_units(traces: Traces, frame: CellCoordinates, *, block: int) -> Survey:
    """Return statistics of the units of all loaded users.

    Parameters
    ----------
    traces
        Their traces over the period, with or without a null ROI; the first user begins a block.
    frame
        Places and times of their cells; only days are used.
    block
        Number of users to count together.
    """
    counted = _n_counted(traces)
    sizes, who = find_largest(traces, frame.days, frame.last_days)
    units = map(Largest, sizes[:-1].tolist(), (who[:-1] + traces.first).tolist())
    largest = dict(zip(_SURVEYED, units, strict=True))
    starts = np.arange(0, traces.n_held, block)
    any_of = np.stack([counted > 0, np.diff(traces.offsets) > 0])
    return Survey(largest, np.add.reduceat(any_of, starts, axis=1, dtype=np.int64), block)


def largest_unit(kind: Kind, traces: Traces, user: int, frame: CellCoordinates) -> Unit | None:
    """Return the unit of one user that changes the counts most, the first of equals; or None.

    For the user that a :class:`Survey` of all users names, it is as large as the
    :class:`~clusterscale.contracts.Bounds`, so noise that is scaled to less shows here first.

    Parameters
    ----------
    kind
        Kind of unit.
    traces
        Traces over the period that include the user's, with or without a null ROI.
    user
        Index of the user.
    frame
        Places and times of cells; only days are used.
    """
    parts = _parts(kind, traces, user, frame)
    if measured_as(kind) == "event":  # thousands, of two sizes: alone in an epoch, or not
        _, index, n = np.unique(parts % traces.n_epochs, return_inverse=True, return_counts=True)
        parts = parts[np.argsort(n[index] > 1, kind="stable")][:1]
    elif kind == "answer":
        parts = parts[:1]
    return max((_unit(kind, traces, user, frame, part) for part in parts), key=_size, default=None)


def busiest_event(traces: Traces, user: int, kind: Kind, frame: CellCoordinates) -> Unit | None:
    """Return the first event on the busiest day of a user: without it, a cap lets in another."""
    day = largest_unit("user_day", traces, user, frame)
    if day is None:
        return None
    return _unit(kind, traces, user, frame, int(np.setdiff1d(day.inside, day.outside)[0]))


def draw_unit(
    kind: Kind,
    survey: Survey,
    find: Callable[[int], Traces],
    frame: CellCoordinates,
    *,
    rng: np.random.Generator,
) -> Unit | None:
    """Return a random unit of a random user; None if no user has one.

    Parameters
    ----------
    kind
        Kind of unit.
    survey
        Statistics of all users.
    find
        Returns the traces of the block of a user.
    frame
        Places and times of cells.
    rng
        Source of randomness.
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


def _parts(kind: Kind, traces: Traces, user: int, frame: CellCoordinates) -> Ints:
    """Return what identifies the units of a user: cells, days, ROIs, or the user."""
    trace = traces.trace(user)
    if kind in _REPLACED.values():
        trace = trace[: _n_events(traces, user)]
        kind = measured_as(kind)
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
    """Return a unit of one user: the event in the cell, or on the day, or in the ROI ``part``.

    Without an event or a day, epochs become idle; they are counted in the null ROI if there is one.
    A day has all events in epochs on it, even if an epoch is also on another day. A series,
    including that of the null ROI, and an answer change no other cells.
    """
    trace = traces.trace(user)
    if kind in _REPLACED.values():
        return _replaced(measured_as(kind), traces, user, frame, part)
    if kind == "user":
        return Unit(user, trace, trace[:0])
    if kind == "answer":
        return Unit(user, trace, trace[trace != part])
    if kind == "roi_series":
        return Unit(user, trace, trace[trace // traces.n_epochs != part])
    n_events = _n_events(traces, user)
    events, nowhere = trace[:n_events], trace[n_events:]
    gone = _gone(kind, traces, events, frame, part)
    return Unit(user, trace, _without(traces, events, nowhere, gone))


def _gone(
    kind: Kind, traces: Traces, events: Ints, frame: CellCoordinates, part: int
) -> NDArray[np.bool_]:
    """Return which events are of a unit."""
    epochs = events % traces.n_epochs
    if kind == "user_day":
        return np.asarray((frame.days[epochs] <= part) & (part <= frame.last_days[epochs]))
    if kind == "roi_series":
        return np.asarray(events // traces.n_epochs == part)
    return np.full(len(events), True) if kind == "user" else events == part


def _replaced(kind: Kind, traces: Traces, user: int, frame: CellCoordinates, part: int) -> Unit:
    """Return a unit in whose place is one event, where the user was not."""
    trace, n_events = traces.trace(user), _n_events(traces, user)
    events, nowhere = trace[:n_events], trace[n_events:]
    gone = _gone(kind, traces, events, frame, part)
    roi, epoch = divmod(int(events[gone][0]), traces.n_epochs)
    n_rois = traces.n_rois - traces.null_roi
    places: Ints = np.arange(n_rois) * traces.n_epochs + epoch
    if kind == "roi_series":
        places = roi * traces.n_epochs + np.setdiff1d(np.arange(traces.n_epochs), nowhere)
    one = np.setdiff1d(places, events)[:1].astype(events.dtype)
    every, stays = np.append(events, one), np.append(~gone, np.ones(len(one), bool))
    return Unit(user, trace, np.sort(_without(traces, every, nowhere, ~stays)))


def _n_events(traces: Traces, user: int) -> int:
    at = user - traces.first
    return int(traces.offsets[at + 1] - traces.offsets[at])


def _without(traces: Traces, events: Ints, nowhere: Ints, gone: NDArray[np.bool_]) -> Ints:
    """Return the cells of a user without the removed events, with epochs that become idle."""
    kept = events[~gone]
    if not traces.null_roi:
        return kept
    fallen = np.setdiff1d(events[gone] % traces.n_epochs, kept % traces.n_epochs)
    idle = np.union1d(nowhere, traces.n_cells - traces.n_epochs + fallen)
    return np.concatenate([kept, idle.astype(kept.dtype)])


def _size(unit: Unit) -> int:
    return len(np.setxor1d(unit.inside, unit.outside, assume_unique=True))


_OF_NOWHERE = ("user", "roi_series", "answer")  # units that include idle epochs


def _n_counted(traces: Traces) -> Index:
    """Return the number of cells in which each loaded user is counted, shape (user,)."""
    counted: Index = np.diff(traces.offsets)
    return counted if traces.idle is None else counted + traces.idle.sum(axis=1)
