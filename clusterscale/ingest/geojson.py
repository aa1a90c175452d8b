"""Reader of GeoJSON points: a collection of features, or one feature a line."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, ClassVar, Literal

import fsspec
import pyarrow as pa

from clusterscale.contracts import ConfigModel
from clusterscale.errors import SourceError
from clusterscale.ingest import decode, sources, tables
from clusterscale.ingest.fields import Zone
from clusterscale.ingest.records import Malformed, Position, Records
from clusterscale.ingest.sources import File, Piece

__all__ = ["GeoJson"]

_BATCH = 1 << 16  # features decoded at a time
_CHUNK = 1 << 20  # characters read at a time from a collection
_PATTERNS = tuple(
    f"*.{kind}{squeezed}"
    for kind in ("geojson", "geojsonl", "geojsons", "json", "jsonl", "ndjson")
    for squeezed in ("", ".gz", ".bz2", ".xz", ".zst")
)
_COLLECTION = re.compile(r'^\s*\{\s*"features"|"type"\s*:\s*"FeatureCollection"')
_FEATURES = re.compile(r'"features"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")

_Row = tuple[str | None, str | None, str | None, str | None]


class GeoJson(ConfigModel):
    """GeoJSON points (RFC 7946), a file or a folder, as Social Pulse published them.

    A file holds a FeatureCollection or one feature a line (GeoJSONL, RFC 8142).

    Attributes
    ----------
    user, time
        Names of the properties, or of members of the feature itself. Times are epoch seconds or
        ISO 8601 text.
    geometry
        Name of the member with the geometry.
    timezone
        Zone in which times that name none are told; without it they are refused.
    """

    name: Literal["geojson"] = "geojson"
    user: str = "user"
    time: str = "timestamp"
    geometry: str = "geometry"
    timezone: Zone | None = None

    events_per_row: ClassVar[int] = 1
    accepts: ClassVar[str] = (
        "GeoJSON points (.geojson, .geojsonl, .geojsons, .json, .jsonl, .ndjson, also .gz, .bz2, "
        ".xz, .zst), a FeatureCollection or one feature a line; times as epoch seconds or ISO 8601 "
        "text such as 2012-04-03T18:00:09Z"
    )
    settings: ClassVar[tuple[str, ...]] = ("timezone",)

    @property
    def gives_rois(self) -> bool:
        """Never: points have positions."""
        return False

    def pieces(self, source: str, size: int) -> list[Piece]:
        """Return runs of lines; a collection is one piece, which is read as a stream."""
        found: list[Piece] = []
        for file in sources.find(source, _PATTERNS, kind="GeoJSON file"):
            if _is_collection(file):
                found.append(Piece(file, 0, file.size, file.size))
            else:
                found += sources.slices(file, size)
        return found

    def read(self, piece: Piece) -> Iterator[Records]:
        """Yield the points of a piece."""
        whole = piece.start == 0 and _is_collection(piece.file)
        features = _members(piece.file) if whole else _lines(piece)
        while batch := list(islice(features, _BATCH)):
            rows = [self._row(feature) for feature in batch if isinstance(feature, dict)]
            lost = len(batch) - len(rows)
            yield self._records(rows, Malformed(lost, "is no GeoJSON feature"), piece.file.name)

    def _row(self, feature: dict[str, Any]) -> _Row:
        properties = feature.get("properties")
        known = {**feature, **properties} if isinstance(properties, dict) else feature
        lat, lon = _coordinates(feature.get(self.geometry))
        user = known.get(self.user)
        return (
            None if isinstance(user, float) else _text(user),
            _text(known.get(self.time)),
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
    """Return a number or text as text, other things as nothing."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return value if isinstance(value, str) else repr(value)


def _coordinates(geometry: object) -> tuple[str | None, str | None]:
    """Return latitude and longitude as text; the type of the geometry where it is no point."""
    if not isinstance(geometry, dict):
        return None, None
    if geometry.get("type") != "Point":
        kind = _text(geometry.get("type"))
        return kind, kind
    place = geometry.get("coordinates")
    if not isinstance(place, list) or len(place) < 2:
        return None, None
    return _text(place[1]), _text(place[0])


def _is_collection(file: File) -> bool:
    with fsspec.open(file.url, "rb", compression="infer") as stream:
        head = stream.read(1 << 16)
    return _COLLECTION.search(head.decode("utf-8-sig", errors="replace")) is not None


def _lines(piece: Piece) -> Iterator[object]:
    """Yield what each line holds, None where that is no JSON."""
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
    """Yield the features of a collection one by one, without holding the others."""
    with fsspec.open(file.url, "rb", compression="infer") as stream:
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
                f"{file.name} is not a whole FeatureCollection: "
                f"what follows after {n_read} features is no JSON"
            ) from None


def _array(text: io.TextIOWrapper, where: str) -> Iterator[object]:
    waiting, start = "", None
    while start is None:
        more = text.read(_CHUNK)
        if not more:
            raise SourceError(f"{where} is a FeatureCollection without features")
        waiting += more
        start = _FEATURES.search(waiting)
    waiting, place, size = waiting[start.end() :], 0, _CHUNK
    decode_next = json.JSONDecoder().raw_decode
    while True:
        here = _BETWEEN.match(waiting, place)
        place = here.end() if here else place
        if waiting[place : place + 1] == "]":
            return
        try:
            feature, place = decode_next(waiting, place)
        except ValueError:
            more = text.read(size)
            if not more:
                raise
            # A feature larger than a chunk is not tried again after every chunk.
            waiting, place, size = waiting[place:] + more, 0, size * 2
            continue
        size = _CHUNK
        yield feature
