"""Each format of records, from a file to the cells of a cube."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loops import mostly_slow

pytest.importorskip("dask")

import pyarrow as pa
import pyarrow.parquet as pq
from ingest.oracle import GRID, N_EPOCHS, SIDE, START, content, ingest_records

from clusterscale.cube.calendar import Calendar
from clusterscale.cube.regions import Points, Regions
from clusterscale.cube.store import TraceCube
from clusterscale.errors import ConfigError, MissingError, SourceError
from clusterscale.ingestion import READERS, IngestReport, Reader, decode

pytestmark = [pytest.mark.dask, pytest.mark.usefixtures("small_chunks")]

STATIONS = Points(Regions(("Bank", "Angel"), np.array([51.51, 51.53]), np.array([-0.09, -0.11])))


def run(source: Path | str, reader: Reader, locator: Any = GRID, **options: Any) -> IngestReport:
    uri = str(source).rstrip("/") + ".zarr"
    return ingest_records(str(source), uri, reader=reader, locator=locator, force=True, **options)


def cell(lat: float, lon: float, epoch: int) -> int:
    return (int(lat / 2) * SIDE + int(lon / 2)) * N_EPOCHS + epoch


def dropped(report: IngestReport) -> dict[str, int]:
    return {reason: n for reason, n in report.dropped.items() if n}


def test_events_with_other_names_of_columns(tmp_path: Path) -> None:
    source = tmp_path / "calls.csv"
    source.write_text(f"x; when ;card;y\n1;{START};7;3\n1;{START + 100};7;5\n")
    reader = READERS.create("events", user="card", time="when", lat="y", lon="x", delimiter=";")
    run(source, reader)
    assert content(f"{source}.zarr") == {"7": {cell(3, 1, 0), cell(5, 1, 1)}}


def test_positions_may_have_a_decimal_comma_where_none_separates_columns(tmp_path: Path) -> None:
    source = tmp_path / "calls.csv"
    rows = f"7;{START};3,5;1,25", f"7;{START + 100};5;-0,5", f"8;{START};3,5,0;1"
    source.write_text("\n".join(("user;timestamp;lat;lon", *rows)))
    report = run(source, READERS.create("events", delimiter=";"))
    assert content(f"{source}.zarr") == {"7": {cell(3, 1, 0)}}
    assert dropped(report) == {"outside_region": 1, "unparsable": 1}


def test_a_pattern_names_the_files_that_are_read(tmp_path: Path) -> None:
    """In order of names, without those below or hidden; an existing name is no pattern."""
    head, rows = "user,timestamp,lat,lon\n", [f"{user},{START},3,1\n" for user in "abcdef"]
    names = ("2026-2.csv", "2026-1.csv", "2025-1.csv", "sub/2026-3.csv", ".2026-4.csv", "a*.csv")
    for name, row in zip(names, rows, strict=True):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(head + row)
    (tmp_path / "stops.csv").write_text("name;lat;lon\nBank;1;1\n")
    for pattern, users in (("2026-*.csv", "ab"), ("202?-1.csv", "bc"), ("a*.csv", "f")):
        cube = str(tmp_path / "pattern.zarr")
        ingest_records(
            str(tmp_path / pattern), cube, reader=READERS.create("events"), locator=GRID, force=True
        )
        assert sorted(content(cube)) == list(users)
        assert TraceCube(cube).attributes["provenance"]["source"] == pattern
    parts = READERS.create("events").pieces(f"{tmp_path}/202*.csv", 1 << 20)
    assert [part.file.name for part in parts] == [
        f"{tmp_path}/{name}" for name in ("2025-1.csv", "2026-1.csv", "2026-2.csv")
    ]


def test_a_pattern_that_nothing_matches_says_what_its_folder_has(tmp_path: Path) -> None:
    for name in ("cards-1.csv", "cards-2.csv", "new_ann.txt"):
        (tmp_path / name).write_text("1 1 0 1\n")
    wrong = r"card_\*.csv: no file has such a name; its folder has 3 files, such as cards-2.csv, c"
    with pytest.raises(MissingError, match=wrong):
        READERS.create("events").pieces(f"{tmp_path}/card_*.csv", 100)
    with pytest.raises(MissingError, match=r"its folder has 3 files$"):  # names are ids of users
        READERS.create("cabspotting").pieces(f"{tmp_path}/new_a?.txt", 100)
    with pytest.raises(MissingError, match="there is no such file or folder"):
        READERS.create("events").pieces(f"{tmp_path}/none/card_*.csv", 100)


FIRST, SECOND = (datetime.fromtimestamp(START + more, UTC) for more in (0, 100))
STAMP = "%d/%m/%y %H.%M.%S"


@pytest.mark.parametrize(
    ("times", "settings"),
    [
        ((f"{START}000", f"{START + 100}000"), {"milliseconds": "true"}),
        ((f"{START}000", f"{SECOND:%Y-%m-%dT%H:%M:%SZ}"), {"milliseconds": True}),
        (
            (f"{FIRST:{STAMP}}", f"{SECOND:{STAMP}}"),
            {"time_format": STAMP, "timezone": "UTC"},
        ),
    ],
)  # fmt: skip
def test_events_are_laid_out_and_timed_as_tables_are(
    times: tuple[str, str], settings: dict[str, Any], tmp_path: Path
) -> None:
    source = tmp_path / "calls.csv"
    rows = f"Jörg,{times[0]},3,1\nJörg,{times[1]},5,1\nJörg,soon,5,1\n"
    source.write_text(f"Exported today\nuser,timestamp,lat,lon\n{rows}", encoding="latin-1")
    report = run(source, READERS.create("events", encoding="latin-1", skip="1", **settings))
    assert content(f"{source}.zarr") == {"Jörg": {cell(3, 1, 0), cell(5, 1, 1)}}
    assert dropped(report) == {"unparsable": 1}


@pytest.mark.parametrize(
    ("rows", "settings"),
    [
        ("25/10/2026;8\n25/10/2026;9", {"time_format": "%d/%m/%Y"}),
        ("10/25/2026;9\n10/25/2026;10", {"time_format": "%m/%d/%Y", "hours": "1-24"}),
        ("2026-10-25;830\n2026-10-25;930", {"hours": "hhmm"}),
        ("2026-10-25; 8:30\n2026-10-25;09:30:15", {}),
        # Neither an hour nor a day: they are counted, not guessed.
        ("2026-10-25;8\n2026-10-25;9\n2026-10-25;24\n2026-10-25T05:00;3\n2026-10-25;", {}),
        ("2026-10-25;8\n2026-10-25;9\nsoon;9\n2026-10-25;8.5\n;8", {}),
    ],
)
def test_a_day_and_an_hour_are_one_time(
    rows: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    source = tmp_path / "taps.csv"
    rows = "\n".join(f"ann;{row};Bank" for row in rows.splitlines())
    source.write_text(f"user;day;clock;stop\n{rows}\n")
    names = {"time": "day", "hour": "clock", "roi": "stop", "delimiter": ";"}
    reader = READERS.create("events", **names, timezone="Europe/Madrid", **settings)
    calendar = Calendar.parse("2026-10-25", "1h", 25, "Europe/Madrid")
    report = run(source, reader, None, calendar=calendar)
    n_bad = len(rows.splitlines()) - 2
    # Clocks went back at 3: 8 o'clock is nine hours after midnight.
    assert content(f"{source}.zarr") == {"ann": {9, 10}}
    assert dropped(report) == ({"unparsable": n_bad} if n_bad else {})


@pytest.mark.parametrize(
    ("hours", "kind", "seconds"),
    [
        ([8, None], pa.int8(), [28800.0, np.nan]),
        ([8.0, 8.5], pa.float64(), [28800.0, np.nan]),
        ([time(8, 30, 15), time(0)], pa.time64("us"), [30615.0, 0.0]),
        (["08:30", "24:00"], pa.string(), [30600.0, np.nan]),
        ([True, False], pa.bool_(), [np.nan, np.nan]),
        ([], pa.string(), []),
        ([None], pa.null(), [np.nan]),
    ],
)
def test_hours_of_any_type_are_seconds_of_a_day(
    hours: Any, kind: Any, seconds: list[float]
) -> None:
    found = decode.hours("h", pa.array(hours, kind), "0-23")
    np.testing.assert_array_equal(found.values, np.array(seconds))


def test_an_hour_that_is_none_is_named(tmp_path: Path) -> None:
    source = tmp_path / "trips.csv"
    source.write_text("user,a,day,h,b,day2,h2\nann,Bank,2026-03-02,24,Angel,2026-03-02,25\n")
    names = {"start": "a", "start_time": "day", "start_hour": "h"}
    names |= {"end": "b", "end_time": "day2", "end_hour": "h2", "timezone": "UTC"}
    with pytest.raises(SourceError, match=r"column day .* its h is no hour of 0-23 or time such"):
        run(source, READERS.create("trips", **names), STATIONS)
    reader = READERS.create("trips", **names, hours="1-24")
    calendar = Calendar.parse("2026-03-02", "1h", 24, "UTC")
    report = run(source, reader, STATIONS, calendar=calendar)
    assert content(f"{source}.zarr") == {"ann": {23}}
    assert dropped(report) == {"unparsable": 1}


@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv"])
def test_events_packed_or_not_with_a_byte_order_mark(name: str, tmp_path: Path) -> None:
    body = b"\xef\xbb\xbfuser,timestamp,lat,lon\r\n" + b"ann,%d,1,1\r\n" % START * 500
    source = tmp_path / name
    source.write_bytes(gzip.compress(body) if name.endswith("gz") else body)
    report = run(source, READERS.create("events"), block_bytes=100)
    assert (report.n_rows, report.n_events, report.dropped["duplicate"]) == (500, 1, 499)


def test_events_in_a_folder_whose_files_order_columns_each_in_its_way(tmp_path: Path) -> None:
    source = tmp_path / "calls"
    (source / "day=1").mkdir(parents=True)
    (source / "day=1" / "b.csv").write_text(f"lon,lat,user,timestamp\n1,3,ann,{START}\n")
    (source / "a.tsv").write_text(f"user,timestamp,lat,lon\nbob,{START},5,1\n")
    (source / "_SUCCESS").write_text("")
    (source / "empty.csv").write_text("user,timestamp,lat,lon\n")
    run(source, READERS.create("events"))
    assert content(f"{source}.zarr") == {"ann": {cell(3, 1, 0)}, "bob": {cell(5, 1, 0)}}


def test_events_at_an_fsspec_address(tmp_path: Path) -> None:
    import fsspec

    with fsspec.open("memory://ingest/calls.csv", "wb") as stream:
        stream.write(b"user,timestamp,lat,lon\nann,%d,1,1\n" % START)
    cube = "memory://ingest/cube.zarr"
    ingest_records("memory://ingest/calls.csv", cube, reader=READERS.create("events"))
    assert content(cube) == {"ann": {cell(1, 1, 0)}}
    left = fsspec.filesystem("memory").ls("/ingest", detail=False)
    assert sorted(left) == ["/ingest/calls.csv", "/ingest/cube.zarr"]


def test_events_with_timestamps_and_a_categorical_of_integers(tmp_path: Path) -> None:
    source = tmp_path / "calls.parquet"
    moment = datetime.fromtimestamp(START + 250, UTC)
    table = pa.table(
        {
            "user": pa.array([12, 12]).dictionary_encode(),
            "timestamp": pa.array([moment, None], pa.timestamp("ns", "Asia/Tokyo")),
            "lat": pa.array([1, 1]),
            "lon": pa.array(["1.5", "1.5"]),
        }
    )
    pq.write_table(table, source)
    report = run(source, READERS.create("events"))
    assert content(f"{source}.zarr") == {"12": {cell(1, 1, 2)}}
    assert dropped(report) == {"unparsable": 1}


def test_events_that_name_their_roi(tmp_path: Path) -> None:
    source = tmp_path / "taps.csv"
    source.write_text(
        f"user,timestamp,station\nann,{START},Bank\nann,{START},Angel\nann,{START},Bnak\nbob,{START},\n"
    )
    report = run(source, READERS.create("events", roi="station"), STATIONS)
    assert content(f"{source}.zarr") == {"ann": {0, N_EPOCHS}}
    assert dropped(report) == {"no_place": 1, "unknown_roi": 1}


def test_a_place_that_is_not_utf_8_is_not_called_missing(tmp_path: Path) -> None:
    """All stations with an accent would be without a place, where the encoding is wrong."""
    source = tmp_path / "taps.csv"
    lines = f"user,timestamp,station\nann,{START},Bank\nbob,{START},Orléans\neve,{START},\n"
    source.write_text(lines, "latin-1")
    report = run(source, READERS.create("events", roi="station"), None)
    assert dropped(report) == {"no_place": 1, "unparsable": 1}
    source.write_text("".join(lines.splitlines(keepends=True)[::2]), "latin-1")
    with pytest.raises(SourceError, match=r"column station of .* first bad value is not UTF-8"):
        run(source, READERS.create("events", roi="station"), STATIONS)


TAPS = [
    f"ann,{START},Bank,S,child",
    f"bob,{START + 100},Angel,N,adult",
    f"bob,{START + 200},Bank, S ,adult",
    f"cat,{START},Moon,N,adult",
    "cat,noon,,N,adult",
    "eve,noon,Bank,S,adult",
    f"eve,{START},,S,adult",
    "eve",
]


@pytest.mark.parametrize("locator", [STATIONS, None])
@pytest.mark.parametrize("block_bytes", [1 << 20, 40])
def test_only_rows_where_a_column_has_a_text_are_read(
    block_bytes: int, locator: Any, tmp_path: Path
) -> None:
    """Those left out have no other reason, and give no places."""
    source = tmp_path / "taps.csv"
    source.write_text("\n".join(["user,timestamp,station,Válida,profile", *TAPS, ""]))
    reader = READERS.create("events", roi="station", where={"Válida": ["S"]})
    report = run(source, reader, locator, block_bytes=block_bytes)
    assert content(f"{source}.zarr") == {"ann": {0}, "bob": {2}}
    assert (report.n_rows, report.n_events) == (8, 2)
    assert dropped(report) == {"left_out_by_where": 3, "no_place": 1, "unparsable": 2}
    names = TraceCube(f"{source}.zarr").regions.names
    assert names == (("Bank", "Angel") if locator else ("Bank",))
    two = READERS.create("events", roi="station", where={"Válida": ["S"], "profile": ["child"]})
    run(source, two, locator, block_bytes=block_bytes)
    assert content(f"{source}.zarr") == {"ann": {0}}


@pytest.mark.parametrize("locator", [STATIONS, None])
@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"valid": ["S"]}, "has no column valid: its columns are user, timestamp, station, Válida"),
        (
            {"Válida": ["S", "s"]},
            "no row has 's' in Válida, as `where` asks; its values are 'N', 'S'",
        ),
        ({"user": ["zoë"]}, "no row has 'zoë' in user, as `where` asks; it has other values"),
        ({"timestamp": ["1"]}, "no row has '1' in timestamp, as `where` asks; its values are"),
    ],
)
def test_a_text_that_no_row_has_is_an_error(
    where: Any, words: str, locator: Any, tmp_path: Path
) -> None:
    source = tmp_path / "taps.csv"
    source.write_text("\n".join(["user,timestamp,station,Válida,profile", *TAPS, ""]))
    with pytest.raises(SourceError, match=words):
        run(source, READERS.create("events", roi="station", where=where), locator)


@pytest.mark.parametrize(
    ("rows", "locator", "message"),
    [
        (
            2,
            STATIONS,
            r"no event is left \(2 left_out_by_where\); no row that `where` reads is left",
        ),
        (2, None, "no record that `where` reads contains a ROI name"),
        (6, STATIONS, "none of its 2 records besides those left out by `where` can be used"),
    ],
)
def test_nothing_that_is_left_is_an_error(
    rows: int, locator: Any, message: str, tmp_path: Path
) -> None:
    """A child, and one that is not valid; then two adults at noon, which is no time."""
    source = tmp_path / "taps.csv"
    valid = [*TAPS[:2], *["eve,noon,Bank,N,child"] * 2, *TAPS[:2]]
    source.write_text("\n".join(["user,timestamp,station,Válida,profile", *valid[:rows], ""]))
    where = {"Válida": ["N"], "profile": ["child"]}
    with pytest.raises(SourceError, match=message):
        run(source, READERS.create("events", roi="station", where=where), locator)


def test_many_values_are_not_listed(tmp_path: Path) -> None:
    source = tmp_path / "taps.csv"
    rows = [f"ann,{START},Bank,secret-{number}" for number in range(11)]
    source.write_text("\n".join(["user,timestamp,station,note", *rows]))
    reader = READERS.create("events", roi="station", where={"note": ["x"]})
    with pytest.raises(SourceError, match="no row has 'x' in note") as caught:
        run(source, reader, STATIONS, block_bytes=60)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("block_bytes", [1 << 20, 30])
def test_without_points_the_rois_are_the_names_found(block_bytes: int, tmp_path: Path) -> None:
    source = tmp_path / "taps.csv"
    source.write_text(
        f"user,timestamp,station\nann,{START},b\nbob,{START},ä\nbob,{START},B\nann,1,c\nann,{START},\n"
    )
    run(source, READERS.create("events", roi="station"), None, block_bytes=block_bytes)
    cube = TraceCube(f"{source}.zarr")
    assert cube.regions.names == ("B", "b", "c", "ä")
    assert np.isnan(cube.regions.lat).all()
    assert np.isnan(cube.regions.lon).all()
    assert content(f"{source}.zarr") == {"ann": {N_EPOCHS}, "bob": {0, 3 * N_EPOCHS}}


@pytest.mark.parametrize("block_bytes", [1 << 20, 25])
def test_cabspotting(block_bytes: int, tmp_path: Path) -> None:
    source = tmp_path / "cabs"
    source.mkdir()
    (source / "new_abc.txt").write_text(
        f"3.5 1.5 0 {START + 150}\n1.5 1.5 1 {START}\n\n1.5 1.5\n1.5 1.5 0 {START + 10}\n91 1 0 1\n"
    )
    (source / "new_xyz.txt").write_text(f"1 1 0 {START}")
    (source / "new_idle.txt").write_text("")
    (source / "_cabs.txt").write_text("<cab id='abc'/>")
    report = run(source, READERS.create("cabspotting"), block_bytes=block_bytes)
    assert content(f"{source}.zarr") == {
        "abc": {cell(1, 1, 0), cell(3, 1, 1)},
        "xyz": {cell(1, 1, 0)},
    }
    assert report.n_rows == 6
    assert dropped(report) == {"unparsable": 1, "out_of_range": 1, "duplicate": 1}


@pytest.mark.parametrize("block_bytes", [1 << 20, 40])
def test_trips_are_two_events_and_an_unfinished_one_is_one(
    block_bytes: int, tmp_path: Path
) -> None:
    source = tmp_path / "trips.csv"
    source.write_text(
        "user,start_station,start_time,end_station,end_time\n"
        f"ann,Bank,{START},Angel,{START + 100}\n"
        f"ann,Angel,{START + 200},Unfinished,{START + 300}\n"
        f"bob,Bank,{START},,\n"
        "bob,Bank\n"
    )
    reader = READERS.create("trips")
    report = run(source, reader, STATIONS, block_bytes=block_bytes)
    assert content(f"{source}.zarr") == {"ann": {0, N_EPOCHS + 1, N_EPOCHS + 2}, "bob": {0}}
    assert report.n_rows == 4
    assert dropped(report) == {"no_place": 1, "unparsable": 2, "unknown_roi": 1}
    assert report.n_rows * report.events_per_row == report.n_events + sum(report.dropped.values())


def test_pairs_of_stations_are_rois(tmp_path: Path) -> None:
    """A trip is one event at its start; the end of the second of Bob's is missing."""
    source = tmp_path / "trips.csv"
    source.write_text(
        "user,start_station,start_time,end_station,end_time\n"
        f"ann,Bank,{START},Angel,{START + 100}\nann,Angel,{START + 200},Bank,{START + 300}\n"
        f"bob,Bank,{START},Angel,x\nbob,Bank,{START},,\n"
    )
    pairs = Points(Regions(("Angel → Bank", "Bank → Angel"), np.zeros(2), np.zeros(2)))
    report = run(source, READERS.create("trip_pairs"), pairs)
    assert content(f"{source}.zarr") == {"ann": {N_EPOCHS, 2}, "bob": {N_EPOCHS}}
    assert (report.n_rows, report.events_per_row) == (4, 1)
    assert dropped(report) == {"no_place": 1}


