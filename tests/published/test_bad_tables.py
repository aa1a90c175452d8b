"""Damaged and ambiguous tables are refused with the file, row and column, never read as zeros."""

import codecs
import itertools
import json

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clusterscale.errors import (
    ClusterscaleError,
    ConfigError,
    FormatError,
    InputError,
    SourceError,
)
from clusterscale.release import TABLE_FORMATS

HEAD = "place,time,count\n"
ROWS = "a,2026-03-02T08:00Z,3\na,2026-03-02T09:00Z,4\nb,2026-03-02T08:00Z,5\n"
FULL = HEAD + ROWS + "b,2026-03-02T09:00Z,6\n"
LOCAL = FULL.replace("Z", "")
STATUS = "place,time,count,status\n"


def zones(*features):
    return json.dumps({"type": "FeatureCollection", "features": list(features)})


def zone(place="a", **properties):
    return {"type": "Feature", "id": place, "geometry": None, "properties": properties}


LONG = [
    ("", {}, "is empty: the first line should name the columns"),
    ("3,4,5\n", {}, "the first line contains values, not column names"),
    (HEAD, {}, "the table has no rows with values"),
    (FULL, {"place": "zone"}, "has no column zone: its columns are place, time, count"),
    (FULL, {"count": "population"}, "has no column population: its columns are place, time, count"),
    (FULL, {"time": "hour"}, "has no column hour: its columns are place, time, count"),
    (FULL, {"status": "flag"}, "has no column flag: its columns are place, time, count"),
    (FULL, {"origin": "o", "destination": "d"}, "has no column o: its columns are place, time"),
    (FULL.replace(",", ";"), {}, "if ';' separates them: set the reader's `delimiter`"),
    (FULL.replace("time", "place"), {}, "has 2 columns named place"),
    (FULL + "a,b\n", {}, "1 lines are not rows; the first has 2 fields, not 3"),
    (FULL + 'a,"b,3\n', {}, "1 lines are not rows; the first has a quote that is not closed"),
    (FULL + "a,2026-03-02T10:00Z,few\n", {}, "line 6, column count: 'few' is not a number; if it"),
    (FULL + "a,2026-03-02T10:00Z,1e999\n", {}, "line 6, column count: '1e999' is not a number"),
    (FULL + "a,2026-03-02T10:00Z,inf\n", {}, "line 6, column count: 'inf' is not a number"),
    (FULL + 'a,2026-03-02T10:00Z,"3,5"\n', {}, "line 6, column count: '3,5' is not a number"),
    (FULL + 'a,2026-03-02T10:00Z,"1,234.5"\n', {"decimal_comma": True}, "'1,234.5' is not a num"),
    (FULL + "a,2026-03-02T10:00Z,1.234\n", {"decimal_comma": True}, "if the mark separates thousa"),
    (FULL + "a,2026-03-02T10:00Z,1'234\n", {}, "not a number; if the mark separates thousands"),
    (FULL + "a,2026-03-02T10:00Z,12 34\n", {"thousands": " "}, "'12 34' is not a number; if it h"),
    (FULL + "a,2026-03-02T10:00Z,>100\n", {}, "line 6, column count: '>100' is not a number"),
    (FULL + "a,soon,3\n", {}, "line 6, column time: 'soon' is not a time, as in 2026-03-02T08:05"),
    (FULL + "a,,3\n", {}, "line 6, column time: '' is not a time|is missing"),
    (FULL + ",2026-03-02T10:00Z,3\n", {}, "line 6, column place: the name is missing"),
    (FULL + "a,2026-03-02T10:00:00.5Z,3\n", {}, "line 6, column time: the time is not in whole"),
    (LOCAL, {}, "a time without a zone: set `timezone` of the format"),
    (FULL + "a,2026-02-30T10:00Z,3\n", {}, "line 6, column time: '2026-02-30T10:00Z' is not a ti"),
    (
        LOCAL + "a,2026-03-29T02:30,3\n",
        {"timezone": "Europe/Paris"},
        "line 6, column time: '2026-03-29T02:30' is not a time",
    ),
    (
        HEAD + "a,29/03/2026 02:30,3\n",
        {"timezone": "Europe/Paris", "time_format": "%d/%m/%Y %H:%M"},
        "line 2, column time: 2026-03-29 02:30:00 does not exist: clocks in Europe/Paris skip it",
    ),
    (
        HEAD + "a,2026-03-02,3\n",
        {"timezone": "Europe/Paris", "time_format": "%d/%m/%Y"},
        "line 2, column time: '2026-03-02' is not in the format %d/%m/%Y",
    ),
    (
        HEAD + "a,02/03/2026,3\n",
        {"time_format": "%d/%m/%Y"},
        "times without a zone: set `timezone` of the format",
    ),
    (
        "place,time,hour,count\na,2026-03-02,8.5,3\n",
        {"hour": "hour", "timezone": "UTC"},
        "line 2, column hour: no hour of 0-23: `hours` of the format says",
    ),
    (
        "place,time,hour,count\na,2026-03-02T05:00,8,3\n",
        {"hour": "hour", "timezone": "UTC"},
        "line 2, column time: '2026-03-02T05:00' is not an ISO date",
    ),
    (HEAD + "a,0,3\na,1,4\n", {}, "column time: the time is 1970-01-01T00:00:00; if it is the"),
    (HEAD + "a,20260302,3\n", {}, "column time: the time is 1970-08-23T11:51:42; if it is the"),
    (HEAD + "a,1772409600000,3\n", {}, "line 2, column time: the time is after 2100; if it is not"),
    (HEAD + "a,1e300,3\n", {"slots": True}, "line 2, column time: the value is not a whole number"),
    (
        "place,date,slot,count\na,2026-03-02,100,3\n",
        {"time": "date", "hour": "slot", "timezone": "UTC"},
        "line 2, column slot: no hour of 0-23: `hours` of the format says",
    ),
    (
        "place,time,hour,count\na,2026-03-02,0,3\n",
        {"hour": "hour", "hours": "1-24", "timezone": "UTC"},
        "line 2, column hour: no hour of 1-24",
    ),
    (
        "place,time,hour,count\na,2026-03-02,860,3\n",
        {"hour": "hour", "hours": "hhmm", "timezone": "UTC"},
        "line 2, column hour: no hour of hhmm",
    ),
    (
        "place,time,count\na,08:00,3\n",
        {"time_format": "%H:%M", "timezone": "UTC"},
        "line 2, column time: the time is 1900-01-01T08:00:00",
    ),
    (
        "place,time,hour,count\na,2026-03-02T00:00+01:00,8,3\n",
        {"hour": "hour", "timezone": "UTC"},
        "'2026-03-02T00:00+01:00' is not an ISO date",
    ),
    (
        HEAD + "a,02/03/2026 08:00,3\n",
        {"time_format": "%d/%m/%Y %H:%M %z"},
        "'02/03/2026 08:00' is not in the format",
    ),
    (HEAD + "a,-1,3\n", {"slots": True}, "line 2, column time: the value is not a whole number of"),
    (
        HEAD + "a,1.5,3\n",
        {"slots": True},
        "line 2, column time: the value is not a whole number of",
    ),
    (
        HEAD + ROWS,
        {},
        "1 of 4 cells have no row, such as 'b', 2026-03-02T09:00:00: set `absent` to",
    ),
    (
        HEAD + "a,3,1\na,5,1\n",
        {"slots": True},
        "1 of 3 cells have no row, such as 'a', 4: set `absent`",
    ),
    (
        FULL + "a,2026-03-02T08:00Z,3\n",
        {},
        "'a', 2026-03-02T08:00:00 is listed 2 times: keep one",
    ),
    (FULL + "a,2026-03-02T09:00+01:00,3\n", {}, "'a', 2026-03-02T08:00:00 is listed 2 times"),
    (
        HEAD + "a,2026-10-25T02:00,1\na,2026-10-25T02:00,2\n",
        {"timezone": "Europe/Paris"},
        "'a', 2026-10-25T02:00:00+02:00 is listed 2 times",
    ),
    (FULL, {"inspire": True}, "line 2, column place: 'a' is not the code of an INSPIRE cell, such"),
    (
        HEAD + "1kmN1E2,2026-03-02T08:00Z,3\nDE_1kmN1E2,2026-03-02T08:00Z,3\n",
        {"inspire": True},
        "'CRS3035RES1000mN1000E2000', 2026-03-02T08:00:00 is listed 2 times: keep one row of each",
    ),
    (
        FULL + "a,2026-03-02T10:30Z,3\n",
        {"step": "1h"},
        "times are not 3600 s apart: 2026-03-02T10:30:00 is not a multiple of it after 2026-03-02T",
    ),
    (
        HEAD + "a,2026-03-28,1\na,2026-03-29,2\na,2026-03-30,3\n",
        {"timezone": "Europe/Paris", "step": "23h"},
        "times are not 82800 s apart: 2026-03-29T00:00:00+01:00 is not a multiple",
    ),
    (HEAD + "a,2026-03-02T08:00Z,3\n", {}, "the table has one time: set `step`, as in 1h"),
    (
        HEAD + "a,2026-03-02T08:00:00Z,3\na,2026-03-02T08:00:01Z,3\na,2095-01-01T00:00Z,3\n",
        {"absent": "zero"},
        "epochs of 1 s, from 2026-03-02T08:00:00 on would take",
    ),
    (
        STATUS + "a,2026-03-02T08:00Z,3,c\n",
        {"status": "status"},
        "line 2, column count: there is a value, but its status is 'c', hidden",
    ),
    (
        STATUS + "a,2026-03-02T08:00Z,3,A\na,2026-03-02T09:00Z,none,A\n",
        {"status": "status"},
        "line 3, column count: 'none' is not a number",
    ),
    (
        FULL + "Total,2026-03-02T11:00Z,3\n",
        {"total": "Total"},
        "there is a total for all places, 2026-03-02T11:00:00, but no values",
    ),
    (HEAD + "a,Total,3\nb,Total,3\n", {"total": "Total"}, "lines from 2 on are only totals"),
    ("place,time,count\na,2026-03-02T08:00Z,\xff\n".encode("latin-1"), {}, "is not a number"),
    (b"PAR1", {}, "the first line|does not name columns|has no column"),
]
WIDE = [
    ("", {}, "has 0 lines, the first with 0 columns separated by ','"),
    ("place,2026-03-02T08:00Z\n", {}, "has 1 line, the first with 2 columns separated by ','"),
    ("place;2026-03-02T08:00Z\na;3\n", {}, "has 2 lines, the first with 1 column separated by ','"),
    ("place,2026-03-02T08:00Z\na,3,4\n", {}, "line 2 has 3 fields, not 2"),
    ("place,monday\na,3\n", {}, "column 2, column time: 'monday' is not a time"),
    (
        "place,2026-03-02T08:00Z,2026-03-02T09:00Z\na,3,x1\n",
        {},
        "line 2, column 3 ('2026-03-02T09:00Z'): 'x1' is not a number",
    ),
    (
        "place,2026-03-02T08:00Z,2026-03-02T09:00Z\na,3,4\na,5,6\n",
        {},
        "'a', 2026-03-02T08:00:00 is listed 2 times",
    ),
    (
        "place,2026-03-02T08:00Z,2026-03-02T08:00Z\na,3,4\n",
        {},
        "'a', 2026-03-02T08:00:00 is listed 2 times",
    ),
    ("place,2026-03-02T08:00Z,2026-03-02T09:00Z\n,3,4\n", {}, "place 1 has no name"),
    ('place,2026-03-02T08:00Z\na,"3\n', {}, "line 2: unexpected end of data"),
    ("place,Total\na,3\n", {"total": "Total"}, "line 1 has no times"),
]
GEOJSON = [
    ("{", {}, "is not JSON"),
    ("[]", {}, "is not a GeoJSON FeatureCollection"),
    (zones(), {}, "has no features"),
    (zones({"type": "Feature"}), {}, "feature 1 has no properties"),
    (zones(zone("", **{"2026-03-02T08:00Z": 3})), {}, "feature 1 has no id"),
    (zones(zone(name="x")), {}, "feature 1: its features have no property that is a time; set"),
    (
        zones(zone(at="2026-03-02T08:00Z")),
        {"time": "at", "count": "n"},
        "feature 1 has no property n",
    ),
    (zones(zone(**{"2026-03-02T08:00Z": "many"})), {}, "column value: 'many' is not a number"),
    (
        zones(zone(**{"2026-03-02T08:00Z": 1, "2026-03-02T09:00Z": True})),
        {},
        "column value: '?' is not a number",
    ),
]
CASES = [
    *((("long", "week.csv"), *case) for case in LONG),
    *((("wide", "week.csv"), *case) for case in WIDE),
    *((("geojson", "week.geojson"), *case) for case in GEOJSON),
]


