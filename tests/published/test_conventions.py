"""Each format reads a file of true layout as a naive script does, cell by cell.

Files are in ``conventions``; places and numbers are invented. Where the pipeline runs, it made
them: ``multimno`` 1.0.0 its own, by its component ``OutputIndicators`` on a local Spark 3.5.1, from
populations of squares, with the ``anonymity_type`` ``obfuscate`` (fractions) and ``delete`` (whole
populations); its session began without Sedona's functions, which this component does not call, and
parts of files have shorter names here. ``flow_data_frame`` is by scikit-mobility 1.3.1, ``arrays``
by xarray, and lists in Parquet by pyarrow. Others were written from what describes the layout:

- ``sdmx_csv``: SDMX-CSV 2.0 field guide, code lists ``CL_OBS_STATUS`` and ``CL_CONF_STATUS``.
- ``eurostat_tsv``: Eurostat, "API - FAQ - TSV data format", and its list of flags since 2025.
- ``camara``: ``population-density-data.yaml`` of camaraproject/PopulationDensityData.
- ``flowkit``: ``RedactedFlows`` of Flowminder/FlowKit, which keeps values above 15.
- ``mds``: ``metrics/README.md`` and ``metrics/examples`` of the Mobility Data Specification.
- ``mitma``: columns of ``Viajes_distritos`` since 2022.
- ``safegraph``: docs.safegraph.com, "Monthly Patterns".
- ``meta_population``: headers of "Facebook Population (Tile Level)" in scripts of its users, and
  the format of ``date_time`` in ropensci/quadkeyr.
- ``gtfs_ride``: ``board_alight.txt`` in ``spec/en/reference.md`` of ODOT-PTS/GTFS-ride.
- ``call_grid``: the description of the Telecom Italia Big Data Challenge.
"""

import csv
import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.io import netcdf_file

from clusterscale.api import check
from clusterscale.errors import InputError, SourceError
from clusterscale.release import TABLE_FORMATS, RawRelease
from clusterscale.release.propose import propose_format

FILES = Path(__file__).parent / "conventions"
UNKNOWN = {"", ":", "<5", "-1", "-1.0", "\\N", "LOW_DENSITY", "NO_DATA"}


def number(text):
    return None if text in UNKNOWN else float(text)


def moment(text, zone="UTC", form=None):
    read = datetime.strptime(text, form) if form else datetime.fromisoformat(text)
    return read if read.tzinfo else read.replace(tzinfo=ZoneInfo(zone))


def lines(path, **options):
    for file in sorted(path.rglob("*.*") if path.is_dir() else [path]):
        with (gzip.open if file.suffix == ".gz" else open)(file, "rt", encoding="utf-8") as stream:
            yield from ((file.name, row) for row in csv.DictReader(stream, **options))


# Each yields the place, the time, and the value, None if it is hidden, of each row.


def read_arrays(path):
    with netcdf_file(path, mmap=False) as file:
        values, names, times = (file.variables[name] for name in ("counts", "roi", "epoch"))
        first = moment(times.units.decode().partition("since ")[2])
        for i, j in np.ndindex(values.shape):
            value = None if np.isnan(values[i, j]) else values[i, j]
            hour = first + timedelta(hours=int(times[j]))
            yield b"".join(names[i]).decode().strip("\0"), hour, value


def read_long(path):
    for _, row in lines(path):
        yield row["zone"], moment(row["time"]), number(row["people"])


def read_wide(path):
    for _, row in lines(path):
        for time in list(row)[1:]:
            yield row["zone"], moment(time), number(row[time])


def read_geojson(path):
    for zone in json.loads(path.read_text())["features"]:
        for time, value in zone["properties"].items():
            if time != "name":
                yield zone["id"], moment(time), number(value)


def read_sdmx(path):
    for _, row in lines(path):
        if row["SEX"] == "_T":
            time = moment(row["TIME_PERIOD"] + "-01", "Europe/Madrid")
            yield row["REF_AREA"], time, number(row["OBS_VALUE"])


def read_eurostat(path):
    months = {"": 1, "-S1": 1, "-S2": 7}
    for _, row in lines(path, delimiter="\t"):
        key, *times = row
        *_, unit, geo = row[key].split(",")
        for time in times if unit == "NR" else ():
            period = time.strip()
            begin = datetime(int(period[:4]), months[period[4:]], 1, tzinfo=UTC)
            yield geo, begin, number(row[time].split(" ")[0])


