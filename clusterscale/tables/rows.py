"""Rows of place, time and value, laid out over (place, epoch); every cell once, or an error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints, Values
from clusterscale.errors import SourceError
from clusterscale.tables.content import PublishedTotals
from clusterscale.validation_messages import quote

__all__ = ["Rows", "TableLayout", "lay_out"]

_MOST_CELLS = 1 << 31
_UTC = "datetime64[s]"


@dataclass(slots=True, eq=False)
class Rows:
    """Decoded rows of a table.

    Attributes
    ----------
    places
        Names, by code.
    place
        Code of the place of each row, int64, shape (row,); −1: a total over places.
    time
        UTC seconds or numbers of epochs, int64, shape (row,).
    all_times
        Whether a row is a total over times, bool, shape (row,).
    value
        float64, shape (row,); NaN = hidden.
    slots
        Whether times are numbers of epochs.
    file
        Name of the file, for messages.
    """

    places: list[str]
    place: Ints
    time: Ints
    all_times: NDArray[np.bool_]
    value: Values
    slots: bool
    file: str

    def name(self, row: int) -> str:
        """Return the place and time of a row, for messages."""
        place = "all places" if self.place[row] < 0 else quote(self.places[self.place[row]])
        if self.all_times[row]:
            return f"{place}, all times"
        time = int(self.time[row])
        return f"{place}, {time if self.slots else np.datetime64(time, 's')}"


@dataclass(frozen=True, slots=True, eq=False)
class TableLayout:
    """Values over (place, epoch), float64, NaN = hidden; the names of both, and totals."""

    values: Values
    places: tuple[str, ...]
    epochs: NDArray[np.generic]
    totals: PublishedTotals


def lay_out(rows: Rows, *, step: int | None, absent: str | None, add_up: bool) -> TableLayout:
    """Lay rows out over places, sorted by name, and all epochs from the first to the last.

    Parameters
    ----------
    rows
        The rows.
    step
        Seconds of an epoch; None: the shortest time between two epochs.
    absent
        What a cell without a row is: ``zero`` or ``hidden``; None: an error.
    add_up
        Whether several rows of one cell are added.

    Raises
    ------
    SourceError
        If there is no row, a cell has several, times are not a step apart, or cells are absent.
    """
    inner = (rows.place >= 0) & ~rows.all_times
    if not inner.any():
        raise SourceError(f"{rows.file}: the table has no rows with values")
    first, n_epochs, step = _axis(rows, inner, step, add_up)
    order = np.argsort(np.array(rows.places, object), kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    n_places = len(order)
    if n_places * n_epochs > _MOST_CELLS:
        raise SourceError(
            f"{rows.file}: {n_places:,} places at {n_epochs:,} epochs of "
            f"{step} s are more than {_MOST_CELLS:,} cells"
        )
    epoch = np.where(rows.all_times, n_epochs, (rows.time - first) // step)
    place = np.where(rows.place < 0, n_places, rank[rows.place])
    _check_epochs(rows, epoch, n_epochs)
    shape = (n_places + 1, n_epochs + 1)  # the last of each are totals
    table, given = _fill(rows, place * shape[1] + epoch, shape, add_up)
    cells, present = table[:-1, :-1], given[:-1, :-1]
    if not present.all():
        cells = _absent(rows, cells, present, absent, order, first, step)
    epochs = np.arange(n_epochs) * step + first
    totals = PublishedTotals(
        table[:-1, -1].copy() if given[:-1, -1].any() else None,
        table[-1, :-1].copy() if given[-1, :-1].any() else None,
    )
    names = tuple(rows.places[i] for i in order)
    axis = epochs if rows.slots else epochs.astype(_UTC)
    return TableLayout(np.ascontiguousarray(cells), names, axis, totals)


def _refuse_repeated(rows: Rows, cell: Ints) -> None:
    """Raise :class:`SourceError` if two rows have the same cell, (row,)."""
    n_rows = np.bincount(cell)
    if (n_rows > 1).any():
        twice = int(np.argmax(n_rows > 1))
        row = int(np.flatnonzero(cell == twice)[1])
        raise SourceError(
            f"{rows.file}: {rows.name(row)} is listed {n_rows[twice]} times: set `add_rows: true` "
            "if values of one cell are to be added"
        )


def _axis(
    rows: Rows, inner: NDArray[np.bool_], step: int | None, add_up: bool
) -> tuple[int, int, int]:
    """Return the first epoch, the number of epochs, and their step."""
    times = np.unique(rows.time[inner])
    first, gaps = int(times[0]), np.diff(times)
    if rows.slots:
        step = 1
    elif step is None:
        if not len(gaps):
            if not add_up:
                _refuse_repeated(rows, 2 * (rows.place + 1) + rows.all_times)
            raise SourceError(f"{rows.file}: the table has one time: set `step`, as in 1h")
        step = int(gaps.min())
    off = np.flatnonzero((times - first) % step)
    if len(off):
        wrong = np.datetime64(int(times[off[0]]), "s")
        raise SourceError(
            f"{rows.file}: times are not {step} s apart: {wrong} is not a multiple of it after "
            f"{np.datetime64(first, 's')}"
        )
    return first, int((times[-1] - first) // step) + 1, step


def _check_epochs(rows: Rows, epoch: Ints, n_epochs: int) -> None:
    """Refuse totals at times that have no values."""
    outside = np.flatnonzero((epoch < 0) | (epoch > n_epochs))
    if len(outside):
        row = int(outside[0])
        raise SourceError(f"{rows.file}: there is a total for {rows.name(row)}, but no values")


def _fill(
    rows: Rows, cell: Ints, shape: tuple[int, int], add_up: bool
) -> tuple[Values, NDArray[np.bool_]]:
    """Return the values of all cells, and which have a row."""
    if not add_up:
        _refuse_repeated(rows, cell)
    n_rows = np.bincount(cell, minlength=shape[0] * shape[1])
    table = np.full(shape[0] * shape[1], np.nan)
    if add_up:  # a hidden row hides the sum
        sums = np.bincount(cell, weights=rows.value, minlength=len(table))
        table[n_rows > 0] = sums[n_rows > 0]
    else:
        table[cell] = rows.value
    return table.reshape(shape), (n_rows > 0).reshape(shape)


def _absent(
    rows: Rows,
    cells: Values,
    present: NDArray[np.bool_],
    absent: str | None,
    order: Ints,
    first: int,
    step: int,
) -> Values:
    if absent is None:
        place, epoch = (int(i) for i in np.argwhere(~present)[0])
        time = epoch * step + first
        shown = time if rows.slots else np.datetime64(time, "s")
        raise SourceError(
            f"{rows.file}: {int((~present).sum()):,} of {present.size:,} cells have no row, "
            f"such as {quote(rows.places[order[place]])}, {shown}: set `absent` to zero or hidden"
        )
    return np.where(present, cells, 0.0 if absent == "zero" else np.nan)