def test_there_are_more_than_sixty():
    assert len(CASES) >= 60


@pytest.mark.parametrize(("how", "content", "settings", "message"), CASES)
def test_what_does_not_fit_is_told_by_row_and_column(how, content, settings, message, tmp_path):
    kind, name = how
    uri = tmp_path / name
    uri.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ClusterscaleError) as caught:
        TABLE_FORMATS.create(kind, **settings).read(str(uri))
    text = str(caught.value)
    assert str(uri) in text
    assert any(part in text for part in message.split("|")), text
    assert len(text) < 500


def test_hidden_cells_are_not_zeros(tmp_path):
    """Hidden in six ways: absent, empty, by a code, by a sign, as "<5", and by the status."""
    uri = tmp_path / "week.csv"
    lines = [
        f"{place},2026-03-02T{hour:02}:00Z,{value},{status}"
        for place, hour, value, status in [
            ("a", 8, 0, "A"), ("a", 9, "", "A"), ("a", 10, -1, "A"), ("a", 11, "*", "A"),
            ("b", 8, "<5", "A"), ("b", 9, "", "c"), ("b", 10, 7.25, "A"),
        ]
    ]  # fmt: skip
    uri.write_text(STATUS + "\n".join(lines))
    form = TABLE_FORMATS.create("long", status="status", hidden=["-1", "*", ""], absent="hidden")
    values = form.read(str(uri)).values
    assert values[0, 0] == 0
    assert values[1, 2] == 7.25
    assert (values != values).sum() == 6


