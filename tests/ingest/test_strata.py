"""A column of categories gives a ROI for each category of each place, with the same visits."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("dask")

from ingest.oracle import GRID, N_EPOCHS, SIDE, START, STEP, content, ingest_records
from loops import for_each
from typer.testing import CliRunner

from clusterscale.cli import app
from clusterscale.cube import TraceCube
from clusterscale.errors import SourceError
from clusterscale.ingestion import Events, TripPairs, Trips
from clusterscale.mechanisms import create

pytestmark = [pytest.mark.dask, pytest.mark.usefixtures("small_chunks")]

CATEGORIES = ["adult", "child", "élève"]


@pytest.fixture(scope="module")
def records():
    """Events of 20 users, some of whom have cards of two categories, and their place as a name."""
    rng = np.random.default_rng(2)
    lat, lon = rng.integers(0, 8, (2, 300))
    fields = {"user": rng.integers(10, 30, 300), "timestamp": START + rng.integers(0, 600, 300)}
    fields |= {"lat": lat, "lon": lon, "station": [f"S{i}" for i in lat]}
    return pd.DataFrame({**fields, "profile": rng.choice(CATEGORIES, 300, p=[0.6, 0.3, 0.1])})


def build(folder, records, name, **options):
    path = folder / f"{name}.csv"
    records.to_csv(path, index=False)
    report = ingest_records(str(path), str(folder / f"{name}.zarr"), block_bytes=900, **options)
    return TraceCube(str(folder / f"{name}.zarr")), report


READERS = {"positions": ({}, {}), "names": ({"roi": "station"}, {"locator": None})}


@for_each("case", READERS)
def test_each_visit_is_in_the_roi_of_its_place_and_category(case, records, tmp_path_factory):
    folder = tmp_path_factory.mktemp("strata")
    fields, options = READERS[case]
    cube, report = build(
        folder, records, "by", reader=Events(stratum="profile", **fields), **options
    )
    plain, _ = build(folder, records, "all", reader=Events(**fields), **options)
    names = [f"{place} (profile {of})" for place in plain.regions.names for of in CATEGORIES]
    assert cube.regions.names == tuple(names)
    np.testing.assert_array_equal(cube.regions.lat, np.repeat(plain.regions.lat, 3))
    assert report.n_rows == report.n_events + sum(report.dropped.values()) == 300
    expected = {}
    for row in records.itertuples():
        inside = int(row.lat / 8 * SIDE) * SIDE + int(row.lon / 8 * SIDE)
        place = inside if case == "positions" else sorted({*records.station}).index(row.station)
        roi = 3 * place + CATEGORIES.index(row.profile)
        cell = roi * N_EPOCHS + (row.timestamp - START) // STEP
        expected.setdefault(str(row.user), set()).add(cell)
    assert content(cube.uri) == expected
    merged, frame = create("coarsen_space", strata="profile").apply(
        cube.traces(), cube.frame(), rng=np.random.default_rng(0)
    )
    np.testing.assert_array_equal(merged.cells, plain.traces().cells)
    assert frame.names == plain.regions.names


def test_both_ends_of_a_trip_have_its_category(tmp_path):
    rows = [("a", "X", START, "Y", START + STEP, "child"), ("b", "Y", START, "X", START, "adult")]
    columns = ["user", "start_station", "start_time", "end_station", "end_time", "profile"]
    trips = pd.DataFrame(rows, columns=columns)
    cube, _ = build(tmp_path, trips, "trips", reader=Trips(stratum="profile"), locator=None)
    assert cube.regions.names == tuple(
        f"{place} (profile {of})" for place in "XY" for of in ("adult", "child")
    )
    assert content(cube.uri) == {
        "a": {1 * N_EPOCHS, 3 * N_EPOCHS + 1},
        "b": {0, 2 * N_EPOCHS},
    }
    pairs, _ = build(tmp_path, trips, "pairs", reader=TripPairs(stratum="profile"), locator=None)
    assert pairs.regions.names[1] == "X → Y (profile child)"
    assert content(pairs.uri) == {"a": {N_EPOCHS}, "b": {2 * N_EPOCHS}}


def test_a_record_without_a_category_is_dropped_and_counted(records, tmp_path):
    some = records.assign(profile=records.profile.where(records.index >= 7))
    _, report = build(tmp_path, some, "some", reader=Events(stratum="profile"))
    assert report.dropped["unparsable"] == 7
    with pytest.raises(SourceError) as caught:
        build(tmp_path, records.assign(profile=None), "none", reader=Events(stratum="profile"))
    assert "no record contains a category in the column profile" in str(caught.value)


def test_categories_are_those_of_the_records_and_so_rows_are_not_public(records, tmp_path):
    cube, _ = build(tmp_path, records, "by", reader=Events(stratum="profile"))
    plain, _ = build(tmp_path, records, "all", reader=Events(), locator=GRID)
    assert (cube.public, plain.public) == ({"calendar"}, {"calendar", "places"})
    assert cube.attributes["provenance"]["reader"]["stratum"] == "profile"


def test_the_command_takes_the_column(records, tmp_path):
    records.to_csv(tmp_path / "records.csv", index=False)
    words = ["ingest", str(tmp_path / "records.csv"), str(tmp_path / "cube.zarr")]
    words += ["--column", "roi=station", "--column", "stratum=profile"]
    words += ["--start", "2023-11-14T22:00", "--epochs", "2"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert TraceCube(str(tmp_path / "cube.zarr")).n_rois == 8 * 3
