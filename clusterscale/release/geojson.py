"""Zones with their values: features of GeoJSON, or rows of GeoParquet."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import model_validator

from clusterscale import storage
from clusterscale.errors import InputError, SourceError
from clusterscale.reading import geojson
from clusterscale.reading.clock import Clock
from clusterscale.reading.sources import File
from clusterscale.reading.tables import open_parquet
from clusterscale.reading.values import Spot, decode_values
from clusterscale.release.content import RawRelease
from clusterscale.release.metadata import describe, read_metadata
from clusterscale.release.rows import Rows
from clusterscale.release.text import Absent, TextTable
from clusterscale.storage.address import check_memory

_NOTES = "clusterscale"
_JSON, _VALUE = 10, 100  # bytes of memory of a byte of JSON, and of a value of Parquet


class GeoJsonTable(TextTable):
    """A GeoJSON FeatureCollection (RFC 7946) or GeoParquet file of zones; geometry is not used.

    Each feature is a zone whose properties are named by times; or, if ``time`` is set, a zone at
    one time. Other properties are ignored. Rows of GeoParquet are features, and columns their
    properties.

    Attributes
    ----------
    place
        Property with the name of the zone, or ``id``, the member of the feature or the column.
    time
        Property with the time, e.g. ``datetime``; by default properties are named by times.
    count
        Property with the value, if ``time`` is set, e.g. ``population``.
    absent
        What cells without a value are, e.g. ``hidden``; by default an error.
    """

    name: Literal["geojson"] = "geojson"
    place: str = "id"
    time: str | None = None
    count: str | None = None
    absent: Absent | None = None

    accepts: ClassVar[str] = "a GeoJSON FeatureCollection, or GeoParquet"

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.time is None) != (self.count is None):
            raise ValueError("give both of time, count, or neither")
        return self

    def read(self, uri: str) -> RawRelease:
        """Return the values of the zones; metadata are a member of the collection."""
        collection = self._load(uri)
        cells = list(self._cells(collection["features"], uri))
        known: dict[str, int] = {}
        place = np.array([known.setdefault(name, len(known)) for name, _, _ in cells], np.int64)
        spot = Spot(uri, 1, "value")
        times = pa.array([time for _, time, _ in cells], pa.string())
        seconds = self.clock.decode("time", times, None, spot=spot)
        texts = self._unflagged(pa.array([value for _, _, value in cells], pa.string()))
        values = decode_values("value", texts, spot=spot, **self.codes)
        rows = Rows(list(known), self.slots, uri)
        rows.add(place, seconds, np.zeros(len(cells), np.bool_), values)
        table = self.lay_out(rows, absent=self.absent)
        notes = collection.get(_NOTES, {})
        if not isinstance(notes, dict):
            raise SourceError(f"{uri}: {_NOTES} should be a mapping")
        metadata, uris = read_metadata(notes, uri)
        return replace(table, metadata=metadata, uris=uris)

    def write(self, uri: str, release: RawRelease) -> None:
        """Write zones without a geometry; hidden values are null, times in UTC."""
        places, times = self.names_of(release)
        if release.totals.roi is not None or release.totals.epoch is not None:
            raise InputError(f"{uri}: GeoJSON has no place for totals")
        features = []
        for name, series in zip(places, release.values.tolist(), strict=True):
            shown = {
                str(time): None if value != value else value
                for time, value in zip(times, series, strict=True)
            }
            zone = {"type": "Feature", "geometry": None}
            if self.time is None:
                features.append(zone | self._named(name, shown))
                continue
            for time, value in shown.items():
                features.append(zone | self._named(name, {self.time: time, self.count: value}))
        collection: dict[str, Any] = {"type": "FeatureCollection", "features": features}
        if notes := describe(release.metadata):
            collection[_NOTES] = notes
        storage.put(uri, json.dumps(collection).encode())

    def _named(self, name: str, properties: dict[Any, Any]) -> dict[str, Any]:
        if self.place == "id":
            return {"id": name, "properties": properties}
        return {"properties": {self.place: name, **properties}}

    def _load(self, uri: str) -> dict[str, Any]:
        content = storage.read_file(uri)
        if content.startswith(b"PAR1"):
            return _features(uri)
        check_memory(_JSON * len(content), f"{uri}: the values of {len(content):,} bytes of JSON")
        return self._parse(content, uri)

    def _parse(self, content: bytes, uri: str) -> dict[str, Any]:
        return geojson.load(content, uri)

    def _cells(self, features: list[Any], uri: str) -> Any:
        """Yield place, time and value of each cell, as text; null is None."""
        for number, feature in enumerate(features, 1):
            properties = feature.get("properties") if isinstance(feature, dict) else None
            if not isinstance(properties, dict):
                raise SourceError(f"{uri}: feature {number} has no properties")
            name = feature.get("id") if self.place == "id" else properties.get(self.place)
            if not isinstance(name, str | int) or isinstance(name, bool) or name == "":
                raise SourceError(f"{uri}: feature {number} has no {self.place}")
            if self.time is not None:
                for key in (self.time, self.count):
                    if key not in properties:
                        raise SourceError(f"{uri}: feature {number} has no property {key}")
                yield str(name), _text(properties[self.time]), _text(properties[self.count])
                continue
            found = [key for key in properties if key != self.place and self._is_time(key)]
            if not found:
                raise SourceError(
                    f"{uri}: feature {number}: its features have no property that is a time; set "
                    "`time` and `count`"
                )
            for key in found:
                yield str(name), key, _text(properties[key])

    def _is_time(self, key: str) -> bool:
        clock = Clock(self.timezone or "UTC", self.time_format, self.slots)
        try:
            clock.decode("time", pa.array([key], pa.string()), None, spot=Spot("", 1, ""))
        except SourceError:
            return False
        return True


def _features(uri: str) -> dict[str, Any]:
    """Return the rows of a Parquet file as features, without columns of geometries."""
    with open_parquet(File(uri, uri, 0)) as file:
        n_rows, n_columns = file.metadata.num_rows, file.metadata.num_columns
        what = f"{uri}: {n_rows:,} rows of {n_columns:,} columns"
        check_memory(_VALUE * n_rows * n_columns, what)
        table = file.read()
    plain = [
        field.name
        for field in table.schema
        if not (pa.types.is_binary(field.type) or pa.types.is_nested(field.type))
    ]
    rows = table.select(plain).to_pylist()
    if not rows:
        raise SourceError(f"{uri} has no rows")
    notes = (table.schema.metadata or {}).get(_NOTES.encode(), b"{}")
    try:
        described = json.loads(notes)
    except (ValueError, RecursionError):
        raise SourceError(f"{uri}: {_NOTES} in its metadata is not JSON") from None
    return {
        "features": [{"id": row.get("id"), "properties": row} for row in rows],
        _NOTES: described,
    }


def _text(value: object) -> str | None:
    """Return a value as text; numbers in full, times as in ISO 8601."""
    if isinstance(value, datetime):
        return value.isoformat()
    if value is None or value != value:
        return None
    shown = geojson.text_of(value)
    return "?" if shown is None else shown
