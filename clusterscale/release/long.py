"""Tables with one row per place and time, and the names of their columns by public conventions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import model_validator

from clusterscale.contracts import Ints, NonEmptyUnique, Values
from clusterscale.cube.coded_cells import inspire_code
from clusterscale.errors import DamagedError, InputError, SourceError
from clusterscale.reading import tables as files
from clusterscale.reading.clock import SKIPPED, Clock
from clusterscale.reading.decode import Hours, Ids
from clusterscale.reading.places import ARROW, PairCodes, PlaceCodes
from clusterscale.reading.sources import Piece, folders_of
from clusterscale.reading.tables import TextLayout
from clusterscale.reading.values import (
    HIDDEN_STATUS,
    Codes,
    Spot,
    among,
    decode_values,
    is_empty,
    located_batches,
    names_of,
    rows_by_texts,
    rows_where,
    take_rows,
    text_of,
    texts_in,
)
from clusterscale.release.content import Cell, RawRelease
from clusterscale.release.explanation import CENTRE, UNCERTAIN, explain_columns, list_centres
from clusterscale.release.metadata import is_whole, read_beside, write_beside
from clusterscale.release.rows import Rows
from clusterscale.release.text import TOTAL, Absent, LineTable, Pattern
from clusterscale.storage.address import check_memory
from clusterscale.storage.groups import errors_as
from clusterscale.validation_messages import plural, quote

_TIME_FOLDERS = ("year", "month", "day", "date", "hour", "week", "time")  # of one table
_PIECE = 1 << 24  # bytes of text read at a time
_TEXTS = 1_000  # bytes of memory of different texts in a row
_FLAG = "flag"  # column with a mark of values below their margin
_ADDS = "; `add_rows: true` adds parts that do not overlap, never a total and its parts"


class LongTable(LineTable):
    """CSV or Parquet with a row per place and time: a file, or a folder of one kind.

    Parquet may have other columns too, such as the geometry of GeoParquet. Cells are hidden by a
    text in place of the number, such as ``*`` or ``<5``, by their status, or by the absence of
    their row; zeros are values. A table of trips between places has columns ``origin`` and
    ``destination``, and a ROI for each pair that it lists.

    Attributes
    ----------
    place
        Column with the name of the place, e.g. ``zone``.
    origin, destination
        Columns with the names of two places, instead, e.g. ``origin``.
    time
        Column with the time: ISO 8601, a date, or seconds since 1970, e.g. ``date``.
    at
        Time of all rows, instead of a column, e.g. ``2026-03-02``; then ``step`` is needed.
    at_name
        Regular expression whose group is the time of all rows of a file, in its name, instead, e.g.
        ``flows_(.*)[.]csv``.
    repeated_hour
        What two rows of a place and time are that clocks repeat, e.g. ``in_order`` where the second
        is the later one; by default an error.
    skipped_hour
        What is done with rows of an hour that clocks skip, e.g. ``drop``; by default an error.
    where
        Columns and the texts in them of the rows that are read, e.g. ``{sex: [total]}``; or keys
        and values of folders such as ``level=2``.
    hour
        Column with the hour of the day, if the time is a date, e.g. ``hour``.
    hours
        How hours are numbered: ``0-23``, ``1-24``, or ``hhmm`` for 830 at half past eight.
    count
        Column with the published value, e.g. ``population``.
    status
        Column that says whether a value is hidden, e.g. ``status``.
    hidden_status
        Statuses of hidden values, e.g. ``[c]``.
    absent
        What cells without a row are, e.g. ``hidden``; by default an error.
    empty
        What an empty value is, e.g. ``zero`` where nothing is written if nothing was counted.
    total
        Name of the place in rows that are totals over places, and of the time in those over
        times, e.g. ``Total``.
    add_rows
        Whether several rows of one place and time are added, such as those of age groups.
    header
        Names of all columns of a CSV file whose first line does not name them, e.g. ``[zone,
        time, people]``.
    milliseconds
        Whether times are in milliseconds since 1970.
    inspire
        Whether places are INSPIRE cells, whose short codes, such as ``1kmN2689E4337``, are read as
        the long ones that ``clusterscale ingest --inspire`` gives to ROIs.
    """

    name: Literal["long"] = "long"
    place: str = "place"
    origin: str | None = None
    destination: str | None = None
    time: str = "time"
    at: str | None = None
    at_name: Pattern | None = None
    repeated_hour: Literal["in_order"] | None = None
    skipped_hour: Literal["drop"] | None = None
    where: Mapping[str, Codes] = {}
    hour: str | None = None
    hours: Hours = "0-23"
    count: str = "count"
    status: str | None = None
    hidden_status: Codes = HIDDEN_STATUS
    absent: Absent | None = None
    empty: Literal["hidden", "zero"] = "hidden"
    total: str | None = None
    add_rows: bool = False
    header: Annotated[tuple[str, ...], *NonEmptyUnique] | None = None
    milliseconds: bool = False
    inspire: bool = False

    accepts: ClassVar[str] = files.ACCEPTS

    _divided: tuple[list[tuple[dict[str, Any], Spot]], set[tuple[str, str]]] | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.origin is None) != (self.destination is None):
            raise ValueError("give both of origin, destination, or neither")
        default = type(self).model_fields["place"].default
        if self.origin is not None and self.place != default:
            raise ValueError("give place, or origin and destination")
        if self.slots and (self.hour or self.time_format or self.step):
            raise ValueError("slots: numbers of epochs have no hour, time_format or step")
        if self.at is not None and self.at_name is not None:
            raise ValueError("give one of at, at_name")
        if self.at is not None and (self.slots or self.milliseconds or self.step is None):
            raise ValueError("at: one time of all rows needs step, and no slots or milliseconds")
        if self.repeated_hour is not None and self.add_rows:
            raise ValueError("repeated_hour: rows of one place and time are added, not in order")
        if self.secondary and self.add_rows:
            raise ValueError("secondary: rows that are added are not hidden to protect others")
        if self.milliseconds and (self.slots or self.hour or self.time_format):
            raise ValueError("milliseconds: these times have no slots, hour or time_format")
        if self.empty == "zero" and self.status is not None:
            raise ValueError("empty: with a status, empty values are hidden")
        return self

    @property
    def layout(self) -> TextLayout:
        """How lines are laid out."""
        return replace(super().layout, header=self.header or ())

    @property
    def clock(self) -> Clock:
        """How times are stated."""
        drops, stated = self.skipped_hour is not None, super().clock
        stated = replace(stated, milliseconds=self.milliseconds, drops_skipped=drops)
        return replace(stated, hour=self.hour or stated.hour, hours=self.hours)

    def read(self, uri: str) -> RawRelease:
        """Return the table of a file or folder; its metadata are those described beside it."""
        pieces, form = self._choose_files(uri)
        metadata, uris, texts = read_beside(uri)
        rows = form._collect(uri, pieces)
        table = self.lay_out(rows, absent=self.absent, about=metadata)
        release = replace(table, metadata=metadata, uris=uris, texts=texts)
        if metadata.ledger is not None:
            with errors_as(DamagedError, f"{uri} is not what was published", detailed=True):
                release = self._compare(pieces, release)
        changes = [*release.changes, *self._merged_folders(uri, pieces)]
        if rows.n_added:
            were = "row was" if rows.n_added == 1 else "rows were"
            changes.append(f"{rows.n_added:,} {were} added to others of one place and time")
            release = replace(release, row_values=rows.row_values)
        if rows.n_skipped:
            were = "was" if rows.n_skipped == 1 else "were"
            skipped = f"{plural(rows.n_skipped, 'row')} of an hour that clocks skip"
            changes.append(f"{skipped} {were} left out")
        changes += [f"no row has {quote(text)} in {name}" for name, text in sorted(rows.unmatched)]
        return replace(release, changes=tuple(changes))

    def _compare(self, pieces: Sequence[Piece], release: RawRelease) -> RawRelease:
        """Return a release of a series with the list of centres in its file, and compare flags."""
        accuracy, fit, centres = release.metadata.accuracy, True, set[tuple[Any, ...]]()
        for batch, _ in located_batches(pieces, (), self.layout):
            texts = {key: text_of(column).to_pylist() for key, column in batch.columns.items()}
            if {*CENTRE} <= {*texts}:
                at = ([value or "nan" for value in texts[key]] for key in CENTRE)
                centres |= {*zip(texts[self.place], *at, strict=True)}
            if accuracy is not None:
                flags = np.array(texts.get(_FLAG)) == UNCERTAIN
                values = np.array([value or "nan" for value in texts[self.count]], float)
                fit &= np.array_equal(flags, accuracy.is_uncertain(values))
        listed = [list_centres(*zip(*centres, strict=True))] if centres else []
        return replace(release, texts=(*release.texts, *listed), flags_fit=fit)

    def _merged_folders(self, uri: str, pieces: Sequence[Piece]) -> Iterator[str]:
        """Yield which folders of different levels or strata were read as one table."""
        used, found = {*self.columns, *_TIME_FOLDERS}, dict[str, set[str]]()
        for piece in pieces:
            for key, value in folders_of(piece, uri).items():
                found.setdefault(key, set()).add(value)
        for key, values in found.items():
            for value in sorted(set(self.where.get(key, ())) - values):
                yield f"no folder is {key}={value}"
            if len(values) > 1 and key not in used:
                shown = ", ".join(sorted(values)[:5])
                yield f"folders of {key} ({shown}) were read as one table"

    def _choose_files(self, uri: str) -> tuple[list[Piece], Self]:
        """Return the pieces of the files that are read, and this format for their rows."""
        pieces = files.pieces(uri, _PIECE)
        keys = {key for piece in pieces for key in folders_of(piece, uri)} & set(self.where)
        for key in keys:
            pieces = [each for each in pieces if folders_of(each, uri).get(key) in self.where[key]]
            if not pieces:
                raise SourceError(f"{uri}: no folder is {key}={' or '.join(self.where[key])}")
        others = {key: texts for key, texts in self.where.items() if key not in keys}
        return pieces, self.model_copy(update={"where": others})

    def divides(self, uri: str, name: str) -> bool:
        """Return whether a column or key of folders, which is not read, has several texts."""
        pieces = files.pieces(uri, _PIECE)
        if name in self.columns or not pieces:
            return False
        if not any(name in folders_of(piece, uri) for piece in pieces):
            first = next(iter(files.batches(pieces[0], (), self.layout)), None)
            if first is None or name not in first.columns:
                return False
        return len(self.texts_of(uri, (name,))) > 1

    def texts_of(self, uri: str, columns: Sequence[str]) -> list[dict[str, str]]:
        """Return different texts of rows in columns, or keys of folders, sorted; raises as read."""
        found = set[tuple[str, ...]]()
        for texts, _ in self._parts(uri, columns, set()):
            found.add(texts)
            check_memory(_TEXTS * len(found), f"{uri}: {len(found):,} different texts in columns")
        return [dict(zip(columns, texts, strict=True)) for texts in sorted(found)]

    def divided(self, uri: str, columns: Sequence[str]) -> Iterator[tuple[dict[str, str], Self]]:
        """Yield the same, each with a format that has these rows: the file is read only once."""
        parts = dict[tuple[str, ...], list[tuple[dict[str, Any], Spot]]]()
        unmatched = {(name, text) for name, texts in self.where.items() for text in texts}
        for texts, take in self._parts(uri, columns, unmatched):
            parts.setdefault(texts, []).append(take())
        for texts in sorted(parts):
            named = dict(zip(columns, texts, strict=True))
            where = {name: (text,) for name, text in named.items()}
            form = self.model_copy(update={"where": {**self.where, **where}})
            form._divided = parts.pop(texts), unmatched
            yield named, form

    def _parts(
        self, uri: str, columns: Sequence[str], unmatched: set[tuple[str, str]]
    ) -> Iterator[tuple[tuple[str, ...], Callable[[], tuple[dict[str, Any], Spot]]]]:
        """Yield texts in columns, or folders of these keys, and what takes the rows with them."""
        pieces, form = self._choose_files(uri)
        for _, of_file in groupby(pieces, key=lambda piece: piece.file.name):
            some = [*of_file]
            folders = folders_of(some[0], uri)
            others = [name for name in columns if name not in folders]
            read = list(dict.fromkeys((*form.columns, *others)))
            for raw, spot in form._selected(some, read, unmatched):
                for texts, rows in rows_by_texts(raw, [self.count, *others]):
                    named = folders | texts
                    key = tuple(named[name] for name in columns)
                    yield key, partial(take_rows, raw, spot, rows)

    def texts(self, uri: str) -> dict[str, list[str]]:
        """Return all columns of a table as text; errors are those of :meth:`read`."""
        found: dict[str, list[str]] = {}
        for batch, _ in located_batches(files.pieces(uri, _PIECE), (), self.layout):
            for name, column in batch.columns.items():
                found.setdefault(name, []).extend(text_of(column).fill_null("").to_pylist())
        return found

    def cells(self, uri: str) -> Iterator[tuple[int, Cell]]:
        """Yield the row of each value that is read, as :meth:`texts` has it, and its cell."""
        first = 0
        for piece in files.pieces(uri, _PIECE):
            for batch in files.batches(piece, self.columns, self.layout):
                raw, spot = self._select(batch.columns, Spot(piece.file.name, 0, ""))
                n = len(batch.columns[self.count])
                rows = np.arange(n) if spot.kept is None else spot.kept
                if len(rows):
                    places = (PlaceCodes if self.origin is None else PairCodes)(self.total)
                    place, time, all_times, *_ = self._decode(raw, places, spot)
                    names, times = [*places.names, None], time.astype(object)
                    times[all_times] = None
                    for row, code, at in zip((first + rows).tolist(), place, times, strict=True):
                        yield row, (names[code], at)
                first += n

    def write(self, uri: str, release: RawRelease) -> None:
        """Write a CSV or Parquet file; hidden values are empty, times in the zone of the release.

        Raises InputError if they would be read as another table.
        """
        others = self.header, self.milliseconds, self.at, self.at_name, self.where
        if self.is_only_read or any(others) or len(self._statuses()) > 1:
            return super().write(uri, release)
        marks: dict[str, Any] = {"delimiter": self.delimiter, "decimal": self.marks.decimal}
        table, words = self.to_frame(release), explain_columns(release)
        names = {self.place: "place", self.time: "time", self.count: "count", _FLAG: "flag"}
        names |= {name: name for name in CENTRE}
        columns: dict[str, dict[str, Any]] = {
            name: {"dc:description": words[key]} for name, key in names.items() if key in words
        }
        if release.totals.roi is None and release.epochs is not None and not self.slots:
            columns[self.time]["datatype"] = "dateTimeStamp"
            if files.is_parquet(uri):
                times = pd.to_datetime(table[self.time], utc=True, format="ISO8601")
                table[self.time] = times.dt.tz_convert(release.timezone).dt.as_unit("s")
        values = table[self.count]
        if files.is_parquet(uri) and (values.isna() | is_whole(values)).all():
            table[self.count] = values.astype("Int64")
        write_beside(uri, table, release.metadata, columns=columns, **marks)

    def to_frame(self, release: RawRelease) -> pd.DataFrame:
        """Return the rows of a release, with columns as these settings name them."""
        (places, times), total = self.names_of(release), self.total or TOTAL
        table: dict[str, Any] = {}
        parts = [(places, times, release.values)]
        axes = (places, [total]), ([total], times), ([total], [total])
        for (some, at), totals in zip(axes, release.totals.each, strict=True):
            if totals is not None:
                parts.append((some, at, totals.reshape(len(some), len(at))))
        names = [name for some, at, _ in parts for name in some for _ in at]
        if self.origin is not None:
            pairs = [name.split(ARROW) if name != total else [total] * 2 for name in names]
            table |= {str(self.origin): [one for one, _ in pairs]}
            table |= {str(self.destination): [two for _, two in pairs]}
        else:
            table[self.place] = names
        table[self.time] = [time for some, at, _ in parts for _ in some for time in at]
        table[self.count] = np.concatenate([values.ravel() for _, _, values in parts])
        if self.status is not None:
            hidden = next(iter(self.hidden_status), "")
            table[self.status] = np.where(np.isnan(table[self.count]), hidden, "A")
        if (accuracy := release.metadata.accuracy) is not None:
            marked = np.where(accuracy.is_uncertain(release.values).ravel(), UNCERTAIN, "")
            table[_FLAG] = np.append(marked, np.full(len(names) - len(marked), ""))
        if release.centres is not None:
            per_row = np.full((len(names), 2), np.nan)
            per_row[: release.values.size] = np.repeat(release.centres, len(times), axis=0)
            table |= dict(zip(CENTRE, per_row.T, strict=True))
        return pd.DataFrame(table)

    def _collect(self, uri: str, pieces: Sequence[Piece]) -> Rows:
        """Put the rows of a file or folder into their cells, one batch after another."""
        places = (PlaceCodes if self.origin is None else PairCodes)(self.total)
        rows = Rows(places.names, self.slots, uri, self.add_rows, self.repeated_hour is not None)
        rows.describe_parts = partial(self._describe_parts, pieces)
        rows.unmatched = {(name, text) for name, texts in self.where.items() for text in texts}
        selected: Any = self._selected(pieces, self.columns, rows.unmatched)
        if self._divided is not None:
            selected, rows.unmatched = self._divided
        for raw, spot in selected:
            if len(raw[self.count]):
                decoded = self._decode(raw, places, spot)
                rows.n_skipped += len(raw[self.count]) - len(decoded[0])
                rows.add(*decoded)
        return rows

    def _selected(
        self, pieces: Sequence[Piece], columns: Sequence[str], unmatched: set[tuple[str, str]]
    ) -> Iterator[tuple[dict[str, Any], Spot]]:
        """Yield the columns of the rows that are read; remove texts that are in a row."""
        for batch, at in located_batches(pieces, columns, self.layout):
            for column in self.where if unmatched else ():
                unmatched -= {(column, text) for text in texts_in(batch.columns[column])}
            yield self._select(batch.columns, at)

    def _describe_parts(self, pieces: Sequence[Piece], place: str, time: int) -> str:
        """Return in which other columns the rows of a cell differ, and how to choose among them."""
        read, adds = set(self.columns) - set(self.where), "" if self.add_rows else _ADDS
        for batch, at in located_batches(pieces, (), self.layout):
            places = (PlaceCodes if self.origin is None else PairCodes)(self.total)
            raw, spot = self._select(batch.columns, at)
            code, seconds, *_ = self._decode(raw, places, spot)
            in_cell = np.array([*(name == place for name in places.names), False])[code]
            rows = pa.array(np.flatnonzero(in_cell & (seconds == time)))
            for name in batch.columns if len(code) == len(raw[self.count]) else ():
                texts = texts_in(raw[name].take(rows))
                if name not in read and len(texts) > 1:
                    some = ", ".join(sorted(texts)[:5])
                    return f"they differ in {name} ({some}): `where: {{{name}: [...]}}`{adds}"
        return f"keep one row of each{adds}"

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are read."""
        places = [self.place] if self.origin is None else [self.origin, str(self.destination)]
        time = self.time if self.at is None and self.at_name is None else None
        others = (time, self.hour, self.count, *self._statuses(), *self.where)
        return list(dict.fromkeys([*places, *(name for name in others if name is not None)]))

    def _statuses(self) -> dict[str, Codes]:
        """Return the columns with statuses of values, and the statuses of hidden ones in each."""
        return {} if self.status is None else {self.status: self.hidden_status}

    def _select(self, raw: dict[str, Any], spot: Spot) -> tuple[dict[str, Any], Spot]:
        """Return the columns of the rows that are read, and where these are."""
        statuses = [raw[status] for status in self._statuses()]
        raw = {**raw, self.count: self._unflagged(raw[self.count], *statuses)}
        at = self._named_time(spot.file) if self.at_name is not None else self.at
        if at is not None:
            raw = {**raw, self.time: pa.repeat(at, len(raw[self.count])).dictionary_encode()}
        if not self.where:
            return raw, spot
        return take_rows(raw, spot, rows_where(raw, self.where))

    def _named_time(self, file: str) -> str:
        """Return the time in the name of a file."""
        found = re.search(str(self.at_name), file.rpartition("/")[2])
        if found is None:
            raise SourceError(f"{file}: its name does not contain a time as of `at_name`")
        return str(found[1])

    def _decode(
        self, raw: dict[str, Any], places: PlaceCodes | PairCodes, spot: Spot
    ) -> tuple[Ints, Ints, NDArray[np.bool_], Values, Ints]:
        """Return the place, time and value of rows, which are totals over times, and second times.

        Rows of hours that clocks skip are left out if that is set.
        """
        if isinstance(places, PlaceCodes):
            place = places.encode(self._names(self.place, raw[self.place], spot))
        else:
            ends = (self.origin, self.destination)
            place = places.encode(*(self._names(str(end), raw[str(end)], spot) for end in ends))
        time, hours = raw[self.time], None if self.hour is None else raw[self.hour]
        all_times = np.zeros(len(time), np.bool_)
        if self.total is not None:
            texts = text_of(time)
            all_times = np.asarray(pc.fill_null(pc.equal(texts, self.total), False))
            if all_times.any():  # any valid time takes its place
                others = np.flatnonzero(~all_times)
                if not len(others):
                    raise SourceError(
                        f"{spot.file}: {spot.unit}s from {spot.first:,} on are only totals"
                    )
                time = texts.take(pa.array(np.where(all_times, others[0], np.arange(len(texts)))))
        try:
            seconds = self.clock.decode(self.time, time, hours, spot=spot)
        except SourceError:
            spot.refuse(
                among(text_of(time), (self.time,)),
                self.time,
                "the header is repeated: delete this line",
            )
            raise
        stated = {} if self._flag_codes is not None else self._statuses()
        statuses = [(raw[status], codes) for status, codes in stated.items()]
        values = decode_values(self.count, raw[self.count], statuses, spot=spot, **self.codes)
        if self.empty == "zero":
            values[is_empty(raw[self.count])] = 0.0
        second = self.clock.repeats(raw[self.time], seconds)
        if self.skipped_hour is not None and (skipped := seconds == SKIPPED).any():
            place, seconds, all_times, values, second = (
                column[~skipped] for column in (place, seconds, all_times, values, second)
            )
        return place, seconds, all_times, values, second

    def _names(self, column: str, raw: Any, spot: Spot) -> Ids:
        """Return the names of places, long codes of INSPIRE cells if these are read."""
        found = names_of(column, raw, spot)
        if not self.inspire:
            return found
        names = [str(name).strip() for name in found.names.to_pylist()]
        for code in np.unique(found.codes).tolist():
            if names[code] == self.total:
                continue
            try:
                names[code] = inspire_code(names[code])
            except InputError as error:
                row = int(np.argmax(found.codes == code))
                raise SourceError(f"{spot.name(row, column)}: {error}") from None
        return replace(found, names=pa.array(names, pa.string()))
