"""A corpus of sources that cannot be used, each with the error it must give, word for word."""

from __future__ import annotations

import gzip
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dask")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from ingest.oracle import GRID, START, ingest_records

from clusterscale.cube.regions import Points, Regions
from clusterscale.errors import ClusterscaleError, InputError, MissingError, SourceError
from clusterscale.ingestion import Cabspotting, Events, GeoJson, Reader, Trips

pytestmark = [pytest.mark.dask, pytest.mark.usefixtures("small_chunks")]

HEAD = b"user,timestamp,lat,lon\n"
GOOD = b"ann,%d,1,1\n" % START
STATIONS = Points(Regions(("Bank", "Angel"), np.array([51.5, 51.6]), np.zeros(2)))


def parquet(**columns: Any) -> bytes:
    whole = {"user": ["ann"], "timestamp": [START], "lat": [1.0], "lon": [1.0], **columns}
    pq.write_table(pa.table(whole), sink := io.BytesIO())
    return sink.getvalue()


@dataclass(frozen=True)
class Case:
    """Files (one that is named ``source…`` is the source, else the folder), and the error."""

    files: dict[str, bytes]
    message: str
    error: type[ClusterscaleError] = SourceError
    reader: Reader | None = None
    locator: Any = GRID
    options: dict[str, Any] = field(default_factory=dict)