@pytest.mark.parametrize(
    ("settings", "written"),
    [
        ({"thousands": ","}, "1,234.5|1234.5|12|1,234,567"),
        ({"decimal_comma": True, "thousands": "."}, "1.234,5|1234,5|12|1.234.567"),
        ({"decimal_comma": True, "thousands": " "}, "1\u00a0234,5|1234,5|12|1\u202f234 567"),
        ({"thousands": "'"}, "1'234.5|1234.5|12|1’234’567"),
    ],
)
def test_marks_between_thousands(settings, written, tmp_path):
    path = tmp_path / "table.csv"
    rows = (f"zone {i};2026-03-02T08:00Z;{text}\n" for i, text in enumerate(written.split("|")))
    path.write_text("place;time;count\n" + "".join(rows))
    table = TABLE_FORMATS.create("long", step="1h", delimiter=";", **settings).read(str(path))
    assert table.values[:, 0].tolist() == [1234.5, 1234.5, 12, 1234567]


def test_decimals_are_written_as_they_are_read(tmp_path):
    path, again = tmp_path / "table.csv", str(tmp_path / "again.csv")
    path.write_text("place;time;count\na;2026-03-02T08:00Z;1,5\na;2026-03-02T09:00Z;\n")
    form = TABLE_FORMATS.create("long", delimiter=";", decimal_comma=True)
    form.write(again, form.read(str(path)))
    assert form.read(again).values.tolist() == [[1.5, pytest.approx(np.nan, nan_ok=True)]]


