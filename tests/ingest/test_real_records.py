"""The real records: the cabs of San Francisco and the bicycles of Massachusetts."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("dask")

import pyarrow.parquet as pq

from clusterscale.cube.calendar import Calendar
from clusterscale.cube.regions import Grid
from clusterscale.cube.store import TraceCube
from clusterscale.ingest import READERS, IngestReport, ingest

pytestmark = pytest.mark.dask

BAY = Grid.parse("37.7282,-122.4528,37.8021,-122.3637/10x10")
THREE_WEEKS = Calendar.parse("2008-05-19T00:00", "1h", 504, "America/Los_Angeles")


def _ingest(
    source: Path, folder: Path, reader: str, grid: Grid, calendar: Calendar
) -> tuple[IngestReport, TraceCube]:
    uri = str(folder / "cube.zarr")
    report = ingest(
        str(source), uri, reader=READERS.create(reader), locator=grid, calendar=calendar
    )
    assert report.n_rows == report.n_events + sum(report.dropped.values())
    return report, TraceCube(uri)


def _dense(source: Path, grid: Grid, calendar: Calendar) -> tuple[list[str], np.ndarray]:
    """Return users and a dense boolean cube, counted without the package's own arithmetic."""
    table = pq.read_table(source).combine_chunks()
    user = table["user"].chunk(0)
    lat, lon = (np.round(table[name].to_numpy().astype(float), 5) for name in ("lat", "lon"))
    epoch = (table["timestamp"].to_numpy() - calendar.start) // calendar.step
    box, shape = grid.box, (grid.n_lat, grid.n_lon)
    row = np.floor((lat - box.south) / (box.north - box.south) * grid.n_lat).astype(int)
    column = np.floor((lon - box.west) / (box.east - box.west) * grid.n_lon).astype(int)
    inside = (epoch >= 0) & (epoch < calendar.n_epochs)
    inside &= (row >= 0) & (row < shape[0]) & (column >= 0) & (column < shape[1])
    cube = np.zeros((len(user.dictionary), shape[0] * shape[1], calendar.n_epochs), bool)
    codes = user.indices.to_numpy()[inside]
    cube[codes, row[inside] * shape[1] + column[inside], epoch[inside]] = True
    active = cube.any(axis=(1, 2))
    names = [str(name) for name in np.array(user.dictionary)[active]]
    return names, cube[active]


def _check(cube: TraceCube, names: list[str], dense: np.ndarray) -> None:
    order = np.argsort(np.array(names, np.dtypes.StringDType()))
    assert cube.user_ids().tolist() == [names[i] for i in order]
    traces = cube.traces()
    mine = np.zeros_like(dense)
    users = np.repeat(np.arange(traces.n_users), np.diff(traces.offsets))
    mine.reshape(len(names), -1)[users, traces.cells] = True
    assert len(traces.cells) == dense.sum()
    np.testing.assert_array_equal(mine, dense[order])


def test_all_cabs(data: Path, tmp_path: Path) -> None:
    source = data / "sfcabs.parquet"
    began = time.perf_counter()
    report, cube = _ingest(source, tmp_path, "events", BAY, THREE_WEEKS)
    assert time.perf_counter() - began < 30
    assert (report.n_rows, report.n_users, report.n_events) == (11_220_058, 534, 2_013_414)
    names, dense = _dense(source, BAY, THREE_WEEKS)
    _check(cube, names, dense)
    n_events = dense.sum(axis=(1, 2))
    assert (n_events.mean().round(), n_events.std().round()) == (3770, 1193)
    n_rois = dense.any(axis=2).sum(axis=1)
    assert (n_rois.mean().round(1), n_rois.std().round(1)) == (78.1, 6.2)
    n_hours = dense.any(axis=1).sum(axis=1)
    assert (n_hours.mean().round(1), n_hours.std().round(1)) == (340.7, 94.1)


def test_bicycles(data: Path, tmp_path: Path) -> None:
    source = data / "valleybike_1min.parquet"
    grid = Grid.parse("42.05,-72.72,42.45,-72.48/20x12")
    calendar = Calendar.parse("2018-08-20T00:00", "1h", 28 * 24, "America/New_York")
    report, cube = _ingest(source, tmp_path, "events", grid, calendar)
    assert report.n_users == 2645
    assert round(report.n_events / report.n_users, 1) == 15.5
    riders = set(cube.user_ids().tolist())
    names, dense = _dense_of(source, riders, grid, calendar, tmp_path)
    _check(cube, names, dense)


def _dense_of(
    source: Path, riders: set[str], grid: Grid, calendar: Calendar, folder: Path
) -> tuple[list[str], np.ndarray]:
    """Count densely the riders of one month: all 14,831 would take 2 GB."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = pq.read_table(source)
    seconds = table["timestamp"]
    last = calendar.start + calendar.step * calendar.n_epochs
    table = table.filter(pc.and_(pc.greater_equal(seconds, calendar.start), pc.less(seconds, last)))
    users = table["user"].cast(pa.string()).dictionary_encode()
    path = folder / "month.parquet"
    pq.write_table(table.set_column(0, "user", users), path, store_schema=True)
    names, dense = _dense(path, grid, calendar)
    assert set(names) == riders
    return names, dense


def test_cabs_in_their_original_format_are_those_of_the_table(data: Path, tmp_path: Path) -> None:
    report, cube = _ingest(data / "cabspotting-sample", tmp_path, "cabspotting", BAY, THREE_WEEKS)
    assert report.n_rows == 26_012
    names, dense = _dense(data / "sfcabs.parquet", BAY, THREE_WEEKS)
    wanted = cube.user_ids().tolist()
    assert wanted == ["abboip", "enyenewl"]
    rows = [names.index(cab) for cab in wanted]
    _check(cube, wanted, dense[rows])