def _feature(user: Any, time: Any, place: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "Feature",
        "geometry": {"type": "Point", "coordinates": place},
        "properties": {"user": user, "timestamp": time, "text": '"features": [', **more},
    }


FEATURES: list[Any] = [
    _feature("ann", START, [1.5, 3.5]),
    _feature("ann", str(START + 1), [1.5, 3.5, 12.0]),
    _feature(17, "2023-11-14T22:15:00Z", [1, 3]),
    _feature("bob", None, [1, 3]),
    _feature("bob", True, [1, 3]),
    _feature(["bob"], START, [1, 3]),
    _feature("bob", START, ["x", 3]),
    _feature("bob", START, []),
    {"type": "Feature", "geometry": None, "properties": None},
    _feature("zoë", START + 500.5, [1, 3], emoji="\U0001f6b2"),
    17,
]


@mostly_slow("block_bytes", [1 << 20, 200])
@mostly_slow("indent", [None, 2])
@mostly_slow("ascii_only", [True, False])
def test_geojson_as_a_collection_and_one_feature_a_line(
    block_bytes: int, indent: int | None, ascii_only: bool, tmp_path: Path
) -> None:
    whole = {"type": "FeatureCollection", "features": FEATURES, "more": [1, {"features": 2}]}
    collection, lines = tmp_path / "a.geojson", tmp_path / "b.geojsonl"
    collection.write_text(json.dumps(whole, indent=indent, ensure_ascii=ascii_only), "utf-8")
    rows = [json.dumps(feature, ensure_ascii=ascii_only) for feature in FEATURES]
    lines.write_text("\n\n\x1e".join(rows), "utf-8")
    for source in (collection, lines):
        report = run(source, READERS.create("geojson"), block_bytes=block_bytes)
        assert content(f"{source}.zarr") == {
            "17": {cell(3, 1, 1)},
            "ann": {cell(3, 1, 0)},
            "zoë": {cell(3, 1, 5)},
        }
        assert report.n_rows == len(FEATURES)
        assert dropped(report) == {"no_place": 2, "unparsable": 5, "duplicate": 1}


