"""A table of many rows is read in the memory of its cells."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clusterscale.errors import SourceError
from clusterscale.reading import tables
from clusterscale.release import TABLE_FORMATS, long

N_ZONES, N_HOURS = 30, 24
FLOWS = TABLE_FORMATS.create("flow_data_frame", add_rows=True, absent="zero")


@pytest.fixture
def batches_of_few_rows(monkeypatch):
    monkeypatch.setattr(tables, "BATCH", 1 << 10)
    monkeypatch.setattr(long, "_PIECE", 1 << 18)


def flows(path, n_rows, seed=1):
    """Rows in random order, each cell in about as many of them; return their sums."""
    rng = np.random.default_rng(seed)
    origin, destination = rng.integers(0, N_ZONES, (2, n_rows))
    hour, flow = rng.integers(0, N_HOURS, n_rows), rng.integers(0, 9, n_rows)
    names = pa.array([f"{i:03}" for i in range(N_ZONES)])
    columns = {
        "origin": pa.DictionaryArray.from_arrays(origin, names),
        "destination": pa.DictionaryArray.from_arrays(destination, names),
        "datetime": pa.array(1_772_409_600 + 3600 * hour, pa.int64()),
        "flow": flow,
    }
    pq.write_table(pa.table(columns), path, row_group_size=1 << 14)
    cells = np.ravel_multi_index((origin, destination, hour), (N_ZONES, N_ZONES, N_HOURS))
    sums = np.bincount(cells, weights=flow, minlength=N_ZONES**2 * N_HOURS)
    return sums.reshape(N_ZONES**2, N_HOURS)


def peak_of(path):
    """Bytes of Python and NumPy at the most, beyond those of Arrow's buffers."""
    tracemalloc.start()
    try:
        FLOWS.read(str(path))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory_does_not_grow_with_rows(batches_of_few_rows, tmp_path):
    few, many = tmp_path / "few.parquet", tmp_path / "many.parquet"
    flows(few, 100_000)
    flows(many, 400_000)
    peak_of(few)  # compiles and imports
    kept = 300_000 * 25  # bytes of three numbers and a flag for each row, were rows kept
    assert peak_of(many) - peak_of(few) < 0.1 * kept


def test_batches_add_up_to_the_table(batches_of_few_rows, tmp_path):
    path = tmp_path / "flows.parquet"
    sums = flows(path, 100_000)
    np.testing.assert_array_equal(FLOWS.read(str(path)).values, sums)


@pytest.mark.parametrize("n_times", [2, 3, 7, 50])
def test_places_and_times_may_appear_in_any_order(batches_of_few_rows, n_times, tmp_path):
    """Epochs without any row lie between others, and both axes grow while the file is read."""
    rng = np.random.default_rng(n_times)
    places = [f"zone {i}" for i in range(97)]
    times = np.sort(rng.choice(200, n_times, replace=False))
    times[:2] = times[0], times[0] + 1
    cells = rng.permutation(len(places) * n_times)
    place, time = np.divmod(cells, n_times)
    path = tmp_path / "counts.csv"
    lines = [f"{places[p]},{times[t]},{p * 1000 + t}" for p, t in zip(place, time, strict=True)]
    path.write_text("\n".join(["place,time,count", *lines]))
    table = TABLE_FORMATS.create("long", slots=True, absent="hidden").read(str(path))
    assert list(table.rois) == sorted(places)
    expected = np.full((len(places), len(table.epochs)), np.nan)
    rank = {name: i for i, name in enumerate(table.rois)}
    for p, t in zip(place, time, strict=True):
        expected[rank[places[p]], times[t] - times.min()] = p * 1000 + t
    np.testing.assert_array_equal(table.values, expected)


def test_rows_that_repeat_in_other_batches_are_counted(batches_of_few_rows, tmp_path):
    path = tmp_path / "counts.csv"
    rows = [f"zone {i:04},{hour},1" for i in range(2000) for hour in (0, 1)]
    again = ["zone 0900,1,1"] * 3 + ["zone 0007,0,1"] * 2 + rows[2:] + ["zone 0007,0,1"]
    path.write_text("\n".join(["place,time,count", *rows, *again]))
    with pytest.raises(SourceError, match="'zone 0001', 0 is listed 2 times"):
        TABLE_FORMATS.create("long", slots=True).read(str(path))
    path.write_text("\n".join(["place,time,count", *rows, *again[:5], again[-1]]))
    with pytest.raises(SourceError, match="'zone 0007', 0 is listed 4 times"):
        TABLE_FORMATS.create("long", slots=True).read(str(path))


def test_names_with_an_arrow_are_one_place(tmp_path):
    path = tmp_path / "flows.csv"
    path.write_text("o,d,time,count\nA → B,C,0,1\nA,B → C,1,2\nA,C,0,3\nA,C,1,4\n")
    table = TABLE_FORMATS.create("long", origin="o", destination="d", slots=True).read(str(path))
    assert table.rois == ("A → B → C", "A → C")
    assert table.values.tolist() == [[1, 2], [3, 4]]


def test_zones_may_be_called_none(tmp_path):
    path = tmp_path / "flows.csv"
    path.write_text("o,d,time,count\nNone,None,0,1\nNone,None,1,2\n")
    table = TABLE_FORMATS.create("long", origin="o", destination="d", slots=True).read(str(path))
    assert table.rois == ("None → None",)
    assert table.values.tolist() == [[1, 2]]
