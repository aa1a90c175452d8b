"""Readers of tables (events, trips) and of the San Francisco cabs, and the registry of readers."""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import replace
from heapq import nsmallest
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, Strict

from clusterscale.ingestion.records import LeftOut, Place, Position, Reader, Records
from clusterscale.ingestion.report import N_TEXTS
from clusterscale.reading import decode, geojson, sources, tables
from clusterscale.reading.decode import Ids, Numbers, Zone
from clusterscale.reading.geojson import text_of
from clusterscale.reading.places import pairs
from clusterscale.reading.sources import Piece
from clusterscale.reading.tables import ColumnBatch, Delimiter, Encoding, Malformed, TextLayout
from clusterscale.reading.values import Codes, rows_where, texts_in
from clusterscale.registry import Registry

_Columns = tuple[tuple[str, str | None], tuple[str, ...]]


class TableReader(Reader):
    """A reader of Parquet or CSV whose fields are called as those of published tables are.

    Attributes
    ----------
    user
        Name of the column.
    stratum
        Name of the column with a category of the user or the event, e.g. ``profile``: there is then
        a ROI for each category of each place, such as ``Oriente (profile child)``.
    timezone
        Time zone of times without one; if not set, such times are refused.
    time_format
        Format of times as of Python's ``strptime``, e.g. ``'%d/%m/%Y %H:%M'``.
    milliseconds
        Whether times that are numbers are in milliseconds since 1970.
    hours
        How a column with the hour of a day is numbered: ``0-23``, ``1-24``, or ``hhmm`` for 830 at
        half past eight; times such as ``08:30`` are read with any of these.
    delimiter
        Field separator of a CSV file.
    encoding
        Encoding of a CSV file, e.g. ``latin-1``.
    skip
        Number of lines above the line of column names.
    where
        Columns, and the texts of the rows that are read, e.g. ``{Válida: [S]}``.
    """

    user: str = "user"
    stratum: str | None = None
    timezone: Zone | None = None
    time_format: str | None = None
    milliseconds: Annotated[bool, Strict(False)] = False
    hours: decode.Hours = "0-23"
    delimiter: Delimiter = ","
    encoding: Encoding = "utf-8"
    skip: Annotated[int, Strict(False), Field(ge=0)] = 0
    where: Mapping[str, Codes] = {}

    accepts: ClassVar[str] = f"{tables.ACCEPTS}; {decode.TIMES}"
    settings: ClassVar[tuple[str, ...]] = (
        *("timezone", "time_format", "milliseconds", "hours"),
        *("delimiter", "encoding", "skip", "where"),
    )

    def __hash__(self) -> int:
        return hash(self.digest)

    def pieces(self, source: str, size: int) -> list[Piece]:
        """Return row groups, or runs of lines."""
        return tables.pieces(source, size)

    def read(self, piece: Piece) -> Iterator[Records]:
        """Yield the first events of rows, then the second ones, batch by batch."""
        file, events = piece.file.name, self._events()
        read = {
            self.user,
            self.stratum,
            *(n for times, places in events for n in (*times, *places)),
        }
        fields = [field for field in type(self).model_fields if field not in self.settings]
        columns = [name for name in (getattr(self, field) for field in fields) if name in read]
        every = list(dict.fromkeys(name for name in (*columns, *self.where) if name is not None))
        for whole in tables.batches(piece, every, self.layout):
            batch, left_out = self._choose(whole)
            user = _ids(self.user, batch, file)
            stratum = None if self.stratum is None else _ids(self.stratum, batch, file)
            for times, places in events:
                place, time = self._place(places, batch, file), self._times(*times, batch, file)
                yield Records(user, time, place, batch.malformed, stratum, left_out)

    def _choose(self, batch: ColumnBatch) -> tuple[ColumnBatch, LeftOut]:
        """Return the rows of a batch that are read, and what is left out."""
        if not self.where:
            return batch, LeftOut()
        rows, columns, texts = rows_where(batch.columns, self.where), batch.columns, {}
        for column, wanted in self.where.items():
            found = texts_in(columns[column])
            others = nsmallest(N_TEXTS + 1, found.difference(wanted))
            texts[column] = found.intersection(wanted).union(others)
        n_left_out = len(columns[self.user]) - len(rows)
        chosen = {name: column.take(pa.array(rows)) for name, column in columns.items()}
        lines = rows if batch.lines is None else batch.lines[rows]
        return replace(batch, columns=chosen, lines=lines), LeftOut(n_left_out, texts)

    def _events(self) -> tuple[_Columns, ...]:
        """Return the columns of the time, with its hour, and of the place of each event."""
        raise NotImplementedError

    def _place(self, columns: tuple[str, ...], batch: ColumnBatch, file: str) -> Place:
        return _ids(columns[0], batch, file)

    @property
    def layout(self) -> TextLayout:
        """How lines of a CSV file are laid out."""
        return TextLayout(self.delimiter, encoding=self.encoding, skip=self.skip)

    def _times(self, name: str, hour: str | None, batch: ColumnBatch, file: str) -> Numbers:
        raw, hours = batch.columns, None
        if hour is not None:
            hours = decode.hours(hour, raw[hour], self.hours)
        return decode.times(
            name,
            raw[name],
            timezone=self.timezone,
            where=file,
            time_format=self.time_format,
            milliseconds=self.milliseconds,
            hour=hours,
        )