@pytest.mark.parametrize(
    ("hours", "stated"), [("0-23", "8,9"), ("1-24", "9,10"), ("hhmm", "800,900")]
)
def test_hours_are_numbered_as_declared(hours, stated, tmp_path):
    path = tmp_path / "table.csv"
    rows = (f"a,2026-03-02,{hour},{i}\n" for i, hour in enumerate(stated.split(",")))
    path.write_text("place,time,hour,count\n" + "".join(rows))
    table = TABLE_FORMATS.create("long", hour="hour", hours=hours, timezone="UTC").read(str(path))
    assert table.epochs.tolist()[0].isoformat() == "2026-03-02T08:00:00"
    assert table.values.tolist() == [[0, 1]]


GROUPS = "place;sex;count\nMünchen;_T;9\nMünchen;F;5\nKöln;_T;20\nKöln;F;*\n"
DAY = {"delimiter": ";", "at": "2026-03-02", "timezone": "UTC", "step": "1d"}


def values_of(content, path, **settings):
    path.write_bytes(content)
    table = TABLE_FORMATS.create("long", **DAY, **settings).read(str(path))
    return dict(zip(table.rois, table.values[:, 0].tolist(), strict=True))


def test_rows_are_chosen_and_lines_that_are_no_rows_left_out(tmp_path):
    content = "Table 4\n\n" + GROUPS + '"Source: office"\n* provisional\n'
    settings = {"where": {"sex": ["_T"]}, "skip": 2, "notes": ["Source:", "*"]}
    found = values_of(content.encode("latin-1"), tmp_path / "t.csv", encoding="latin-1", **settings)
    assert found == {"Köln": 20, "München": 9}


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        (
            GROUPS.encode("latin-1"),
            {},
            "line 2, column place: the name is not UTF-8 text: set `enco",
        ),
        (GROUPS.encode(), {"encoding": "ascii"}, "is not ascii text"),
        (GROUPS.replace("20", "two").encode(), {"where": {"sex": ["_T"]}}, "line 4, column count"),
        (GROUPS.encode(), {}, "'Köln', 2026-03-02T00:00:00 is listed 2 times"),
        (GROUPS.encode(), {"where": {"age": ["_T"]}}, "has no column age"),
        (GROUPS.encode(), {"where": {"sex": ["X"]}}, "the table has no rows with values"),
    ],
)
def test_text_and_rows_that_are_not_as_declared(content, settings, message, tmp_path):
    with pytest.raises(SourceError, match=message):
        values_of(content, tmp_path / "t.csv", **settings)