def read_camara(path):
    for interval in json.loads(path.read_text())["timedPopulationDensityData"]:
        for cell in interval["cellPopulationDensityData"]:
            value = number(cell.get("pplDensity", cell["dataType"]))
            yield cell["geohash"], moment(interval["startTime"]), value


def read_multimno(path):
    for file in sorted(path.glob("dataset_id=nuts/level=2/**/*.parquet")):
        for row in pq.read_table(file).to_pylist():
            time = row["timestamp"].to_pydatetime().replace(tzinfo=UTC)
            yield row["zone_id"], time, number(str(np.float32(row["population"])))


def read_flows(path):
    for _, row in lines(path):
        pair = f"{row['origin']} → {row['destination']}"
        yield pair, moment(row["datetime"], "America/New_York"), number(row["flow"])


def read_flowkit(path):
    for name, row in lines(path):
        pair = f"{row['pcod_from']} → {row['pcod_to']}"
        yield pair, moment(name[6:16], "Asia/Kathmandu"), number(row["value"])


def read_mds(path):
    for _, row in lines(path):
        count = number(row["trips.start_loc.count"])
        yield row["geography_id"], moment(row["interval_start"] + ":00"), count


def read_mitma(path):
    for _, row in lines(path, delimiter="|"):
        time = moment(row["fecha"] + row["periodo"], "Europe/Madrid", "%Y%m%d%H")
        yield f"{row['origen']} → {row['destino']}", time, number(row["viajes"])


def read_safegraph(path):
    table = pq.read_table(path).to_pylist() if path.suffix == ".parquet" else None
    for row in table or [row for _, row in lines(path)]:
        visits, first = row["visits_by_each_hour"], moment(row["date_range_start"])
        for hour, value in enumerate(visits if table else json.loads(visits)):
            yield row["placekey"], first + timedelta(hours=hour), value


def read_meta(path):
    for _, row in lines(path):
        time = moment(row["date_time"], form="%Y-%m-%d %H%M")
        yield row["quadkey"], time, number(row["n_crisis"])


def read_ride(path):
    for _, row in lines(path):
        if row["record_use"] == "0":
            time = moment(row["service_date"], "Europe/Madrid")
            yield row["stop_id"], time, number(row["boardings"])


def read_calls(path):
    names = ["square", "time", "country", "sms_in", "sms_out", "call_in", "call_out", "internet"]
    for _, row in lines(path, delimiter="\t", fieldnames=names):
        time = datetime.fromtimestamp(int(row["time"]) / 1000, UTC)
        yield row["square"], time, float(row["internet"] or 0)


def hides(k, shown="hidden"):
    return {"name": "threshold", "k": k, "shown": shown}


def chain(*steps):
    return {"name": "chain", "steps": list(steps)}


LABELS = hides(5, "label")
WEIGH = {"name": "expand", "factor": "weights"}  # fractions, or factors that are not known
ZONES = {"place": "zone", "count": "people"}
SERIES = {"timezone": "UTC", "where": {"unit": ["NR"]}}
LEVEL = {"where": {"level": ["2"]}}
MADRID = {"timezone": "Europe/Madrid"}
CASES = {  # format: file, settings, naive script, cells without a row, method, and its verdict
    "arrays": ("arrays.nc", {}, read_arrays, None, LABELS, "pass"),
    "long": ("long.csv", ZONES, read_long, None, LABELS, "pass"),
    "wide": ("wide.csv", {}, read_wide, None, LABELS, "pass"),
    "geojson": ("geojson.geojson", {}, read_geojson, None, LABELS, "pass"),
    "sdmx_csv": (
        "sdmx_csv.csv", MADRID | {"where": {"SEX": ["_T"]}, "confidentiality": "CONF_STATUS"},
        read_sdmx, None, hides(10), "pass",
    ),
    "eurostat_tsv": ("eurostat_tsv.tsv", SERIES, read_eurostat, None, "exact", "pass"),
    "eurostat_tsv of halves": (
        "eurostat_tsv-halves.tsv", SERIES | {"step": "6mo"}, read_eurostat, None, hides(9), "pass"
    ),
    "camara": ("camara.json", {}, read_camara, None, "exact", "pass"),
    "multimno": ("multimno", LEVEL, read_multimno, None, chain(WEIGH, hides(5)), "pass"),
    "multimno of counts": (
        "multimno-deleted", LEVEL | {"absent": "hidden"}, read_multimno, None,
        chain({"name": "expand", "factor": 0.95 * 5.4}, hides(5)), "pass",
    ),
    "flow_data_frame": (
        "flow_data_frame.csv", {"timezone": "America/New_York"}, read_flows, None, "exact", "pass"
    ),
    "flowkit": (
        "flowkit", {"timezone": "Asia/Kathmandu", "at_name": "flows_(.*)[.]csv", "step": "1d"},
        read_flowkit, None, hides(16), "pass",
    ),
    "mds": ("mds.csv", {}, read_mds, None, hides(10), "pass"),
    "mitma": ("mitma", {"absent": "zero"}, read_mitma, 0, WEIGH, "warn"),  # rows are added
    "safegraph": ("safegraph.csv", {}, read_safegraph, None, "exact", "pass"),
    "safegraph of lists": ("safegraph.parquet", {}, read_safegraph, None, "exact", "pass"),
    "meta_population": ("meta_population", {}, read_meta, None, chain(hides(10), WEIGH), "warn"),
    "gtfs_ride": ("gtfs_ride", MADRID, read_ride, None, "exact", "warn"),  # rows are added
    "call_grid": ("call_grid", {}, read_calls, 0, WEIGH, "warn"),  # rows are added
}  # fmt: skip