class Events(TableReader):
    """Parquet or CSV, a file or a folder of one kind: one event per row.

    Attributes
    ----------
    user, time
        Names of the columns. Times are epoch seconds, timestamps or ISO 8601 text.
    hour
        Name of the column with the hour of the day, if ``time`` is a date.
    lat, lon
        Names of the columns with the position in degrees; not read if ``roi`` is set. A decimal
        comma is read where the delimiter is no comma.
    roi
        Name of the column with the name of the ROI.
    timezone, time_format, milliseconds, hours
        How times are stated, as in tables.
    delimiter, encoding, skip
        How lines of a CSV file are laid out, as in tables.
    where
        Columns, and the texts of the rows that are read, as in tables.
    """

    name: Literal["events"] = "events"
    time: str = "timestamp"
    hour: str | None = None
    lat: str = "lat"
    lon: str = "lon"
    roi: str | None = None

    events_per_row: ClassVar[int] = 1
    accepts: ClassVar[str] = f"{tables.ACCEPTS}; {decode.TIMES}; positions in decimal degrees"

    @property
    def gives_rois(self) -> bool:  # type: ignore[override]
        """Whether a column contains the ROI."""
        return self.roi is not None

    def _events(self) -> tuple[_Columns, ...]:
        return (
            ((self.time, self.hour), (self.lat, self.lon) if self.roi is None else (self.roi,)),
        )

    def _place(self, columns: tuple[str, ...], batch: ColumnBatch, file: str) -> Place:
        if self.roi is not None:
            return super()._place(columns, batch, file)
        return _position(batch, self.lat, self.lon, file, self.delimiter)


def _ids(name: str, batch: ColumnBatch, file: str) -> Ids:
    return decode.ids(name, batch.columns[name], where=file)


def _position(batch: ColumnBatch, lat: str, lon: str, file: str, delimiter: str) -> Position:
    how: dict[str, Any] = {"where": file, "decimal_comma": delimiter != ","}
    return Position(*(decode.numbers(name, batch.columns[name], **how) for name in (lat, lon)))


