"""Rows of place, time and value, laid out over (place, epoch); every cell once, or an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints, Values
from clusterscale.cube.calendar import Step
from clusterscale.errors import SourceError
from clusterscale.jit import kernel
from clusterscale.reading.places import IntegerCodes
from clusterscale.reading.values import NOT_COVERED, SECONDARY, Band, are_bands, band_ends, bands_in
from clusterscale.release.content import PublishedTotals, RawRelease
from clusterscale.storage.address import check_memory
from clusterscale.validation_messages import plural, quote

EMPTY = -np.inf
"""Value of cells that were not filled; tables have no infinite values."""

_GROWTH = 1.25
_SHORTEST_DAY = 23 * 3600  # seconds, where clocks change


@kernel
def _fill(
    cells: Values, row: Ints, column: Ints, value: Values, add_up: bool, repeated: Ints
) -> int:
    """Fill empty cells, or add to others in order; write which were filled before, return how many.

    NaN makes a sum NaN.
    """
    n_repeated = 0
    for i in range(len(row)):
        if cells[row[i], column[i]] == EMPTY:
            cells[row[i], column[i]] = value[i]
            continue
        repeated[n_repeated] = i
        n_repeated += 1
        if add_up:
            cells[row[i], column[i]] += value[i]
    return n_repeated


_CELL, _NAME = 16, 150  # bytes of memory of a cell, and of the name of a place
_UTC = "datetime64[s]"
_MOST_ROW_VALUES = 1 << 16
_SAMPLE = 64  # places and times of which the sum and the largest of rows are kept

_Flags = NDArray[np.bool_]
_Cell = tuple[bool, str, bool, int]  # total over places, place, total over times, time: sorted so


@dataclass(slots=True, eq=False)
class Rows:
    """Decoded rows of a table, which are put into their cells as they come and are not kept.

    ``places`` are names by code, and may grow between batches; ``slots`` says whether times are
    numbers of epochs. If ``add_up`` is set, ``n_added`` rows were added to others of one cell, and
    ``row_values`` are the smallest distinct values of rows, ascending, at most 65,536. With
    ``in_order``, a second row in an hour that clocks repeat is that of the second hour.
    ``unmatched`` are columns and texts in them that were looked for and are in no row.
    ``describe_parts`` returns by which columns the rows of a place and time differ, and a remedy.
    """

    places: Sequence[str]
    slots: bool
    file: str
    add_up: bool = False
    in_order: bool = False
    describe_parts: Callable[[str, int], str] = lambda place, time: ""
    timezone: str = field(default="UTC", init=False)
    n_added: int = field(default=0, init=False)
    n_skipped: int = field(default=0, init=False)
    bands: set[Band] = field(default_factory=set, init=False)
    unmatched: set[tuple[str, str]] = field(default_factory=set, init=False)
    row_values: Values = field(default_factory=lambda: np.empty(0), init=False)
    # Over (row, column), of which 0 are totals over the others; both may grow.
    _cells: Values = field(default_factory=lambda: np.empty((0, 0)))
    _times: IntegerCodes = field(default_factory=IntegerCodes)
    _has_values: _Flags = field(default_factory=lambda: np.zeros(0, np.bool_))  # by code of time
    _repeated: tuple[_Cell, int] | None = None
    _hours: set[int] = field(default_factory=set)  # that clocks repeat, with several rows of a cell
    _sample: Values = field(default_factory=lambda: np.zeros((2, _SAMPLE, _SAMPLE)))

    @property
    def n_times(self) -> int:
        """Number of times with values."""
        return int(self._has_values.sum())

    def add(
        self,
        place: Ints,
        time: Ints,
        all_times: _Flags,
        value: Values,
        second: Ints | int = -1,
    ) -> None:
        """Add a batch of rows, all of shape (row,).

        ``place`` is a code, int64, −1 for a total over places; ``time`` UTC seconds or a number of
        an epoch, int64; ``all_times`` marks totals over times; ``value`` is float64, NaN if hidden.
        ``second`` is when clocks show the time of a row again, −1 where they do not.
        """
        if (bands := bands_in(value)) and self.add_up:  # their sum has other ends
            value = np.where(are_bands(value), np.nan, value)
        self.bands |= bands
        column = np.zeros(len(time), np.int64)
        column[~all_times] = self._times.encode(time[~all_times]) + 1
        shape = (len(self.places) + 1, len(self._times.keys) + 1)
        flags = np.zeros(shape[1], np.bool_)
        flags[1 : 1 + len(self._has_values)] = self._has_values
        flags[column[place >= 0]] = True
        self._has_values = flags[1:]
        self._check_memory(shape[1], f"{shape[1] - 1:,} times")
        self._reserve(shape)
        repeated = np.empty(len(place), np.int64)
        n_again = _fill(self._cells, place + 1, column, value, self.add_up, repeated)
        again = repeated[:n_again]
        second = np.broadcast_to(second, time.shape)
        later = again[(second[again] >= 0) & ~all_times[again]]
        self._hours.update(time[later].tolist())
        if self.add_up:
            self.n_added += len(again)
            shown = np.unique(value[np.isfinite(value)])
            self.row_values = np.union1d(self.row_values, shown)[:_MOST_ROW_VALUES]
            few = (place >= 0) & (place < _SAMPLE) & (column > 0) & (column <= _SAMPLE)
            cells = place[few], column[few] - 1
            np.add.at(self._sample[0], cells, value[few])
            np.maximum.at(self._sample[1], cells, value[few])
            again = later
        elif self.in_order and len(later):
            self.add(place[later], second[later], all_times[later], value[later])
            again = again[(second[again] < 0) | all_times[again]]
        if len(again):
            self._note(place[again], time[again], all_times[again])

    def lay_out(self, *, step: Step | None, absent: str | None, timezone: str) -> RawRelease:
        """Lay rows out, once, over places sorted by name and all epochs from the first to the last.

        ``step`` is the length of an epoch, by default the shortest time between two; days and
        months are those of ``timezone``. ``absent`` says what a cell without a row is: ``zero``,
        ``hidden``, ``not_covered``, or an error. Raises SourceError if there is no row, a cell has
        several, times are not a step apart, or cells are absent.
        """
        self.timezone = timezone
        if not self._has_values.any():
            raise SourceError(f"{self.file}: the table has no rows with values")
        epochs = self._axis(step, timezone)
        n_places = len(self.places)
        columns = self._columns(epochs)
        self._refuse_repeated()
        self._refuse_totals()
        order = np.array(sorted(range(n_places), key=self.places.__getitem__), np.int64)
        by_epoch = np.where(columns < 0, EMPTY, self._cells[0, columns])
        stated = self._cells[order + 1, 0], by_epoch, self._cells[0, :1]
        totals = PublishedTotals(
            roi=_given(stated[0]),
            epoch=_given(stated[1]),
            grand=_given(stated[2]),
            listed=tuple([~np.isinf(one) & (one != SECONDARY) for one in stated]),
            secondary=tuple([one == SECONDARY for one in stated]),
            band_ends=tuple([band_ends(one) for one in stated]),
        )
        cells = self._cells[np.ix_(order + 1, columns)]
        cells[:, columns < 0] = EMPTY
        self._cells = np.empty((0, 0))
        self._fill_absent(cells, absent, order, epochs)
        gaps, further = np.isposinf(cells), cells == SECONDARY
        ends = band_ends(cells) if are_bands(cells).any() else None
        cells[gaps | further | are_bands(cells)] = np.nan
        names = tuple([self.places[i] for i in order.tolist()])
        times = epochs if self.slots else epochs.astype(_UTC)
        bands = tuple(sorted(self.bands, key=str))
        table = RawRelease(
            cells, names, times, totals, timezone=timezone, bands=bands, band_ends=ends
        )
        if further.any():
            note = f"{int(further.sum()):,} of {gaps.size:,} values are hidden to protect others"
            table = replace(table, secondary=further, notes=(note,))
        if not gaps.any():
            return table
        note = f"{int(gaps.sum()):,} of {gaps.size:,} values are not covered: neither 0 nor hidden"
        return replace(table, not_covered=gaps, notes=(*table.notes, note))

    def _reserve(self, shape: tuple[int, int]) -> None:
        """Enlarge the cells, if they are fewer, by so much that this is rare."""
        old = self._cells
        larger = [
            have if need <= have else max(need, int(have * _GROWTH))
            for need, have in zip(shape, old.shape, strict=True)
        ]
        if larger != [*old.shape]:
            self._cells = np.full(larger, EMPTY)
            self._cells[: old.shape[0], : old.shape[1]] = old

    def _check_memory(self, n_times: int, times: str, remedy: str = "") -> None:
        n_bytes = (len(self.places) + 4) * n_times * _CELL + len(self.places) * _NAME
        check_memory(
            n_bytes, f"{self.file}: {plural(len(self.places), 'place')} at {times}", remedy
        )

    def _note(self, place: Ints, time: Ints, all_times: _Flags) -> None:
        """Keep the first cell, in the order of the layout, that has several rows, and their number.

        If it has no row in this batch, or the cell before has, the number of its rows is known.
        """
        cells: list[_Cell] = [
            (code < 0, "" if code < 0 else self.places[code], total, 0 if total else second)
            for code, second, total in zip(
                place.tolist(), time.tolist(), all_times.tolist(), strict=True
            )
        ]
        cell = min(cells)
        if self._repeated is None or cell < self._repeated[0]:
            self._repeated = cell, 1
        if cell == self._repeated[0]:
            self._repeated = cell, self._repeated[1] + cells.count(cell)

    def _refuse_repeated(self) -> None:
        """Raise :class:`SourceError` if several rows have the same cell."""
        if self._repeated is not None:
            (all_places, place, all_times, time), n_rows = self._repeated
            where = "all places" if all_places else quote(place)
            when = "all times" if all_times else self._shown(time)
            remedy = "" if all_places or all_times else self.describe_parts(place, time)
            if time in self._hours and not all_times and not self.in_order:
                remedy = "clocks repeat it, and `repeated_hour: in_order` keeps two rows apart"
                remedy += ", which `add_rows` would add" if self.add_up else ""
            remedy = remedy or "keep one row of each"
            raise SourceError(f"{self.file}: {where}, {when} is listed {n_rows} times: {remedy}")

    def _refuse_totals(self) -> None:
        """Raise :class:`SourceError` if the rows that were added are totals and their parts."""
        sums, largest = self._sample
        several = np.nonzero(sums > largest)  # not where values are hidden
        times = set(np.round(sums[several] / largest[several], 6).tolist())
        if len(np.unique(largest[several])) > 1 and times in ({2}, {4}, {8}):
            place, time = (int(at[0]) for at in several)
            name, second = self.places[place], int(self._times.keys[time])
            remedy = self.describe_parts(name, second)
            raise SourceError(
                f"{self.file}: {quote(name)}, {self._shown(second)}: one of its rows is the sum of "
                f"the others, as in all cells, so that they are not added: {remedy}"
            )

    def _shown(self, time: int) -> object:
        if self.slots or self.timezone == "UTC":
            return time if self.slots else np.datetime64(time, "s")
        return datetime.fromtimestamp(time, ZoneInfo(self.timezone)).isoformat()

    def _axis(self, step: Step | None, timezone: str) -> Ints:
        """Return the first second or the number of each epoch, int64, shape (epoch,)."""
        times = np.sort(self._times.keys[self._has_values])
        first, last = int(times[0]), int(times[-1])
        if self.slots:
            step = Step(1)
        elif step is None:
            if len(times) < 2:
                self._refuse_repeated()
                raise SourceError(f"{self.file}: the table has one time: set `step`, as in 1h")
            step = Step.between(times, timezone)
            if step.unit == "second" and _are_days(np.diff(times)):
                return times
        n_epochs, remedy = (last - first + step.seconds // 2) // step.seconds + 1, ""
        what = f"{n_epochs:,} epochs"
        if not self.slots:
            what = f"{what} of {step}, from {self._shown(first)} on"
            remedy = "correct a time that is wrong, set `step` if epochs are longer, or "
        self._check_memory(n_epochs, what, remedy)
        epochs = step.begins(first, n_epochs, timezone)
        off = np.flatnonzero(epochs[_places_in(epochs, times)] != times)
        if len(off):
            raise SourceError(
                f"{self.file}: times are not {step} apart: {self._shown(int(times[off[0]]))} is "
                f"not a multiple of it after {self._shown(first)}"
            )
        return epochs

    def _columns(self, epochs: Ints) -> Ints:
        """Return the column of each epoch, int64, −1 where no row has it.

        Raises SourceError if there is a total for another time.
        """
        times = self._times.keys
        epoch = _places_in(epochs, times)
        outside = np.flatnonzero(epochs[epoch] != times)
        if len(outside):
            time = self._shown(int(times[outside[0]]))
            raise SourceError(
                f"{self.file}: there is a total for all places, {time}, but no values"
            )
        columns = np.full(len(epochs), -1)
        columns[epoch] = np.arange(1, len(times) + 1)
        return columns

    def _fill_absent(self, cells: Values, absent: str | None, order: Ints, epochs: Ints) -> None:
        is_absent = cells == EMPTY
        if not is_absent.any():
            return
        if absent is None:
            place, epoch = np.unravel_index(int(is_absent.argmax()), cells.shape)
            raise SourceError(
                f"{self.file}: {int(is_absent.sum()):,} of {cells.size:,} cells have no row, such "
                f"as {quote(self.places[order[place]])}, {self._shown(int(epochs[epoch]))}: set "
                "`absent` to zero, hidden or not_covered"
            )
        cells[is_absent] = {"zero": 0.0, "hidden": np.nan, "not_covered": NOT_COVERED}[absent]


def _are_days(gaps: Ints) -> bool:
    """Return whether gaps are days, weeks or months in succession, of a zone that is not known."""
    least, most = int(gaps.min()), int(gaps.max())
    return least >= _SHORTEST_DAY and least != most and 7 * most <= 8 * least


def _places_in(epochs: Ints, times: Ints) -> Ints:
    """Return the epoch in which each time is, int64; the first or the last for one outside."""
    return np.asarray(np.clip(np.searchsorted(epochs, times, side="right") - 1, 0, None))


def _given(totals: Values) -> Values | None:
    """Return totals, NaN where there is none; None if there are none at all."""
    absent = totals == EMPTY
    hidden = np.isinf(totals) | (totals == SECONDARY) | are_bands(totals)
    return None if absent.all() else np.where(hidden, np.nan, totals)
