"""The ``ingest`` command: convert records to a cube."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterscale.api.execution import new_bar, teller
from clusterscale.cli.console import err, out, show_cube
from clusterscale.cli.options import AddressArgument, Force, OptionalAddress
from clusterscale.cube import Calendar, Geohash, Grid, Hexagons, InspireGrid, Locator, TraceCube
from clusterscale.errors import InputError
from clusterscale.validation_messages import choices

if TYPE_CHECKING:
    from clusterscale.ingestion import Reader


_EXAMPLES = {
    "column": "user=card_id",
    "setting": "timezone=Europe/London",
    "where": "valid=yes",
}


def ingest(
    source: AddressArgument,
    cube: AddressArgument,
    start: Annotated[str, typer.Option()],
    epochs: Annotated[int, typer.Option()],
    reader: str = "events",
    column: list[str] | None = None,
    setting: list[str] | None = None,
    where: list[str] | None = None,
    grid: str | None = None,
    points: OptionalAddress = None,
    points_setting: list[str] | None = None,
    cutoff: float | None = None,
    h3: str | None = None,
    geohash: str | None = None,
    inspire: str | None = None,
    epoch: str = "1h",
    timezone: str | None = None,
    pseudonymise: OptionalAddress = None,
    top_users: int | None = None,
    min_events: int = 1,
    weights: OptionalAddress = None,
    force: Force = False,
) -> None:
    """Convert location records to a cube, and count the dropped rows by reason.

    Each reader has columns, which --column renames, and settings, for --setting:

        events       Parquet or CSV, one event per row
           columns   user=user, time=timestamp, lat=lat, lon=lon,
                     roi=NAME instead of lat and lon, hour=NAME if time is a date,
                     stratum=NAME of a category
           settings  timezone=ZONE of times without a zone, time_format=PATTERN,
                     milliseconds=False, hours=0-23 (or 1-24, hhmm), delimiter=,
                     in CSV, encoding=utf-8, skip=0
        trips        Parquet or CSV, one trip per row, which is two events
           columns   user=user, start=start_station, start_time=start_time,
                     end=end_station, end_time=end_time,
                     start_hour=NAME and end_hour=NAME if these times are dates,
                     stratum=NAME of a category
           settings  timezone=ZONE of times without a zone, time_format=PATTERN,
                     milliseconds=False, hours=0-23 (or 1-24, hhmm), delimiter=,
                     in CSV, encoding=utf-8, skip=0
        trip_pairs   the same, but one event, in the ROI "START → END"
           columns   user=user, start=start_station, start_time=start_time,
                     end=end_station, end_time=end_time,
                     start_hour=NAME and end_hour=NAME if these times are dates,
                     stratum=NAME of a category
           settings  timezone=ZONE of times without a zone, time_format=PATTERN,
                     milliseconds=False, hours=0-23 (or 1-24, hhmm), delimiter=,
                     in CSV, encoding=utf-8, skip=0
        geojson      GeoJSON points, a collection or one feature per line
           columns   user=user, time=timestamp, geometry=geometry
           settings  timezone=ZONE of times without a zone
        cabspotting  files new_CAB.txt with lines: lat lon occupied unixtime

    Parameters
    ----------
    source
        File, folder, URL or pattern of records, e.g. 'records/2026-*.csv' in quotes.
    cube
        Where to write the cube.
    start
        Start of epoch 0, ISO, in the time zone.
    epochs
        Number of epochs.
    reader
        events, trips, trip_pairs, geojson, cabspotting, or that of a plug-in.
    column
        Name of a reader's column in the files, e.g. user=card_id; may be repeated.
    setting
        A setting of the reader, e.g. timezone=Europe/London; may be repeated.
    where
        Read only rows with this text in a column of a table, e.g. valid=yes; may be repeated, for
        several texts or columns.
    grid
        south,west,north,east/ROWSxCOLUMNS in degrees.
    points
        Table of points: name,lat,lon.
    points_setting
        Its delimiter, encoding, skip, or column: roi (name), lat, lon.
    cutoff
        Maximal distance to the nearest point, in metres.
    h3
        south,west,north,east/RESOLUTION of H3 cells.
    geohash
        south,west,north,east/PRECISION, 1 to 9, of geohash cells.
    inspire
        south,west,north,east/METRES of INSPIRE cells, e.g. 1000.
    epoch
        Length of an epoch: 15min, 1h, 1d, 1w, 1mo.
    timezone
        IANA name of the time zone of epochs; by default that of the records, or UTC.
    pseudonymise
        File with a secret key; user ids become keyed hashes.
    top_users
        Keep only this number of users, those with most events.
    min_events
        Keep only users with at least this number of events.
    weights
        Table of weights: the column of users, and weight (people per user).
    """
    from clusterscale.api.records import ingest_with_report
    from clusterscale.ingestion import READERS, IngestOptions, read_key

    fields = _fields(READERS[reader], column or [], setting or [])
    rows: dict[str, list[str]] = {}
    for text in where or []:
        for name, value in _parse("where", [text]).items():
            rows.setdefault(name, []).append(value)
    areas = {"grid": grid, "h3": h3, "geohash": geohash, "inspire": inspire}
    options = IngestOptions(
        reader=READERS.create(reader, **fields, **({"where": rows} if rows else {})),
        locator=_locator(areas, points, cutoff, _parse("points-setting", points_setting or [])),
        calendar=Calendar.parse(start, epoch, epochs, timezone or fields.get("timezone", "UTC")),
        pseudonymise=read_key(pseudonymise) if pseudonymise else None,
        top_users=top_users,
        min_events=min_events,
        weights=weights,
    )
    with new_bar(err) as bar:
        tell = teller(bar, bar.add_task("ingest"))
        read = [points, pseudonymise]
        report = ingest_with_report(source, cube, options, force=force, progress=tell, others=read)
    out.print(str(report))
    show_cube(TraceCube(cube))


def _fields(reader: type[Reader], columns: list[str], settings: list[str]) -> dict[str, str]:
    """Return the fields of a reader that the options set."""
    known = [name for name in getattr(reader, "model_fields", {}) if name != "name"]
    kinds = {"column": [name for name in known if name not in reader.settings]}
    kinds["setting"] = [name for name in reader.settings if name != "where"]
    fields = {}
    for kind, texts in (("column", columns), ("setting", settings)):
        for key, value in _parse(kind, texts).items():
            if key not in kinds[kind]:
                raise InputError(_wrong_option(kind, key, value, kinds))
            fields[key] = value
    return fields


def _parse(kind: str, texts: list[str]) -> dict[str, str]:
    """Return the values of an option that is NAME=VALUE, by name."""
    fields = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            example = _EXAMPLES.get(kind, "delimiter=;")
            raise InputError(f"--{kind} {text!r} is not NAME=VALUE, e.g. --{kind} {example}")
        fields[key] = value
    return fields


def _wrong_option(kind: str, key: str, value: str, kinds: dict[str, list[str]]) -> str:
    if key == "where":
        return f"--{kind} {key}: use --where {shlex.quote(value)}"
    other = "setting" if kind == "column" else "column"
    if key in kinds[other]:
        typed = shlex.quote(f"{key}={value}")
        return f"--{kind} {key}: {key} is a {other} of this reader; use --{other} {typed}"
    if not kinds[kind]:
        return f"--{kind} {key}: this reader has no {kind}s"
    return f"--{kind} {key}: this reader has no such {kind}; {choices(key, kinds[kind])}"


def _locator(
    areas: dict[str, str | None], points: str | None, cutoff: float | None, layout: dict[str, str]
) -> Locator | None:
    from clusterscale.ingestion import READERS, read_points

    parsers: dict[str, Callable[[str], Locator]] = {
        "grid": Grid.parse,
        "h3": Hexagons.parse,
        "geohash": Geohash.parse,
        "inspire": InspireGrid.parse,
    }
    given = {name: text for name, text in areas.items() if text is not None}
    if len(given) + (points is not None) > 1:
        raise InputError("give one of --grid, --points, --h3, --geohash and --inspire")
    for name, value in (("cutoff", cutoff), ("points-setting", layout or None)):
        if value is not None and points is None:
            raise InputError(f"--{name} needs --points")
    if points is not None:
        reader: Any = READERS.create("events", **({"roi": "name"} | layout))
        return read_points(points, cutoff, reader)
    return next((parsers[name](text) for name, text in given.items()), None)