class Trips(TableReader):
    """Parquet or CSV, a file or a folder of one kind: one trip per row, which is two events.

    A trip with one end missing (an unfinished journey) still gives the other event.

    Attributes
    ----------
    user
        Name of the column.
    start, start_time, end, end_time
        Names of the columns with the stations (the ROIs) and the times.
    start_hour, end_hour
        Names of the columns with the hours of the day, if the times are dates.
    timezone, time_format, milliseconds, hours
        How times are stated, as in tables.
    delimiter, encoding, skip
        How lines of a CSV file are laid out, as in tables.
    where
        Columns, and the texts of the rows that are read, as in tables.
    """

    name: Literal["trips"] = "trips"
    start: str = "start_station"
    start_time: str = "start_time"
    start_hour: str | None = None
    end: str = "end_station"
    end_time: str = "end_time"
    end_hour: str | None = None

    gives_rois: ClassVar[bool] = True
    events_per_row: ClassVar[int] = 2

    def _events(self) -> tuple[_Columns, ...]:
        start, end = (self.start_time, self.start_hour), (self.end_time, self.end_hour)
        return (start, (self.start,)), (end, (self.end,))


class TripPairs(Trips):
    """As ``trips``, but a trip is one event: at its start, in the ROI of its pair of stations.

    The ROI is named ``START → END``, as in published tables of trips between places; the cube then
    has a ROI for each pair that occurs. A trip with one end missing gives no event.

    Attributes
    ----------
    user
        Name of the column.
    start, start_time, end, end_time
        Names of the columns with the stations and the times; ``end_time`` is not read.
    start_hour, end_hour
        Names of the columns with the hours of the day, if the times are dates; the second is not
        read.
    timezone, time_format, milliseconds, hours
        How times are stated, as in tables.
    delimiter, encoding, skip
        How lines of a CSV file are laid out, as in tables.
    where
        Columns, and the texts of the rows that are read, as in tables.
    """

    name: Literal["trip_pairs"] = "trip_pairs"  # type: ignore[assignment]

    events_per_row: ClassVar[int] = 1

    def _events(self) -> tuple[_Columns, ...]:
        return (((self.start_time, self.start_hour), (self.start, self.end)),)

    def _place(self, columns: tuple[str, ...], batch: ColumnBatch, file: str) -> Place:
        return pairs(*(_ids(name, batch, file) for name in columns))


_COLUMNS = {"lat": 0, "lon": 1, "time": 3}


class Cabspotting(Reader):
    """Files ``new_CAB.txt`` of lines ``lat lon occupied unixtime``, in any order.

    The user is the part of the file's name after ``new_``. Source: CRAWDAD epfl/mobility.
    """

    name: Literal["cabspotting"] = "cabspotting"

    gives_rois: ClassVar[bool] = False
    events_per_row: ClassVar[int] = 1
    accepts: ClassVar[str] = "files new_CAB.txt of lines: lat lon occupied unixtime"
    settings: ClassVar[tuple[str, ...]] = ()

    def pieces(self, source: str, size: int) -> list[Piece]:
        """Return runs of lines."""
        files = sources.find(source, ("new_*.txt",), kind="file new_*.txt")
        pieces: list[Piece] = []
        for i, file in enumerate(files):
            # Messages number the files of a folder: their names are user ids.
            name = file.name if file.name == source else f"{source} (file {i + 1:,} by name)"
            pieces += sources.slices(replace(file, name=name), size)
        return pieces

    def read(self, piece: Piece) -> Iterator[Records]:
        """Yield the fixes of a piece."""
        file = piece.file.name
        cab = posixpath.basename(piece.file.url).removeprefix("new_").removesuffix(".txt")
        for block in sources.text_blocks(piece, tables.BLOCK):
            for batch in tables.parse_lines(block, _COLUMNS, 4, " "):
                time = batch.columns["time"]
                yield Records(
                    Ids("user", np.zeros(len(time), np.int64), pa.array([cab])),
                    decode.times("time", time, timezone=None, where=file),
                    _position(batch, "lat", "lon", file, ","),
                    batch.malformed,
                )


_FEATURES = 1 << 16  # decoded at a time
_GEOJSON = tuple(
    f"*.{kind}{compression}"
    for kind in ("geojson", "geojsonl", "geojsons", "json", "jsonl", "ndjson")
    for compression in ("", ".gz", ".bz2", ".xz", ".zst")
)

