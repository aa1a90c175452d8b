"""Reader of GeoJSON points: a collection of features, or one feature per line."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, ClassVar, Literal

import pyarrow as pa

from clusterscale import storage
from clusterscale.errors import SourceError
from clusterscale.ingestion import decode, sources, tables
from clusterscale.ingestion.records import Malformed, Position, Reader, Records, Zone
from clusterscale.ingestion.sources import File, Piece

_BATCH = 1 << 16  # features decoded at a time
_CHUNK = 1 << 20  # characters read at a time from a collection
_PATTERNS = tuple(
    f"*.{kind}{compression}"
    for kind in ("geojson", "geojsonl", "geojsons", "json", "jsonl", "ndjson")
    for compression in ("", ".gz", ".bz2", ".xz", ".zst")
)
_COLLECTION = re.compile(r'^\s*\{\s*"features"|"type"\s*:\s*"FeatureCollection"')
_FEATURES = re.compile(r'"features"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")

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

    events_per_row: ClassVar[int] = 1
    accepts: ClassVar[str] = (
        "GeoJSON points (.geojson, .geojsonl, .geojsons, .json, .jsonl, .ndjson, also .gz, .bz2, "
        ".xz, .zst), a FeatureCollection or one feature per line; times as epoch seconds or ISO "
        "8601 text such as 2012-04-03T18:00:09Z"
    )
    settings: ClassVar[tuple[str, ...]] = ("timezone",)

    @property
    def gives_rois(self) -> bool:
        """False: points have positions."""
        return False

    def pieces(self, source: str, size: int) -> list[Piece]:
        """Return ranges of lines; a collection is one piece, which is streamed."""
        pieces: list[Piece] = []
        for file in sources.find(source, _PATTERNS, kind="GeoJSON file"):
            if _is_collection(file):
                pieces.append(Piece(file, 0, file.size, file.size))
            else:
                pieces += sources.slices(file, size)
        return pieces

    def read(self, piece: Piece) -> Iterator[Records]:
        """Yield the points of a piece."""
        whole = piece.start == 0 and _is_collection(piece.file)
        features = _members(piece.file) if whole else _lines(piece)
        while batch := list(islice(features, _BATCH)):
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
            None if isinstance(user, float) else _text(user),
            _text(members.get(self.time)),
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


def _text(value: object) -> str | None:
    """Return text or a number as text, None for any other value."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return value if isinstance(value, str) else repr(value)


def _coordinates(geometry: object) -> tuple[str | None, str | None]:
    """Return latitude and longitude as text; for other geometries their type twice."""
    if not isinstance(geometry, dict):
        return None, None
    if geometry.get("type") != "Point":
        kind = _text(geometry.get("type"))
        return kind, kind
    coordinates = geometry.get("coordinates")
    if not isinstance(coordinates, list) or len(coordinates) < 2:
        return None, None
    return _text(coordinates[1]), _text(coordinates[0])


def _is_collection(file: File) -> bool:
    with storage.open_file(file.url, compression="infer") as stream:
        head = stream.read(1 << 16)
    return _COLLECTION.search(head.decode("utf-8-sig", errors="replace")) is not None


def _lines(piece: Piece) -> Iterator[object]:
    """Yield the value of each line, None if it is not JSON."""
    for block in sources.text_blocks(piece, tables.BLOCK):
        for line in block.splitlines():
            line = line.removeprefix(b"\xef\xbb\xbf").strip(b"\x1e \t")
            if line:
                yield _parsed(line)


def _parsed(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _members(file: File) -> Iterator[object]:
    """Yield the features of a collection one by one, without loading all of them."""
    with storage.open_file(file.url, compression="infer") as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig")
        n_read = 0
        try:
            for feature in _array(text, file.name):
                yield feature
                n_read += 1
        except SourceError:
            raise
        except (ValueError, RecursionError):
            raise SourceError(
                f"{file.name} is not a complete FeatureCollection: "
                f"invalid JSON after {n_read} features"
            ) from None


def _array(text: io.TextIOWrapper, where: str) -> Iterator[object]:
    buffer, start = "", None
    while start is None:
        more = text.read(_CHUNK)
        if not more:
            raise SourceError(f"{where} is a FeatureCollection without features")
        buffer += more
        start = _FEATURES.search(buffer)
    buffer, position, size = buffer[start.end() :], 0, _CHUNK
    decode_next = json.JSONDecoder().raw_decode
    while True:
        gap = _BETWEEN.match(buffer, position)
        position = gap.end() if gap else position
        if buffer[position : position + 1] == "]":
            return
        try:
            feature, position = decode_next(buffer, position)
        except ValueError:
            more = text.read(size)
            if not more:
                raise
            # Double the size, so that a large feature is not parsed again after every chunk.
            buffer, position, size = buffer[position:] + more, 0, size * 2
            continue
        size = _CHUNK
        yield feature