def test_lines_are_numbered_as_in_the_file(tmp_path, monkeypatch):
    """Below notes and blank lines, of chosen rows, and in any part of the file."""
    lines = ["A title", "place,sex,time,count"]
    for hour in range(24):
        lines += [
            "",
            "* a note",
            f"a,F,2026-03-02T{hour:02}:00Z,?",
            f"a,_T,2026-03-02T{hour:02}:00Z,4",
        ]
    path = tmp_path / "t.csv"
    for size, batch in ((1 << 24, 1 << 18), (100, 3)):
        monkeypatch.setattr("clusterscale.release.long._PIECE", size)
        monkeypatch.setattr("clusterscale.reading.tables.BATCH", batch)
        settings = {"skip": 1, "notes": ["*"], "where": {"sex": ["_T"]}}
        form = TABLE_FORMATS.create("long", **settings)
        for number in range(6, len(lines) + 1, 12):
            broken = [*lines[: number - 1], lines[number - 1][:-1] + "few", *lines[number:]]
            path.write_text("\n".join(broken))
            with pytest.raises(SourceError, match=f"line {number}, column count: 'few'"):
                form.read(str(path))


def test_texts_that_no_row_has_are_reported(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(GROUPS)
    form = TABLE_FORMATS.create("long", **DAY, where={"sex": ["_T", "Total"]})
    assert form.read(str(path)).changes == ("no row has 'Total' in sex",)
    folder = tmp_path / "level=2"
    folder.mkdir()
    (folder / "t.csv").write_text(FULL)
    form = TABLE_FORMATS.create("long", where={"level": ["2", "3"]})
    assert form.read(str(tmp_path)).changes == ("no folder is level=3",)


def test_a_repeated_header_is_named(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(FULL + FULL)
    with pytest.raises(SourceError, match="line 6, column time: the header is repeated"):
        TABLE_FORMATS.create("long").read(str(path))


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.zip"])
@pytest.mark.parametrize("form", ["long", "wide"])
def test_compressed_text_is_read(form, name, tmp_path):
    plain, packed = tmp_path / "t.csv", tmp_path / name
    wide = "place,2026-03-02T08:00Z,2026-03-02T09:00Z\na,3,4\nb,5,6\n"
    plain.write_text(FULL if form == "long" else wide)
    with fsspec.open(str(packed), "wb", compression="infer") as stream:
        stream.write(plain.read_bytes())
    reader = TABLE_FORMATS.create(form)
    assert np.array_equal(reader.read(str(packed)).values, reader.read(str(plain)).values)


@pytest.mark.parametrize("form", ["long", "wide"])
def test_notes_never_leave_out_a_row(form, tmp_path):
    lines = {
        "long": "place,time,count\nzone 1,2026-03-02T08:00Z,7\nother,2026-03-02T08:00Z,9\n",
        "wide": "place,2026-03-02T08:00Z,2026-03-02T09:00Z\nzone 1,7,8\nother,9,6\n",
    }
    (tmp_path / "t.csv").write_text(lines[form])
    with pytest.raises(
        SourceError, match="`notes` would leave out a row that begins with 'zone 1'"
    ):
        TABLE_FORMATS.create(form, notes=["zone"]).read(str(tmp_path / "t.csv"))


def test_notes_are_left_out_below_the_lines_that_are_skipped(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("* A title\ntime,a,b\n2026-03-02T08:00Z,3,4\n2026-03-02T09:00Z,5,6\n* Notes\n")
    form = TABLE_FORMATS.create("wide", times="rows", skip=1, notes=["*"])
    assert form.read(str(path)).rois == ("a", "b")


@pytest.mark.parametrize(
    ("form", "settings"),
    [
        ("long", {"encoding": "latin-1"}),
        ("long", {"skip": 1}),
        ("long", {"where": {"sex": ["_T"]}}),
        ("long", {"at": "2026-03-02", "step": "1d"}),
        ("wide", {"encoding": "latin-1"}),
        ("wide", {"notes": ["*"]}),
    ],
)
def test_what_would_be_read_as_another_table_is_not_written(form, settings, tmp_path):
    path, again = tmp_path / "t.csv", str(tmp_path / "again.csv")
    path.write_text(FULL)
    release = TABLE_FORMATS.create("long").read(str(path))
    with pytest.raises(InputError, match=f"tables are not written as {form}"):
        TABLE_FORMATS.create(form, **settings).write(again, release)


def test_text_that_decompresses_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("CLUSTERSCALE_TABLE_MEMORY", "1e6")
    with fsspec.open(str(tmp_path / "t.csv.gz"), "wb", compression="infer") as stream:
        stream.write(b"place,2026-03-02T08:00Z\n" + b"a,1\n" * (1 << 20))
    with pytest.raises(FormatError, match="bytes of text would take"):
        TABLE_FORMATS.create("wide").read(str(tmp_path / "t.csv.gz"))


def test_the_two_marks_of_numbers_differ():
    with pytest.raises(ConfigError, match="thousands: ',' is the decimal mark"):
        TABLE_FORMATS.create("long", decimal_comma=True, thousands=",")


def test_a_negative_number_is_a_value_unless_it_is_said_to_hide_one(tmp_path):
    uri = tmp_path / "week.csv"
    uri.write_text(HEAD + "a,2026-03-02T08:00Z,-1\na,2026-03-02T09:00Z,2\n")
    assert TABLE_FORMATS.create("long").read(str(uri)).values.tolist() == [[-1, 2]]
    assert TABLE_FORMATS.create("long", hidden=["-1"]).read(str(uri)).values[0, 0] != -1


def test_numbers_stored_as_such_have_codes_and_nulls_too(tmp_path):
    table = pa.table(
        {
            "zone_id": ["a", "a", "b", "b"],
            "timestamp": pa.array([0, 3600, 0, 3600], pa.timestamp("s", "UTC")),
            "population": pa.array([0.1, None, -1, 2], pa.float32()),
        }
    )
    table = table.set_column(
        1,
        "timestamp",
        pa.array([1_767_225_600 + s for s in (0, 3600, 0, 3600)], pa.timestamp("s", "UTC")),
    )
    pq.write_table(table, tmp_path / "week.parquet")
    values = (
        TABLE_FORMATS.create("multimno", hidden=["-1"]).read(str(tmp_path / "week.parquet")).values
    )
    assert values[0, 0] == 0.1  # as published, not the nearest float32
    assert (values != values).tolist() == [[False, True], [True, False]]


def write_days(folder, cells):
    """Write cells of (square, slot of 10 minutes, country) as a file for each day; return a sum.

    What is None is left empty.
    """
    lines, sums = {}, {}
    for (square, slot, country), value in cells.items():
        shown = "" if value is None else repr(value)
        row = (square, 1383260400000 + 600_000 * slot, country, "", 0.25, "", "", shown)
        lines.setdefault(slot // 144, []).append("\t".join(map(str, row)) + "\n")
        sums[square, slot] = sums.get((square, slot), 0) + (value or 0)
    for day, rows in lines.items():
        path = folder / f"sms-call-internet-mi-2013-11-{day + 1:02}.txt"
        path.write_text("".join(rows))
    return sums


def test_call_grid_is_added_over_countries_and_empty_where_nothing_was_counted(tmp_path):
    rng = np.random.default_rng(3)
    keys = {(1, 0, 39), (1, 287, 39)}  # the first and the last 10 minutes of two days
    keys |= {tuple(map(int, rng.integers((1, 0, 0), (12, 288, 4)))) for _ in range(900)}
    cells = {key: None if rng.random() < 0.3 else float(rng.random()) for key in sorted(keys)}
    sums = write_days(tmp_path, cells)
    found = TABLE_FORMATS.create("call_grid").read(str(tmp_path))
    assert found.values.shape == (11, 288)
    assert str(found.epochs[0]) == "2013-10-31T23:00:00"  # midnight in Milan
    for (i, name), slot in itertools.product(enumerate(found.rois), range(288)):
        assert found.values[i, slot] == pytest.approx(sums.get((int(name), slot), 0))
    (change,) = found.changes
    assert "of one place and time" in change
    sent = TABLE_FORMATS.create("call_grid", count="sms_out").read(str(tmp_path))
    assert sent.values.sum() == 0.25 * len(cells)


def test_call_grid_refuses_other_rows(tmp_path):
    head = "1\t1383260400000\t39\t\t\t\t\t1.5\n"
    for line, message in (
        ("1\t1383261000\t39\t\t\t\t\t1\n", "line 2, column milliseconds: the time is 1970-01-17"),
        ("1\t1383261000500\t39\t\t\t\t\t1\n", "line 2, column milliseconds: the time is not in"),
        ("1\tsoon\t39\t\t\t\t\t1\n", "line 2, column milliseconds: the value is not a whole"),
        ("1\t1383261000000\t39\t\t\t\t\t*\n1\t1383261600000\t39\t\t\t\t\t*\n", None),
        ("1\t1383261000000\t39\t\t1\n", "1 lines are not rows; the first has 5 fields, not 8"),
    ):
        (tmp_path / "a.txt").write_text(head + line)
        read = TABLE_FORMATS.create("call_grid").read
        if message is None:  # only what is empty is 0
            assert np.isnan(read(str(tmp_path / "a.txt")).values[0, 1:]).all()
            continue
        with pytest.raises(SourceError) as caught:
            read(str(tmp_path / "a.txt"))
        assert message in str(caught.value)
    (tmp_path / "a.txt").write_bytes(codecs.BOM_UTF8 + (head + head.replace("400", "401")).encode())
    with pytest.raises(InputError, match="tables are not written as call_grid"):
        TABLE_FORMATS.create("call_grid").write("a.txt", read(str(tmp_path / "a.txt")))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"milliseconds": True, "slots": True}, "milliseconds: these times have no slots"),
        ({"milliseconds": True, "time_format": "%Y"}, "milliseconds: these times have no slots"),
        ({"empty": "zero", "status": "status"}, "empty: with a status, empty values are hidden"),
        ({"header": []}, "header"),
        ({"header": ["a", "a"]}, "header"),
    ],
)
def test_settings_of_unnamed_columns_that_contradict_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        TABLE_FORMATS.create("long", **settings)