def test_each_format_has_a_case():
    assert {case.partition(" ")[0] for case in CASES} == set(TABLE_FORMATS)


@pytest.mark.parametrize("case", CASES)
def test_it_is_read_as_by_a_naive_script(case):
    file, settings, naive, absent, method, verdict = CASES[case]
    form = TABLE_FORMATS.create(case.partition(" ")[0], **settings)
    table = form.read(str(FILES / file))
    expected = {}
    for place, time, value in naive(FILES / file):  # rows of one cell are added
        cell = place, int(time.timestamp())
        before = expected.get(cell, 0)
        expected[cell] = None if value is None or before is None else before + value
    seconds = table.epochs.astype("datetime64[s]").astype(int).tolist()
    found = {
        (place, time): None if np.isnan(value) else value
        for place, row in zip(table.rois, table.values.tolist(), strict=True)
        for time, value in zip(seconds, row, strict=True)
    }
    assert found == dict.fromkeys(found, absent) | expected
    (judged,) = check([str(FILES / file)], mechanism=method, group_size=5000, form=form)
    assert judged.verdict == verdict


@pytest.mark.parametrize(
    "case",
    ["eurostat_tsv", "camara", "mds", "meta_population", "gtfs_ride", "safegraph of lists"],
)
def test_it_is_proposed(case):
    file, settings, *_ = CASES[case]
    found = propose_format(str(FILES / file), settings)
    assert found.fields["name"] == case.partition(" ")[0]
    assert found.release is not None


def test_what_is_not_covered_is_neither_hidden_nor_0(tmp_path):
    answer = TABLE_FORMATS.create("camara").read(str(FILES / "camara.json"))
    assert answer.not_covered.tolist() == [[True, True], *[[False, False]] * 3]
    rides = TABLE_FORMATS.create("gtfs_ride", **MADRID).read(str(FILES / "gtfs_ride"))
    assert rides.not_covered.tolist() == [[False, False], [False, True]]
    path = tmp_path / "answer.json"
    path.write_text('{"status": "AREA_NOT_SUPPORTED", "timedPopulationDensityData": []}')
    with pytest.raises(SourceError, match="the table has no rows with values"):
        TABLE_FORMATS.create("camara").read(str(path))


