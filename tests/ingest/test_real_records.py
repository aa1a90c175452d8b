"""The real records: the cabs of San Francisco and the bicycles of Massachusetts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dask")

import pyarrow.parquet as pq
from numpy.typing import NDArray

from clusterscale.cube.calendar import Calendar
from clusterscale.cube.regions import Grid
from clusterscale.cube.store import TraceCube
from clusterscale.ingestion import READERS, IngestOptions, IngestReport, ingest

pytestmark = [pytest.mark.dask, pytest.mark.slow]

Cells = NDArray[np.int64]

BAY = Grid.parse("37.7282,-122.4528,37.8021,-122.3637/10x10")
THREE_WEEKS = Calendar.parse("2008-05-19T00:00", "1h", 504, "America/Los_Angeles")


def _ingest(
    source: Path, folder: Path, reader: str, grid: Grid, calendar: Calendar
) -> tuple[IngestReport, TraceCube]:
    uri = str(folder / "cube.zarr")
    report = ingest(
        str(source),
        uri,
        IngestOptions(reader=READERS.create(reader), locator=grid, calendar=calendar),
    )
    assert report.n_rows == report.n_events + sum(report.dropped.values())
    return report, TraceCube(uri)


def _count(source: Path, grid: Grid, calendar: Calendar) -> tuple[list[str], Cells, Cells]:
    """Return names, and user and flat cell of each distinct pair, by plain NumPy."""
    table = pq.read_table(source).combine_chunks()
    user = table["user"].chunk(0)
    lat, lon = (_decimals(table[name].to_numpy()) for name in ("lat", "lon"))
    epoch = (table["timestamp"].to_numpy() - calendar.start) // calendar.step
    box = grid.box
    row = np.floor((lat - box.south) / (box.north - box.south) * grid.n_lat).astype(int)
    column = np.floor((lon - box.west) / (box.east - box.west) * grid.n_lon).astype(int)
    inside = (epoch >= 0) & (epoch < calendar.n_epochs)
    inside &= (row >= 0) & (row < grid.n_lat) & (column >= 0) & (column < grid.n_lon)
    cell = (row * grid.n_lon + column) * calendar.n_epochs + epoch
    n_cells = grid.n_lat * grid.n_lon * calendar.n_epochs
    pairs = _distinct(user.indices.to_numpy()[inside].astype(np.int64) * n_cells + cell[inside])
    return user.dictionary.to_pylist(), pairs // n_cells, pairs % n_cells


def _distinct(values: NDArray[Any]) -> NDArray[Any]:
    values = np.sort(values)  # numpy.unique hashes, which takes several times as long here
    return values[np.append(True, values[1:] != values[:-1])]


def _decimals(single: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the decimals that were meant: Python prints the shortest that fits."""
    distinct = _distinct(single)
    return np.array([float(str(value)) for value in distinct])[np.searchsorted(distinct, single)]


def _check(cube: TraceCube, names: list[str], users: Cells, cells: Cells) -> None:
    mine = cube.traces()
    known = {name: code for code, name in enumerate(names)}
    codes = np.array([known[user] for user in cube.user_ids().tolist()])
    found = np.stack([np.repeat(codes, np.diff(mine.offsets)), mine.cells])
    order = np.lexsort(found[::-1])
    np.testing.assert_array_equal(found[:, order], np.stack([users, cells]))


@pytest.fixture(scope="module")
def cabs(data: Path) -> tuple[list[str], Cells, Cells]:
    """Names of all cabs, and user and flat cell of each distinct pair."""
    return _count(data / "sfcabs.parquet", BAY, THREE_WEEKS)


def test_all_cabs(data: Path, tmp_path: Path, cabs: tuple[list[str], Cells, Cells]) -> None:
    source = data / "sfcabs.parquet"
    report, cube = _ingest(source, tmp_path, "events", BAY, THREE_WEEKS)
    assert (report.n_rows, report.n_users, report.n_events) == (11_220_058, 534, 2_013_414)
    names, users, cells = cabs
    _check(cube, names, users, cells)
    dense = np.zeros((len(names), 100, 504), bool)
    dense.reshape(len(names), -1)[users, cells] = True
    dense = dense[dense.any(axis=(1, 2))]
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
    _check(cube, *_count(source, grid, calendar))


def test_cabs_in_their_original_format_are_those_of_the_table(
    data: Path, tmp_path: Path, cabs: tuple[list[str], Cells, Cells]
) -> None:
    report, cube = _ingest(data / "cabspotting-sample", tmp_path, "cabspotting", BAY, THREE_WEEKS)
    assert report.n_rows == 26_012
    names, users, cells = cabs
    assert cube.user_ids().tolist() == ["abboip", "enyenewl"]
    wanted = np.isin(users, [names.index("abboip"), names.index("enyenewl")])
    _check(cube, names, users[wanted], cells[wanted])