def test_empty_parquet_values_are_zero_only_if_declared(tmp_path):
    table = pa.table({"place": ["a", "b"], "time": ["2026-03-02"] * 2, "count": [None, 2.5]})
    pq.write_table(table, tmp_path / "a.parquet")
    for empty, first in (("zero", 0.0), ("hidden", np.nan)):
        form = TABLE_FORMATS.create("long", timezone="UTC", step="1h", empty=empty)
        np.testing.assert_array_equal(
            form.read(str(tmp_path / "a.parquet")).values, [[first], [2.5]]
        )


NESTED = pa.array([[1], [2]]), pa.array([{"a": 1}, {"a": 2}]), pa.array([[(1, 2)], []])


@pytest.mark.parametrize("column", ["place", "time", "hour", "count", "status"])
@pytest.mark.parametrize("values", NESTED, ids=lambda values: str(values.type))
def test_lists_and_records_in_parquet_are_refused(column, values, tmp_path):
    columns = {
        "place": ["a", "b"],
        "time": ["2026-03-02"] * 2,
        "hour": [1, 1],
        "count": [1, 2],
        "status": ["A", "A"],
    }
    pq.write_table(pa.table({**columns, column: values}), tmp_path / "a.parquet")
    form = TABLE_FORMATS.create("long", hour="hour", status="status", timezone="UTC", step="1h")
    with pytest.raises(SourceError, match=rf"column {column} of .*: a value should be one number"):
        form.read(str(tmp_path / "a.parquet"))


