"""Tables as publishers write them: each is read with the right values, or refused by name.

Made in the shape of public reports and specifications; places and numbers are invented.
"""

import codecs
import gzip
import io
import zipfile
from typing import NamedTuple

import numpy as np
import pytest

from clusterscale.api import check
from clusterscale.errors import ClusterscaleError
from clusterscale.release import TABLE_FORMATS

ZONES = {"name": "long", "place": "zone", "count": "people"}
H = np.nan


def threshold(k, shown="hidden"):
    return {"name": "threshold", "k": k, "shown": shown}


class Case(NamedTuple):
    """A file, the format that reads it, and what is in it or why it is refused."""

    content: str | bytes
    form: dict
    values: list | None = None  # over places by name, and times
    refused: str = ""
    method: object = "exact"
    size: int = 5000
    verdict: str = "pass"
    name: str = "t.csv"


def rows(head, lines):
    return head + "\n" + "\n".join(lines) + "\n"


def zipped(content):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("t.csv", content)
    return packed.getvalue()


DAILY = rows("date,pcod,value", [f"2026-03-{day},A{i},{20 + day - 26 + 3 * i}"
                                 for day in range(26, 32) for i in (1, 2)])  # fmt: skip
FLOWKIT = {"name": "flowkit", "place": "pcod", "origin": None, "destination": None}
GERMAN = {"delimiter": ";", "decimal_comma": True, "timezone": "Europe/Berlin"}
QUADKEYS = rows(
    "quadkey,date_time,n_crisis",
    ["0331,2026-04-01 0000,48", "0332,2026-04-01 0000,\\N", "0331,2026-04-01 0800,60.5",
     "0332,2026-04-01 0800,12"],
)  # fmt: skip
SDMX = rows(
    "REF_AREA,SEX,TIME_PERIOD,OBS_VALUE,OBS_STATUS",
    [f"ES51,{sex},2026-03-0{day},{value},A" for day, sex, value in
     ((2, "_T", 9), (2, "M", 5), (2, "F", 4), (3, "_T", 20), (3, "M", 12), (3, "F", 8))],
)  # fmt: skip
AUTUMN = rows("zone,time,people", [f"A,2026-10-25T0{hour}:00,7" for hour in (0, 1, 2, 2, 3)])
MONTHS = rows(
    "REF_AREA,TIME_PERIOD,OBS_VALUE,OBS_STATUS",
    ["ES51,2026-01,1200,A", "ES51,2026-02,1100,A", "ES51,2026-03,1300,P"],
)
SHIFT = [f"20260329|{hour:02}|1|2|{10 + hour}" for hour in range(5)]
TOTALS = ["C,2026-03-02T08:00Z,30", "A,2026-03-02T09:00Z,12", "B,2026-03-02T09:00Z,9",
          "C,2026-03-02T09:00Z,25"]  # fmt: skip
FLAGGED = ["A,2026-03-02T08:00Z,1188 p", "A,2026-03-02T09:00Z,90bp", "B,2026-03-02T08:00Z,: c",
           "B,2026-03-02T09:00Z,: bc"]  # fmt: skip
GAPS = rows("zone,time,people", [*TOTALS, "A,2026-03-02T08:00Z,NO_DATA", "B,2026-03-02T08:00Z,*",
                                 "Total,2026-03-02T08:00Z,33"])  # fmt: skip
HALVES = rows("zone,time,people", ["A,2026-03-02T08:00Z,25", "A,2026-03-02T09:00Z,9"])
KEYS = {"name": "chain", "steps": [
    {"name": "cell_key", "deviation": 5, "variance": 3.0},
    {"name": "round_to_base", "base": 5, "rule": "nearest"}, threshold(10)]}  # fmt: skip
POLYGONS = (
    '{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"zone_id":"1",'
    '"2026-03-02T08:00Z":12,"2026-03-02T09:00Z":null},"geometry":{"type":"MultiPolygon",'
    '"coordinates":[]}},{"type":"Feature","properties":{"zone_id":"2","2026-03-02T08:00Z":7,'
    '"2026-03-02T09:00Z":"<5"},"geometry":null}]}'
)

