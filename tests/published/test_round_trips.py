"""What is written in a format is read back the same: names, times, hidden cells, every digit."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.errors import InputError
from clusterscale.release import (
    TABLE_FORMATS,
    PublishedTotals,
    RawRelease,
    ReleaseMetadata,
    read_table,
)

FORMATS = [
    (TABLE_FORMATS.create("arrays"), "week.zarr"),
    (TABLE_FORMATS.create("arrays"), "week.nc"),
    (TABLE_FORMATS.create("long", total="Total"), "week.csv"),
    (TABLE_FORMATS.create("long", total="Total"), "week.parquet"),
    (TABLE_FORMATS.create("wide", total="Total"), "week.csv"),
    (TABLE_FORMATS.create("wide", total="Total", times="rows"), "week.csv"),
    (TABLE_FORMATS.create("geojson"), "week.geojson"),
    (TABLE_FORMATS.create("geojson", time="at", count="people", place="zone"), "week.geojson"),
    (TABLE_FORMATS.create("sdmx_csv", total="Total"), "week.csv"),
    (TABLE_FORMATS.create("multimno", total="Total"), "week.parquet"),
    (TABLE_FORMATS.create("mds", total="Total"), "week.csv"),
]
PAIRS = [
    (TABLE_FORMATS.create("flow_data_frame"), "flows.csv"),
    (TABLE_FORMATS.create("flowkit"), "flows.parquet"),
    (TABLE_FORMATS.create("long", origin="from", destination="to"), "flows.csv"),
]
IDS = {"ids": lambda value: getattr(value, "name", value)}
METADATA = ReleaseMetadata(
    group_size=300,
    mechanism={"name": "threshold", "k": 5, "shown": "hidden"},
    start="2026-03-29T00:00",
    null_roi=False,
    observed=(3, 7),
    series="zones",
)
NAMES = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=8
).filter(lambda text: text not in ("Total", "id", "zone") and "→" not in text)
NUMBERS = st.one_of(
    st.integers(-5, 10**9).map(float).filter(lambda value: value != -1),  # a code of some
    st.floats(-1e299, 1e299),
    st.just(np.nan),
)


@st.composite
def releases(draw, slots=False, pairs=False, totals=True):
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    if pairs:
        names = [f"{one} → {other}" for one in names for other in names]
    n_epochs = draw(st.integers(2, 5))
    rows = st.lists(NUMBERS, min_size=n_epochs, max_size=n_epochs)
    values = np.array(draw(st.lists(rows, min_size=len(names), max_size=len(names))))
    first = draw(st.integers(0, 10**4))
    epochs = np.arange(first, first + n_epochs)
    if not slots:
        step = draw(st.sampled_from([900, 3600, 86400]))
        epochs = np.datetime64("2026-03-28T22:00:00", "s") + epochs * step
    some = PublishedTotals()
    if totals and draw(st.booleans()):
        whole = np.nan_to_num(values / 8)
        some = PublishedTotals(whole.sum(axis=1), whole.sum(axis=0))
    order = np.argsort(np.array(names, object))
    named = tuple(names[i] for i in order)
    return RawRelease(values, named, epochs, some, METADATA)


def same(read, written):
    np.testing.assert_array_equal(read.values, written.values)
    assert read.rois == written.rois
    np.testing.assert_array_equal(read.epochs, written.epochs)
    for side in ("roi", "epoch"):
        one, other = getattr(read.totals, side), getattr(written.totals, side)
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one, other)
    assert read.metadata == written.metadata


def begins_like_a_formula(names):
    return any(part[0] in "=+-@" for name in names for part in name.split(" → "))


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r"])
@pytest.mark.parametrize(("form", "name"), [*FORMATS, *PAIRS], **IDS)
def test_csv_has_no_name_that_a_spreadsheet_runs(form, name, sign, tmp_path):
    """Values may be negative: they are numbers."""
    places = (f"A → {sign}B", "A → C") if (form, name) in PAIRS else (f"{sign}B", "C")
    epochs = np.array(["2026-03-28T22", "2026-03-28T23"], "datetime64[s]")
    release = RawRelease(np.array([[-5.0, -1.5], [2.0, 3.0]]), places, epochs)
    uri = tmp_path / name
    if name.endswith(".csv"):
        with pytest.raises(InputError, match="would run it as a formula: choose another format"):
            form.write(str(uri), release)
        assert not uri.exists()
    elif sign in "=+-@":
        form.write(str(uri), release)
        assert set(form.read(str(uri)).rois) == set(places)


@pytest.mark.parametrize(("form", "name"), FORMATS, **IDS)
@given(data=st.data())
def test_a_release_is_read_as_it_was_written(form, name, data, tmp_path_factory):
    release = data.draw(releases(totals=form.name != "geojson"))
    uri = str(tmp_path_factory.mktemp("release") / name)
    if name.endswith(".csv") and begins_like_a_formula(release.rois):
        with pytest.raises(InputError, match="a spreadsheet would run it as a formula"):
            form.write(uri, release)
        return
    form.write(uri, release)
    same(form.read(uri), release)


@pytest.mark.parametrize(("form", "name"), PAIRS, **IDS)
@given(data=st.data())
def test_trips_between_places_are_read_as_they_were_written(form, name, data, tmp_path_factory):
    release = data.draw(releases(pairs=True, totals=False))
    uri = str(tmp_path_factory.mktemp("release") / name)
    if name.endswith(".csv") and begins_like_a_formula(release.rois):
        with pytest.raises(InputError, match="a spreadsheet would run it as a formula"):
            form.write(uri, release)
        return
    form.write(uri, release)
    same(form.read(uri), release)


@pytest.mark.parametrize("kind", ["long", "wide", "geojson"])
@given(data=st.data())
def test_epochs_may_be_numbers(kind, data, tmp_path_factory):
    release = data.draw(releases(slots=True, totals=False))
    uri = str(tmp_path_factory.mktemp("release") / "week.csv")
    form = TABLE_FORMATS.create(kind, slots=True)
    if kind != "geojson" and begins_like_a_formula(release.rois):
        with pytest.raises(InputError, match="a spreadsheet would run it as a formula"):
            form.write(uri, release)
        return
    form.write(uri, release)
    same(form.read(uri), release)


def test_zones_have_no_place_for_totals(tmp_path):
    totals = PublishedTotals(np.ones(1))
    release = RawRelease(np.ones((1, 2)), ("a",), np.arange(2), totals)
    with pytest.raises(InputError, match="GeoJSON has no place for totals"):
        TABLE_FORMATS.create("geojson").write(str(tmp_path / "week.geojson"), release)


def test_short_codes_of_inspire_are_read_as_long_ones(tmp_path):
    epochs = np.datetime64("2026-03-28T22:00:00", "s") + np.arange(2) * 3600
    short, long = ("1kmN2689E4337", "DE_1kmN2689E4338"), "CRS3035RES1000mN2689000E433{}000"
    values, totals = np.arange(4.0).reshape(2, 2), PublishedTotals(None, np.array([2.0, 4.0]))
    form = TABLE_FORMATS.create("long", total="Total", inspire=True)
    form.write(str(tmp_path / "week.csv"), RawRelease(values, short, epochs, totals))
    found = form.read(str(tmp_path / "week.csv"))
    assert found.rois == (long.format(7), long.format(8))
    assert found.values.tolist() == values.tolist()
    assert found.totals.epoch.tolist() == [2, 4]
    trips = TABLE_FORMATS.create("flowkit", inspire=True)
    pair = (f"{short[0]} → {short[1]}",)
    trips.write(str(tmp_path / "trips.csv"), RawRelease(values[:1], pair, epochs))
    found = trips.read(str(tmp_path / "trips.csv"))
    assert found.rois == (f"{long.format(7)} → {long.format(8)}",)


@pytest.mark.parametrize("wide", [True, False])
def test_zones_of_geoparquet_are_read(wide, tmp_path):
    hours = np.datetime64("2026-03-02T08:00:00") + np.arange(2) * np.timedelta64(1, "h")
    zones = {"zone": ["a", "b"], "geometry": [b"\x01", b"\x01"], "area": [1.5, 2.5]}
    if wide:
        columns = zones | {f"{hour}Z": [float(i), None] for i, hour in enumerate(hours)}
        form = TABLE_FORMATS.create("geojson", place="zone")
    else:
        columns = {key: [value for value in zones[key] for _ in hours] for key in zones}
        columns |= {"at": pa.array(np.tile(hours, 2), pa.timestamp("us", "UTC"))}
        columns |= {"people": [0.0, 1.0, None, None]}
        form = TABLE_FORMATS.create("geojson", place="zone", time="at", count="people")
    uri = str(tmp_path / "zones.parquet")
    pq.write_table(pa.table(columns), uri)
    found = form.read(uri)
    assert found.rois == ("a", "b")
    np.testing.assert_array_equal(found.values, [[0.0, 1.0], [np.nan, np.nan]])
    assert found.epochs.tolist() == hours.astype("datetime64[s]").tolist()


def test_a_geoparquet_file_that_is_damaged_is_refused(tmp_path):
    uri = tmp_path / "zones.geoparquet"
    uri.write_bytes(b"PAR1 and nothing else PAR1")
    with pytest.raises(InputError, match=r"zones\.geoparquet"):
        read_table(str(uri))