def test_times_in_a_format_with_a_zone(tmp_path):
    (tmp_path / "a.csv").write_text(HEAD + "a,02/03/2026 01:00 +0200,3\na,02/03/2026 00:00 Z,4\n")
    table = TABLE_FORMATS.create("long", time_format="%d/%m/%Y %H:%M %z").read(
        str(tmp_path / "a.csv")
    )
    assert table.epochs.astype(str).tolist() == ["2026-03-01T23:00:00", "2026-03-02T00:00:00"]


GAPS = {"not_covered": ["NO_DATA", "-9"]}


@pytest.mark.parametrize(
    ("rows", "settings"),
    [
        ("b,2026-03-02T09:00Z,NO_DATA,A\n", GAPS),
        ("b,2026-03-02T09:00Z,-9,A\n", GAPS),
        ("b,2026-03-02T09:00Z,,NO_DATA\n", GAPS),
        ("b,2026-03-02T09:00Z,NO_DATA,NO_DATA\n", GAPS),
        ("", {"absent": "not_covered"}),
        ("b,2026-03-02T09:00Z,3,A\nb,2026-03-02T09:00Z,NO_DATA,A\n", {**GAPS, "add_rows": True}),
    ],
)
def test_what_is_not_covered_is_neither_hidden_nor_zero(rows, settings, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        STATUS
        + "a,2026-03-02T08:00Z,7,A\na,2026-03-02T09:00Z,*,A\nb,2026-03-02T08:00Z,0,A\n"
        + rows
    )
    form = TABLE_FORMATS.create("long", status="status", **settings)
    table = form.read(str(path))
    np.testing.assert_array_equal(table.values, [[7, np.nan], [0, np.nan]])
    assert table.not_covered.tolist() == [[False, False], [False, True]]
    assert table.notes == ("1 of 4 values are not covered: neither 0 nor hidden",)
    with pytest.raises(InputError, match="needs the names of places, the times of epochs and all"):
        TABLE_FORMATS.create("long").write(str(path), table)