_Row = tuple[str | None, str | None, str | None, str | None]


class GeoJson(Reader):
    """GeoJSON points (RFC 7946), a file or a folder, as Social Pulse published them.

    A file contains a FeatureCollection or one feature per line (GeoJSONL, RFC 8142).

    Attributes
    ----------
    user, time
        Names of the properties, or of members of the feature itself. Times are epoch seconds or
        ISO 8601 text.
    geometry
        Name of the member with the geometry.
    timezone
        Time zone of times without one; if not set, such times are refused.
    """

    name: Literal["geojson"] = "geojson"
    user: str = "user"
    time: str = "timestamp"
    geometry: str = "geometry"
    timezone: Zone | None = None

    gives_rois: ClassVar[bool] = False
    events_per_row: ClassVar[int] = 1
    accepts: ClassVar[str] = (
        "GeoJSON points (.geojson, .geojsonl, .geojsons, .json, .jsonl, .ndjson, also .gz, .bz2, "
        ".xz, .zst), a FeatureCollection or one feature per line; times as epoch seconds or ISO "
        "8601 text such as 2012-04-03T18:00:09Z"
    )
    settings: ClassVar[tuple[str, ...]] = ("timezone",)

    def pieces(self, source: str, size: int) -> list[Piece]:
        """Return ranges of lines; a collection is one piece, which is streamed."""
        pieces: list[Piece] = []
        for file in sources.find(source, _GEOJSON, kind="GeoJSON file"):
            if geojson.is_collection(file):
                pieces.append(Piece(file, 0, file.size, file.size))
            else:
                pieces += sources.slices(file, size)
        return pieces

    def read(self, piece: Piece) -> Iterator[Records]:
        """Yield the points of a piece."""
        whole = piece.start == 0 and geojson.is_collection(piece.file)
        features = geojson.members(piece.file) if whole else geojson.lines(piece)
        while batch := list(islice(features, _FEATURES)):
            rows = [self._row(feature) for feature in batch if isinstance(feature, dict)]
            n_malformed = len(batch) - len(rows)
            yield self._records(
                rows, Malformed(n_malformed, "is not a GeoJSON feature"), piece.file.name
            )

    def _row(self, feature: dict[str, Any]) -> _Row:
        properties = feature.get("properties")
        members = {**feature, **properties} if isinstance(properties, dict) else feature
        lat, lon = _coordinates(feature.get(self.geometry))
        user = members.get(self.user)
        return (
            None if isinstance(user, float) else text_of(user),
            text_of(members.get(self.time)),
            lat,
            lon,
        )

    def _records(self, rows: list[_Row], malformed: Malformed, file: str) -> Records:
        columns = zip(*rows, strict=True) if rows else ((), (), (), ())
        user, time, lat, lon = (pa.array(column, pa.string()) for column in columns)
        meaning = "not a coordinate of a point"
        return Records(
            decode.ids(self.user, user, where=file),
            decode.times(self.time, time, timezone=self.timezone, where=file),
            Position(
                replace(decode.numbers(self.geometry, lat, where=file), meaning=meaning),
                replace(decode.numbers(self.geometry, lon, where=file), meaning=meaning),
            ),
            malformed,
        )


def _coordinates(geometry: object) -> tuple[str | None, str | None]:
    """Return latitude and longitude as text; for other geometries their type twice."""
    if not isinstance(geometry, dict):
        return None, None
    if geometry.get("type") != "Point":
        kind = text_of(geometry.get("type"))
        return kind, kind
    coordinates = geometry.get("coordinates")
    if not isinstance(coordinates, list) or len(coordinates) < 2:
        return None, None
    return text_of(coordinates[1]), text_of(coordinates[0])


READERS: Registry[Reader] = Registry(
    "reader",
    Events,
    Cabspotting,
    Trips,
    TripPairs,
    GeoJson,
    base=Reader,
    plugins="clusterscale.readers",
)