def test_geojson_collection_larger_than_what_is_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterscale.reading.geojson._CHUNK", 17)
    monkeypatch.setattr("clusterscale.ingestion.readers._FEATURES", 3)
    source = tmp_path / "a.json"
    source.write_text(json.dumps({"type": "FeatureCollection", "features": FEATURES}))
    assert run(source, READERS.create("geojson")).n_rows == len(FEATURES)


def test_geojson_as_social_pulse_names_things(tmp_path: Path) -> None:
    source = tmp_path / "pulse.json"
    feature = {
        "user": "a1b2",
        "created": "2023-11-14T23:13:20+01:00",
        "geomPoint.geom": {"type": "Point", "coordinates": [1.5, 3.5]},
    }
    source.write_text(json.dumps({"features": [feature]}))
    reader = READERS.create("geojson", time="created", geometry="geomPoint.geom")
    run(source, reader)
    assert content(f"{source}.zarr") == {"a1b2": {cell(3, 1, 0)}}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("latitude", "y", "reader.events.latitude: "),
        (
            "timezone",
            "Mars/Base",
            "'Mars/Base' is not an IANA name such as 'Europe/London' or 'UTC'",
        ),
        ("delimiter", ", ", "', ' is not one character such as ',' or ';'"),
        ("delimiter", '"', "'\"' is not one character such as ',' or ';'"),
    ],
)
def test_wrong_fields_are_config_errors(field: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        READERS.create("events", **{field: value})
    assert message in str(caught.value)


def test_every_reader_is_hashable_and_says_its_name() -> None:
    import pickle

    for name in READERS:
        reader = READERS.create(name)
        assert reader.name == name
        assert pickle.loads(pickle.dumps(reader)) == reader
        assert hash(reader) == hash(READERS.create(name))