def test_a_status_of_what_is_not_covered_has_no_value(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(STATUS + "a,2026-03-02T08:00Z,7,NO_DATA\n")
    with pytest.raises(SourceError, match="there is a value, but its status is 'NO_DATA'"):
        TABLE_FORMATS.create("long", status="status", step="1h", **GAPS).read(str(path))


def test_numbers_may_stand_for_what_is_not_covered(tmp_path):
    columns = {"place": ["a"] * 2, "time": ["2026-03-02T08:00Z", "2026-03-02T09:00Z"]}
    for kind in (pa.float64(), pa.int32()):
        table = pa.table({**columns, "count": pa.array([5, -9], kind)})
        pq.write_table(table, tmp_path / "t.parquet")
        read = TABLE_FORMATS.create("long", **GAPS).read(str(tmp_path / "t.parquet"))
        assert read.not_covered.tolist() == [[False, True]]


@pytest.mark.parametrize("form", ["wide", "geojson"])
def test_other_formats_have_what_is_not_covered(form, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("place,2026-03-02T08:00Z,2026-03-02T09:00Z\na,3,NO_DATA\n")
    if form == "geojson":
        shown = {"2026-03-02T08:00Z": 3, "2026-03-02T09:00Z": "NO_DATA"}
        zones = [{"type": "Feature", "id": "a", "geometry": None, "properties": shown}]
        path.write_text(json.dumps({"type": "FeatureCollection", "features": zones}))
    assert TABLE_FORMATS.create(form, **GAPS).read(str(path)).not_covered.tolist() == [[0, 1]]