CASES = {
    "days over a change of clocks": Case(
        DAILY, {**FLOWKIT, "timezone": "Europe/London"}, [[*range(23, 29)], [*range(26, 32)]],
        method=threshold(16),
    ),
    "thousands after a dot": Case(
        rows("zone;time;people", ["A;2026-03-02;1.234", "A;2026-03-03;12,5"]),
        {**ZONES, **GERMAN, "thousands": "."}, [[1234, 12.5]], verdict="fail",
    ),
    "thousands after a dot, not declared": Case(
        rows("zone;time;people", ["A;2026-03-02;1.234", "A;2026-03-03;12,5"]),
        {**ZONES, **GERMAN}, refused="line 2, column people: '1.234' is not a number with a "
        "decimal comma; if the mark separates thousands, set `thousands`",
    ),
    "a code for null": Case(
        QUADKEYS,
        {"name": "long", "place": "quadkey", "time": "date_time", "count": "n_crisis",
         "time_format": "%Y-%m-%d %H%M", "timezone": "UTC", "hidden": ["\\N"]},
        [[48, 60.5], [H, 12]], method=threshold(10), verdict="fail",
    ),
    "hours as HHMM": Case(
        rows("zone,date,hour,people", ["A,20260302,0,5", "A,20260302,100,6", "A,20260302,200,7"]),
        {**ZONES, "time": "date", "hour": "hour", "time_format": "%Y%m%d", "timezone": "UTC",
         "hours": "hhmm"}, [[5, 6, 7]],
    ),
    "hours as HHMM, not declared": Case(
        rows("zone,date,hour,people", ["A,20260302,0,5", "A,20260302,100,6", "A,20260302,200,7"]),
        {**ZONES, "time": "date", "hour": "hour", "time_format": "%Y%m%d", "timezone": "UTC"},
        refused="line 3, column hour: no hour of 0-23: `hours` of the format says how",
    ),
    "hours without a date": Case(
        rows("zone,time,people", ["A,0,5", "A,1,6"]), {**ZONES, "timezone": "UTC"},
        refused="column time: the time is 1970-01-01T00:00:00; if it is the number of an epoch",
    ),
    "a total beside its parts": Case(
        SDMX, {"name": "sdmx_csv", "timezone": "UTC"},
        refused="'ES51', 2026-03-02T00:00:00 is listed 3 times: they differ in SEX (F, M, _T): "
        "`where: {SEX: [...]}`; `add_rows: true` adds parts",
    ),
    "a total beside its parts, added": Case(
        SDMX, {"name": "sdmx_csv", "timezone": "UTC", "add_rows": True},
        refused="'ES51', 2026-03-02T00:00:00: one of its rows is the sum of the others, as in all "
        "cells, so that they are not added: they differ in SEX (F, M, _T)",
    ),
    "parts, added": Case(
        SDMX, {"name": "sdmx_csv", "timezone": "UTC", "add_rows": True, "where":
               {"SEX": ["M", "F"]}},
        [[9, 20]], verdict="warn",
    ),
    "a total, chosen": Case(
        SDMX, {"name": "sdmx_csv", "timezone": "UTC", "where": {"SEX": ["_T"]}}, [[9, 20]],
        method=threshold(10), verdict="fail",
    ),
    "an hour that is repeated": Case(
        AUTUMN, {**ZONES, "timezone": "Europe/Madrid"},
        refused="2026-10-25T02:00:00+02:00 is listed 2 times: clocks repeat it, and "
        "`repeated_hour: in_order` keeps two rows apart",
    ),
    "an hour that is repeated, added": Case(
        AUTUMN, {**ZONES, "timezone": "Europe/Madrid", "add_rows": True},
        refused="keeps two rows apart, which `add_rows` would add",
    ),
    "an hour that is repeated, in order": Case(
        AUTUMN, {**ZONES, "timezone": "Europe/Madrid", "repeated_hour": "in_order"}, [[7] * 5],
    ),
    "months": Case(MONTHS, {"name": "sdmx_csv", "timezone": "UTC"}, [[1200, 1100, 1300]]),
    "totals that give two cells away": Case(
        rows("zone,time,people", [*TOTALS, "A,2026-03-02T08:00Z,*", "B,2026-03-02T08:00Z,*",
                                  "Total,2026-03-02T08:00Z,38"]),
        {**ZONES, "total": "Total"}, [[H, 12], [H, 9], [30, 25]], method=threshold(5),
        verdict="fail",
    ),
    "totals of what is shown": Case(
        rows("zone,time,people", [*TOTALS, "A,2026-03-02T08:00Z,*", "B,2026-03-02T08:00Z,17",
                                  "Total,2026-03-02T08:00Z,47", "Total,2026-03-02T09:00Z,46"]),
        {**ZONES, "total": "Total"}, [[H, 12], [17, 9], [30, 25]], method=threshold(5),
    ),
    "two cells below 5 that are 1": Case(
        rows("zone,time,people", [*TOTALS, "A,2026-03-02T08:00Z,<5", "B,2026-03-02T08:00Z,<5",
                                  "Total,2026-03-02T08:00Z,32"]),
        {**ZONES, "total": "Total"}, [[H, 12], [H, 9], [30, 25]],
        method=threshold(5, "label"), verdict="fail",
    ),
    "a cell that is not covered, beside one that its total gives away": Case(
        GAPS, {**ZONES, "total": "Total", "not_covered": ["NO_DATA"]},
        [[H, 12], [H, 9], [30, 25]], method=threshold(5), verdict="fail",
    ),
    "such a cell, read as hidden": Case(
        GAPS, {**ZONES, "total": "Total", "hidden": ["*", "NO_DATA"]},
        [[H, 12], [H, 9], [30, 25]], method=threshold(5),
    ),
    "such a cell, not declared": Case(
        GAPS, {**ZONES, "total": "Total"}, refused="'NO_DATA' is not a number; if it hides",
    ),
    "bands of other numbers": Case(
        rows("zone,time,people", [*TOTALS, "A,2026-03-02T08:00Z,<5", "B,2026-03-02T08:00Z,11"]),
        ZONES, [[H, 12], [11, 9], [30, 25]], method=threshold(9, "label"), verdict="warn",
    ),
    "bands in words": Case(
        rows("zone,time,people", [
            *TOTALS, "A,2026-03-02T08:00Z,fewer than 5", "B,2026-03-02T08:00Z,1-4",
            "D,2026-03-02T08:00Z,≤4", "D,2026-03-02T09:00Z,N<5",
        ]),
        ZONES, [[H, 12], [H, 9], [30, 25], [H, H]], method=threshold(5),
    ),
    "one text that hides values, and a band in other words": Case(
        rows("zone,time,people", [
            *TOTALS, "A,2026-03-02T08:00Z,n. a.", "B,2026-03-02T08:00Z,4 or fewer",
        ]),
        {**ZONES, "hidden": "n. a."}, [[H, 12], [H, 9], [30, 25]], method=threshold(5),
    ),
    "a title and footnotes": Case(
        'Table 4\n\nzone,time,people\nA,2026-03-02T08:00Z,5\nA,2026-03-02T09:00Z,6\n"Source: us"\n',
        {**ZONES, "skip": 2, "notes": ["Source"]}, [[5, 6]],
    ),
    "strikes are no hidden values": Case(
        rows("REF_AREA,TIME_PERIOD,OBS_VALUE,OBS_STATUS",
             ["ES51,2026-03-02,1200,A", "ES51,2026-03-03,310,S", "ES51,2026-03-04,,Q"]),
        {"name": "sdmx_csv", "timezone": "UTC"}, [[1200, 310, H]], method=threshold(10),
    ),
    "an hour that clocks skip": Case(
        rows("fecha|periodo|origen|destino|viajes", SHIFT), {"name": "mitma"},
        refused="line 4, column fecha: 2026-03-29 02:00:00 does not exist: clocks in Europe/Madrid "
        "skip it; `skipped_hour: drop`",
    ),
    "an hour that clocks skip, left out": Case(
        rows("fecha|periodo|origen|destino|viajes", SHIFT),
        {"name": "mitma", "skipped_hour": "drop"}, [[10, 11, 13, 14]], verdict="warn",
    ),
    "no time": Case(
        rows("pcod_from,pcod_to,value", ["A1,A2,120", "A2,A1,118"]),
        {"name": "flowkit", "timezone": "UTC"}, refused="has no column date",
    ),
    "no time, given": Case(
        rows("pcod_from,pcod_to,value", ["A1,A2,120", "A2,A1,118"]),
        {"name": "flowkit", "timezone": "UTC", "at": "2026-03-02", "step": "1d"}, [[120], [118]],
        method=threshold(16),
    ),
    "cell keys, rounded": Case(
        rows("zone,time,people", [f"E{i},2026-03-0{day},{5 * ((3 * i + day) % 7 + 2)}"
                                  for i in range(4) for day in range(1, 8)]),
        {**ZONES, "timezone": "UTC"}, method=KEYS,
    ),
    "Latin-1": Case(
        HALVES.replace("A,", "Málaga,").encode("latin-1"), ZONES,
        refused="line 2, column zone: the name is not UTF-8 text: set `encoding`",
    ),
    "Latin-1, declared": Case(
        HALVES.replace("A,", "Málaga,").encode("latin-1"), {**ZONES, "encoding": "latin-1"},
        [[25, 9]],
    ),
    "UTF-16": Case(HALVES.encode("utf-16"), ZONES, refused="is not UTF-8 text"),
    "a byte order mark": Case(
        codecs.BOM_UTF8 + HALVES.replace("\n", "\r\n").encode(), ZONES, [[25, 9]]
    ),
    "a zip file": Case(zipped(HALVES), ZONES, [[25, 9]], name="t.csv.zip"),
    "a wide table, compressed": Case(
        gzip.compress(b"zone,2026-03-02T08:00Z,2026-03-02T09:00Z\nA,25,9\n"), {"name": "wide"},
        [[25, 9]], name="t.csv.gz",
    ),
    "arrays of hours": Case(
        'placekey,date_range_start,visits_by_each_hour\np,2026-03-02T00:00:00-06:00,"[0,0,4,5]"\n',
        {"name": "safegraph"}, [[0, 0, 4, 5]],
    ),
    "arrays of hours in another format": Case(
        'placekey,date_range_start,visits_by_each_hour\np,2026-03-02T00:00:00-06:00,"[0,0,4,5]"\n',
        {"name": "long", "place": "placekey", "time": "date_range_start", "step": "1h",
         "count": "visits_by_each_hour"},
        refused="line 2, column visits_by_each_hour: '[0,0,4,5]' is an array: the format "
        "`safegraph` reads",
    ),
    "a title, not declared": Case(
        'Table 4\n"By zone, and hour"\n\nzone,time,people\nA,2026-03-02T08:00Z,25\n', ZONES,
        refused="line 4 has column names: set `skip: 3`",
    ),
    "times with their length": Case(
        rows("zone,time,people", ["A,2026-03-02T08:00Z/PT1H,5", "A,2026-03-02T09:00Z/PT1H,6"]),
        {**ZONES, "step": "1h"}, [[5, 6]],
    ),
    "flags after numbers": Case(
        rows("zone,time,people", FLAGGED), {**ZONES, "flags": ["p", "b"]}, [[1188, 90], [H, H]],
        method=threshold(5),
    ),
    "flags, not declared": Case(
        rows("zone,time,people", FLAGGED), ZONES,
        refused="'1188 p' is not a number; if 'p' flags a value that is shown, list it in `flags`",
    ),
    "another flag": Case(
        rows("zone,time,people", FLAGGED), {**ZONES, "flags": ["p"]},
        refused="'90bp' is not a number; if 'bp' flags a value that is shown, list it in `flags`",
    ),
    "a value that its flag hides": Case(
        rows("zone,time,people", [*FLAGGED[:3], "B,2026-03-02T09:00Z,7 c"]),
        {**ZONES, "flags": ["p", "b"]}, refused="'7 c' is not a number; if 'c' flags a value",
    ),
    "bands with flags": Case(
        rows("zone,time,people", [*FLAGGED[:3], "B,2026-03-02T09:00Z,<9 p"]),
        {**ZONES, "flags": ["p", "b"]}, [[1188, 90], [H, H]], method=threshold(5), verdict="warn",
    ),
    "a wide table with flags": Case(
        "zone,2026-03-02T08:00Z,2026-03-02T09:00Z\nA,25 p,: c\nB,<9 p,7\n",
        {"name": "wide", "flags": ["p"]}, [[25, H], [H, 7]], method=threshold(5), verdict="warn",
    ),
    "zones with flags": Case(
        POLYGONS.replace(":12,", ':"12 p",'),
        {"name": "geojson", "place": "zone_id", "flags": ["p"]},
        [[12, H], [7, H]], method=threshold(5), name="t.geojson",
    ),
    "times of day": Case(
        rows("zone,time,people", ["A,08:00-09:00,5", "A,09:00-10:00,6"]), ZONES,
        refused="line 2, column time: '08:00-09:00' is not a time",
    ),
    "weeks": Case(
        rows("zone,time,people", ["A,2026-W10,5", "A,2026-W11,6"]), {**ZONES, "timezone": "UTC"},
        [[5, 6]],
    ),
    "midnight at 24:00": Case(
        rows("zone,time,people", ["A,2026-03-02 24:00:00,5", "A,2026-03-02 23:00:00,6"]),
        {**ZONES, "timezone": "UTC"}, [[6, 5]],
    ),
    "a header that is repeated": Case(
        HALVES + HALVES, ZONES, refused="line 4, column time: the header is repeated"
    ),
    "zones of several polygons": Case(
        POLYGONS, {"name": "geojson", "place": "zone_id"}, [[12, H], [7, H]], method=threshold(5),
        name="t.geojson",
    ),
    "zones called NA and null": Case(
        HALVES.replace("A,", "NA,") + rows("", ["null,2026-03-02T08:00Z,7",
                                                "null,2026-03-02T09:00Z,8"])[1:],
        ZONES, [[25, 9], [7, 8]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_table_from_the_field(name, tmp_path):
    case = CASES[name]
    path = tmp_path / case.name
    path.write_bytes(case.content if isinstance(case.content, bytes) else case.content.encode())
    form = TABLE_FORMATS.create(**case.form)
    if case.refused:
        with pytest.raises(ClusterscaleError) as caught:
            form.read(str(path))
        assert case.refused in str(caught.value)
        return
    if case.values is not None:
        np.testing.assert_array_equal(form.read(str(path)).values, case.values)
    (found,) = check([str(path)], mechanism=case.method, group_size=case.size, form=form)
    assert found.verdict == case.verdict