CASES = {
    "absent": Case({}, "SOURCE: there is no such file or folder", MissingError),
    "folder without records": Case(
        {"notes.md": b"hello"}, "SOURCE: the folder contains no Parquet or CSV file"
    ),
    "folder with hidden files only": Case(
        {".a.csv": HEAD, "_b.parquet": b"", "sub/_c.csv": b""},
        "SOURCE: the folder contains no Parquet or CSV file",
    ),
    "folder of two kinds": Case(
        {"a.csv": HEAD + GOOD, "b.parquet": parquet()},
        "SOURCE: there are both Parquet and CSV files: give a folder or pattern of one kind",
    ),
    "empty file": Case(
        {"source.csv": b""}, "SOURCE is empty: the first line should name the columns"
    ),
    "header only": Case({"source.csv": HEAD}, "SOURCE contains no records"),
    "no header": Case(
        {"source.csv": GOOD}, "SOURCE: the first line contains values, not column names"
    ),
    "no header, times as text": Case(
        {"source.csv": b"ann,2024-01-01T00:00:00Z,Bank\n"},
        "SOURCE: the first line contains values, not column names",
    ),
    "JSON named CSV": Case(
        {"source.csv": b'{"user": "ann@x.org", "lat": 1}\n'},
        "SOURCE has no column user: its first line does not name columns",
    ),
    "a user id among the columns": Case(
        {"source.csv": b"user,ann@x.org,lat\n"},
        "SOURCE has no column timestamp: its columns are user, lat, and 1 name with other "
        "characters",
    ),
    "Latin-1 rows longer than the header": Case(
        {"source.csv": HEAD + b"Zo\xe9,1,1,1,1\n\xe9,1,1,1,1\n"},
        "SOURCE: the first bad line has 5 fields, not 4; none of its 2 records can be used",
    ),
    "column absent": Case(
        {"source.csv": b"user,timestamp,latitude,lon\n" + GOOD},
        "SOURCE has no column lat: its columns are user, timestamp, latitude, lon",
    ),
    "column mapped to nothing": Case(
        {"source.csv": HEAD + GOOD},
        "SOURCE has no column card: its columns are user, timestamp, lat, lon",
        reader=Events(user="card"),
    ),
    "column twice": Case(
        {"source.csv": b"user,timestamp,lat,lat,lon\nann,1,2,3,4\n"},
        "SOURCE has 2 columns named lat",
    ),
    "another delimiter": Case(
        {"source.csv": HEAD.replace(b",", b";") + GOOD},
        "SOURCE has no column user: its columns are user, timestamp, lat, lon, if ';' separates "
        "them: set the reader's `delimiter`",
    ),
    "a record with another delimiter": Case(
        {"source.csv": b"ann,%d,1,1\n" % START},
        "SOURCE has no column user: its first line does not name columns",
        reader=Events(delimiter=";"),
    ),
    "rows shorter than the header": Case(
        {"source.csv": HEAD + b"ann,1,1\nbob,2\n"},
        "SOURCE: the first bad line has 3 fields, not 4; none of its 2 records can be used",
    ),
    "quotes left open": Case(
        {"source.csv": HEAD + b'"ann,1,1,1\n"bob,2,2,2\n'},
        "SOURCE: the first bad line has a quote that is not closed; none of its 2 records can"
        " be used",
    ),
    "times that are words": Case(
        {"source.csv": HEAD + b"ann,noon,1,1\nbob,later,1,1\n"},
        "column timestamp of SOURCE: the first bad value is not a time, as in "
        "2026-03-02T08:05:00 or seconds since 1970; none of its 2 records can be used",
    ),
    "times without a zone": Case(
        {"source.csv": HEAD + b"ann,2023-11-14T22:13:20,1,1\n"},
        "column timestamp of SOURCE: the first bad value is a time without "
        "a zone: set the reader's `timezone`; its only record cannot be used",
    ),
    "times in milliseconds": Case(
        {"source.csv": HEAD + b"ann,%d000,1,1\n" % START},
        "SOURCE: no event is left (1 outside_period); the data runs from 1.7e+12 s to 1.7e+12"
        " s, the cube from Tue 2023-11-14 22:13 to Tue 2023-11-14 22:23 UTC: are its times "
        "in milliseconds? Then set `milliseconds=true`",
    ),
    "times of another year": Case(
        {"source.csv": HEAD + b"ann,%d,1,1\n" % (START - 10**7)},
        "SOURCE: no event is left (1 outside_period); the data runs from Sat 2023-07-22 04:26"
        " to Sat 2023-07-22 04:26, the cube from Tue 2023-11-14 22:13 to Tue 2023-11-14 22:23"
        " UTC",
    ),
    "positions that are words": Case(
        {"source.csv": HEAD + b"ann,%d,north,1\n" % START},
        "column lat of SOURCE: the first bad value is not a number; its only record cannot be used",
    ),
    "positions that are braces": Case(
        {"source.csv": HEAD + b"ann,%d,{file},1\n" % START},
        "column lat of SOURCE: the first bad value is not a number; its only record cannot be used",
    ),
    "a long bad value": Case(
        {"source.csv": HEAD + b"ann,%d,%s,1\n" % (START, b"x" * 99)},
        "column lat of SOURCE: the first bad value is not a number; its only record cannot be used",
    ),
    "decimal commas": Case(
        {"source.csv": HEAD + b'ann,%d,"1,5","1,5"\n' % START},
        "column lat of SOURCE: the first bad value is not a number; its only record cannot be used",
    ),
    "positions swapped": Case(
        {"source.csv": HEAD + b"ann,%d,-122.4,37.7\n" % START},
        "column lat of SOURCE: the first bad value is beyond ±90 degrees; its only record "
        "cannot be used",
    ),
    "positions elsewhere": Case(
        {"source.csv": HEAD + b"ann,%d,51.5,-0.1\nbob,%d,52,0\n" % (START, START)},
        "SOURCE: no event is left (2 outside_region); the data in the period spans lat 51.5 to"
        " 52, lon -0.1 to 0, outside the regions",
    ),
    "users missing": Case(
        {"source.csv": HEAD + b",%d,1,1\n" % START},
        "column user of SOURCE: the first bad value is missing; its only record cannot be used",
    ),
    "some of each": Case(
        {"source.csv": HEAD + b"ann,noon,1,1\nbob,1,1,1\ncy,%d,9,9\n" % START},
        "SOURCE: no event is left (1 unparsable, 1 outside_period, 1 outside_region); the "
        "data runs from Thu 1970-01-01 00:00 to Tue 2023-11-14 22:13, the cube from Tue "
        "2023-11-14 22:13 to Tue 2023-11-14 22:23 UTC; the data in the period spans lat 9 to "
        "9, lon 9 to 9, outside the regions",
    ),
    "one bad file of two": Case(
        {"a.csv": HEAD + GOOD, "b.csv": HEAD + b"ann,x,1,1\nann,y,1,1\n"},
        "column timestamp of SOURCE/b.csv: the first bad value is not a time, as in "
        "2026-03-02T08:05:00 or seconds since 1970; none of its 2 records can be used",
    ),
    "text in UTF-16": Case(
        {"source.csv": (HEAD + GOOD).decode().encode("utf-16")},
        "SOURCE: the first line is not UTF-8 text",
    ),
    "packed file cut short": Case(
        {"source.csv.gz": gzip.compress(HEAD + 9999 * GOOD, mtime=0)[:-20]},
        "SOURCE is damaged: it cannot be decompressed",
    ),
    "no Parquet": Case({"source.parquet": HEAD + GOOD}, "SOURCE is not a complete Parquet file"),
    "Parquet cut short": Case(
        {"source.parquet": parquet()[:-9]}, "SOURCE is not a complete Parquet file"
    ),
    "Parquet column absent": Case(
        {"source.parquet": parquet()},
        "SOURCE has no column y: its columns are user, timestamp, lat, lon",
        reader=Events(lat="y"),
    ),
    "Parquet users that are numbers": Case(
        {"source.parquet": parquet(user=[1.5])},
        "column user of SOURCE is double: names are text or integers",
    ),
    "Parquet times that are truths": Case(
        {"source.parquet": parquet(timestamp=[True])},
        "column timestamp of SOURCE is bool, not times",
    ),
    "Parquet times without a zone": Case(
        {"source.parquet": parquet(timestamp=pa.array([START], pa.timestamp("s")))},
        "column timestamp of SOURCE contains times without a zone: set the reader's `timezone`",
    ),
    "Parquet positions missing": Case(
        {"source.parquet": parquet(lat=pa.array([None], pa.float64()))},
        "column lat of SOURCE: the first bad value is missing; its only record cannot be used",
    ),
    "unknown ROIs": Case(
        {"source.csv": b"user,timestamp,place\nann,%d,Bnak\n" % START},
        "SOURCE: no event is left (1 unknown_roi); no ROI of the records is one of the regions",
        reader=Events(roi="place"),
        locator=STATIONS,
    ),
    "no ROI named": Case(
        {"source.csv": b"user,timestamp,place\nann,%d,\n" % START},
        "SOURCE: no record contains a ROI name",
        reader=Events(roi="place"),
        locator=None,
    ),
    "trips without an end": Case(
        {"source.csv": b"user,start_station,start_time\nann,Bank,1\n"},
        "SOURCE has no column end_station: its columns are user, start_station, start_time",
        reader=Trips(),
        locator=STATIONS,
    ),
    "no cab": Case(
        {"a.txt": b"1 1 0 1\n"},
        "SOURCE: the folder contains no file new_*.txt",
        reader=Cabspotting(),
    ),
    "cab with commas": Case(
        {"new_a.txt": b"1,1,0,1\n1,1,0,2\n"},
        "SOURCE (file 1 by name): the first bad line has 1 field, not 4; none of its 2 records "
        "can be used",
        reader=Cabspotting(),
    ),
    "GeoJSON that is no JSON": Case(
        {"source.geojson": b"ann 1 1\nbob 2 2\n"},
        "SOURCE: the first bad line is not a GeoJSON feature; none of its 2 records can be used",
        reader=GeoJson(),
    ),
    "collection cut short": Case(
        {"source.geojson": b'{"type": "FeatureCollection", "features": [{"type": "Feature", "geo'},
        "SOURCE is not a complete FeatureCollection: invalid JSON after 0 features",
        reader=GeoJson(),
    ),
    "collection without features": Case(
        {"source.geojson": b'{"type": "FeatureCollection"}'},
        "SOURCE is a FeatureCollection without features",
        reader=GeoJson(),
    ),
    "lines instead of points": Case(
        {
            "source.geojson": b'{"type": "Feature", "geometry": {"type": "LineString"},'
            b' "properties": {"user": 1, "timestamp": 1}}'
        },
        "column geometry of SOURCE: the first bad value is not a coordinate of a "
        "point; its only record cannot be used",
        reader=GeoJson(),
    ),
    "positions and no regions": Case(
        {"source.csv": HEAD + GOOD},
        "reader events gives positions: specify the regions with `locator`",
        InputError,
        locator=None,
    ),
    "nobody left": Case(
        {"source.csv": HEAD + GOOD + GOOD},
        "no user has 2 events or more: the most is 1",
        InputError,
        options={"min_events": 2},
    ),
    "a short key": Case(
        {"source.csv": HEAD + GOOD},
        "`pseudonymise`: a key has 16 to 64 bytes, this one has 5",
        InputError,
        options={"pseudonymise": b"short"},
    ),
    "top 0 users": Case(
        {"source.csv": HEAD + GOOD},
        "`top_users` is 0: keep at least 1",
        InputError,
        options={"top_users": 0},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_error_says_what_is_wrong(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    folder = tmp_path / "records"
    for file, body in case.files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(body)
    single = [file for file in case.files if file.startswith("source")]
    source = str(folder / single[0] if single else folder)
    cube = tmp_path / "cube.zarr"
    with pytest.raises(ClusterscaleError) as caught:
        ingest_records(
            source,
            str(cube),
            reader=case.reader or Events(),
            locator=case.locator,
            **case.options,
        )
    said = str(caught.value).replace(source, "SOURCE")
    if case.error is SourceError:
        reader = case.reader or Events()
        said, accepted, *remedies = said.split("\n")
        assert not remedies or len(case.files) > 1
        assert accepted == f"reader {reader.name} accepts {reader.accepts}"
    assert said == case.message
    assert type(caught.value) is case.error
    assert [path.name for path in tmp_path.iterdir()] == ["records"] * bool(case.files)


def test_a_file_of_another_kind_in_a_folder_is_named_with_its_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(HEAD.replace(b",", b";") + GOOD.replace(b",", b";"))
    (tmp_path / "stops.csv").write_bytes(b"name,lat,lon\nBank,1,1\n")
    source, cube, reader = str(tmp_path), str(tmp_path / "cube.zarr"), Events(delimiter=";")
    with pytest.raises(SourceError) as caught:
        ingest_records(source, cube, reader=reader, locator=GRID)
    fault, _, remedy = str(caught.value).replace(str(tmp_path), "SOURCE").split("\n")
    assert fault.startswith("SOURCE/stops.csv has no column user: its columns are name, lat, lon, ")
    assert remedy == "SOURCE has several files; a pattern, as '2026-*.csv', leaves some out"
