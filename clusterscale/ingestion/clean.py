"""Clean the records of one task into visits; each record is kept or counted under a reason."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from clusterscale.cube.calendar import Calendar
from clusterscale.cube.regions import Locator
from clusterscale.ingestion.inputs import pseudonyms
from clusterscale.ingestion.merge import UserCells, combine, distinct
from clusterscale.ingestion.records import LIMITS, Place, Position, Reader, Records
from clusterscale.ingestion.report import ReadingReport
from clusterscale.reading.decode import UNDECODED, Ids
from clusterscale.reading.sources import Pack, Piece, reading
from clusterscale.reading.values import is_empty

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Cleaner:
    """Converts a pack of pieces into visits.

    ``locator`` finds the place of a position, unless the reader gives places, of which ``names``
    are all; ``strata`` are the categories, if each place has a ROI for each of them; ``key``
    replaces user ids by keyed hashes.
    """

    reader: Reader
    locator: Locator | None
    names: tuple[str, ...]
    calendar: Calendar
    key: bytes | None = field(default=None, repr=False)
    strata: tuple[str, ...] = ()

    def __call__(self, pack: Pack) -> tuple[pd.DataFrame, ReadingReport]:
        """Return the visits of a pack, one row per user, and the counts of its records."""
        tally, parts = ReadingReport(), []
        for piece in pack:
            tally.file(piece.file.name)
            for records in _records(self.reader, piece):
                parts.append(self._bin(records, piece.file.name, tally))
        visits, n_twice = combine(parts, self.n_cells)
        tally.dropped["duplicate"] += n_twice
        return visits.frame(), tally

    @property
    def n_cells(self) -> int:
        """Size of the grid of cells."""
        return len(self.names) * max(len(self.strata), 1) * self.calendar.n_epochs

    def _bin(self, records: Records, file: str, tally: ReadingReport) -> UserCells:
        counts, n_malformed = tally.file(file), records.malformed.count
        counts.n_records += len(records) + n_malformed + records.left_out.count
        counts.n_left_out += records.left_out.count
        counts.n_unread += n_malformed
        tally.dropped["unparsable"] += n_malformed
        tally.dropped["left_out_by_where"] += records.left_out.count
        tally.add_texts(records.left_out.texts)
        rows = _usable(records, tally, file)
        time = records.time.values[rows]
        tally.time.add(time)
        epoch = self.calendar.locate(time)
        rows, epoch = _drop(tally, "outside_period", epoch >= 0, rows, epoch)
        if isinstance(records.place, Position):
            tally.lat.add(records.place.lat.values[rows])
            tally.lon.add(records.place.lon.values[rows])
        roi = self._roi(records, rows)
        reason = "outside_region" if isinstance(records.place, Position) else "unknown_roi"
        rows, epoch, roi = _drop(tally, reason, roi >= 0, rows, epoch, roi)
        cells = roi.astype(np.int64) * self.calendar.n_epochs + epoch
        return self._collapse(records.user, rows, cells, tally)

    def _roi(self, records: Records, rows: Any) -> NDArray[np.integer[Any]]:
        place = records.place
        roi: NDArray[np.integer[Any]]
        if isinstance(place, Position):
            assert self.locator is not None
            roi = self.locator.locate(place.lat.values[rows], place.lon.values[rows])
        else:
            roi = _index_of(place, self.names, rows)
        if not self.strata:
            return roi
        assert records.stratum is not None
        stratum = _index_of(records.stratum, self.strata, rows)
        return np.where((roi < 0) | (stratum < 0), -1, roi * len(self.strata) + stratum)

    def _collapse(
        self, user: Ids, rows: Any, cells: NDArray[np.int64], tally: ReadingReport
    ) -> UserCells:
        keys = user.codes[rows].astype(np.int64) * self.n_cells + cells
        unique = distinct(keys)
        tally.dropped["duplicate"] += len(keys) - len(unique)
        codes, cells = np.divmod(unique, self.n_cells)
        used = distinct(codes.copy())
        sizes = np.diff(np.searchsorted(codes, used), append=len(codes))
        names = user.names.take(pa.array(used))
        if self.key is not None:
            names = pa.array(pseudonyms(names.to_pylist(), self.key), pa.string())
        return UserCells(names, sizes.astype(np.int64), cells)


def _index_of(ids: Ids, names: tuple[str, ...], rows: Any) -> NDArray[np.integer[Any]]:
    """Return the position of each row's name in ``names``, −1 where it is none of them."""
    index = pc.index_in(ids.names, value_set=pa.array(names, pa.string()))
    known = index.fill_null(-1).to_numpy(zero_copy_only=False)
    codes = ids.codes[rows]
    return np.asarray(known[codes] if len(known) else codes)