ESTIMATE = '"DENSITY_ESTIMATION", "maxPplDensity": 150, "minPplDensity": 30'
WRONG = {
    "several units": ("eurostat_tsv.tsv", "", "", "line 5: 'A,PC,ES51' has another unit than NR"),
    "no such part": ("eurostat_tsv.tsv", "unit,", "measure,", "no line has 'NR' in unit"),
    "no place": ("eurostat_tsv.tsv", "geo", "region", r"TIME_PERIOD' has no part geo"),
    "a short key": ("eurostat_tsv.tsv", "A,NR,FRK2", "A,NR", "line 4: 'A,NR' is not a code for"),
    "a key without a place": ("eurostat_tsv.tsv", "ES52", "", "line 3: 'A,NR,' is not a code for"),
    "a value that is confidential": (
        "eurostat_tsv.tsv", "77 e", "77 eC", "line 3, column 4 ('2025-01'): '77 eC' is not",
    ),
    "a space between thousands": (
        "eurostat_tsv.tsv", "1188 p", "1 188 p", "line 2, column 3 ('2024-01'): '1 188' is not a",
    ),
    "a value of few people": (
        "camara.json", ESTIMATE, '"LOW_DENSITY"', "only a DENSITY_ESTIMATION has a pplDensity",
    ),
    "no value": ("camara.json", '"LOW_DENSITY"', ESTIMATE, "only a DENSITY_ESTIMATION has"),
    "another type of data": ("camara.json", '"NO_DATA"', '"SECRET"', "'SECRET' is not a number"),
    "another answer": ("camara.json", "timedPop", "pop", "no answer with population densities"),
    "no JSON": ("camara.json", "{", "", "no answer with population densities"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused(case, tmp_path):
    file, old, new, message = WRONG[case]
    name = file.partition(".")[0]
    settings = SERIES if name == "eurostat_tsv" and old else {}
    path = tmp_path / file
    text = (FILES / file).read_text()
    path.write_text(text.replace(old, new) if old else text)
    with pytest.raises(SourceError) as caught:
        TABLE_FORMATS.create(name, **settings).read(str(path))
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["eurostat_tsv", "camara", "safegraph"])
def test_it_is_only_read(name, tmp_path):
    file, settings, *_ = CASES[name]
    form = TABLE_FORMATS.create(name, **settings)
    with pytest.raises(InputError, match=f"tables are not written as {name}"):
        form.write(str(tmp_path / file), form.read(str(FILES / file)))
    assert not (tmp_path / file).exists()


@pytest.mark.parametrize("name", ["mds", "multimno"])
def test_a_value_that_would_be_read_as_hidden_is_not_written(name, tmp_path):
    hours = np.array(["2026-03-28T22", "2026-03-28T23"], "datetime64[s]")
    release = RawRelease(np.array([[-1.0, 2.0]]), ("A",), hours)
    with pytest.raises(InputError, match=f"{name}: a value of the table is a code of `hidden`"):
        TABLE_FORMATS.create(name).write(str(tmp_path / "t.csv"), release)


def test_a_damaged_name_of_a_column_is_refused(tmp_path):
    path, content = tmp_path / "t.parquet", (FILES / "safegraph.parquet").read_bytes()
    path.write_bytes(content.replace(b"visits_by", b"\xffisits_by"))
    with pytest.raises(SourceError, match="is not a complete Parquet file"):
        TABLE_FORMATS.create("safegraph").read(str(path))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_damaged_name_of_a_place_is_refused(kind, tmp_path):
    path = tmp_path / "t.parquet"
    columns = {"place": pa.array(["alpha"], kind), "time": [datetime(2026, 3, 2)], "count": [3]}
    pq.write_table(pa.table(columns), path, compression="none", write_page_checksum=False)
    path.write_bytes(path.read_bytes().replace(b"alpha", b"\xd0lpha"))
    with pytest.raises(SourceError, match="is not a complete Parquet file"):
        TABLE_FORMATS.create("long", step="1h").read(str(path))


def test_lists_of_other_formats_are_refused():
    form = TABLE_FORMATS.create("long", place="placekey", time="date_range_start",
                                count="visits_by_each_hour")  # fmt: skip
    with pytest.raises(SourceError, match=r"visits_by_each_hour of .* is list<.*should be one"):
        form.read(str(FILES / "safegraph.parquet"))


def test_lists_have_no_flags():
    found = TABLE_FORMATS.create("safegraph", flags=["p"]).read(str(FILES / "safegraph.parquet"))
    assert found.values.tolist() == [[0, 0, 4, 5], [1, 0, 0, 0]]


def test_lists_that_differ_in_another_column_are_refused(tmp_path):
    table = pq.read_table(FILES / "safegraph.parquet")
    table = pa.concat_tables([table, table])
    path = tmp_path / "t.parquet"
    pq.write_table(table.append_column("version", pa.array(["a", "a", "b", "b"])), path)
    with pytest.raises(SourceError, match=r"is listed 2 times.*they differ in version \(a, b\)"):
        TABLE_FORMATS.create("safegraph").read(str(path))