def _usable(records: Records, tally: ReadingReport, file: str) -> Any:
    """Return the readable rows with valid positions; count and explain the others."""
    unparsable = np.zeros(len(records), np.bool_)
    for column in records.columns:
        unparsable |= column.bad
    no_place = unparsable & _no_place(records.place) if unparsable.any() else unparsable
    out_of_range = _beyond(records) & ~unparsable
    tally.dropped["no_place"] += int(no_place.sum())
    tally.dropped["unparsable"] += int((unparsable & ~no_place).sum())
    tally.dropped["out_of_range"] += int(out_of_range.sum())
    invalid = unparsable | out_of_range
    counts = tally.file(file)
    if not counts.fault:
        counts.fault = _explain(records, invalid)
    if not invalid.any():
        return slice(None)
    counts.n_unread += int(invalid.sum())
    return np.flatnonzero(~invalid)


def _no_place(place: Place) -> Mask:
    """Return which rows have an empty place, or an empty latitude or longitude."""
    if isinstance(place, Ids):
        return np.asarray(place.bad & (place.codes != UNDECODED))
    return is_empty(place.lat.raw) | is_empty(place.lon.raw)


def _beyond(records: Records) -> Mask:
    place = records.place
    if not isinstance(place, Position):
        return np.zeros(len(records), np.bool_)
    with np.errstate(invalid="ignore"):
        return (np.abs(place.lat.values) > LIMITS["lat"]) | (
            np.abs(place.lon.values) > LIMITS["lon"]
        )


def _explain(records: Records, invalid: Mask) -> str:
    """Return what is wrong with the first invalid row; ``{file}`` is a placeholder."""
    if not invalid.any():
        if records.malformed.count == 0:
            return ""
        return "{file}: the first bad line " + records.malformed.fault
    row = int(np.argmax(invalid))
    for column in records.columns:
        if column.bad[row]:
            return _locate(column.name, column.fault(row))
    place = records.place
    assert isinstance(place, Position)
    for number, limit in ((place.lat, LIMITS["lat"]), (place.lon, LIMITS["lon"])):
        if abs(number.values[row]) > limit:
            return _locate(number.name, f"is beyond ±{limit:.0f} degrees")
    raise AssertionError("an invalid row has an invalid column")


def _locate(column: str, fault: str) -> str:
    literal = f"column {column} of ".replace("{", "{{").replace("}", "}}")
    return literal + "{file}: the first bad value " + fault.replace("{", "{{").replace("}", "}}")


def _drop(
    tally: ReadingReport, reason: str, kept: Mask, rows: Any, *others: Any
) -> tuple[Any, ...]:
    n_dropped = len(kept) - int(kept.sum())
    if n_dropped == 0:
        return (rows, *others)
    tally.dropped[reason] += n_dropped
    rows = np.flatnonzero(kept) if isinstance(rows, slice) else rows[kept]
    return (rows, *(other[kept] for other in others))


def _records(reader: Reader, piece: Piece) -> Iterator[Records]:
    """Yield the records of a piece; errors of libraries on damaged files are ours."""
    batches = reader.read(piece)
    while True:
        with reading(piece.file.name):
            records = next(batches, None)
        if records is None:
            return
        yield records


def names_in(reader: Reader, pack: Pack) -> tuple[set[str], set[str], ReadingReport]:
    """Return the names of the places in a pack, its categories, and texts in ``where`` columns."""
    names, tally = (set[str](), set[str]()), ReadingReport()
    for piece in pack:
        for records in _records(reader, piece):
            for found, ids in zip(names, (records.place, records.stratum), strict=True):
                if isinstance(ids, Ids):
                    used = np.unique(ids.codes[ids.codes >= 0])
                    found.update(ids.names.take(pa.array(used)).to_pylist())
            tally.add_texts(records.left_out.texts)
    return *names, tally
