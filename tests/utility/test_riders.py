"""What measures say of bike riders, who are rarely anywhere: of zeros, half of the events, all."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from clusterscale import mechanisms, utility

pytestmark = pytest.mark.slow

MONDAY = 1534737600  # 2018-08-20 00:00 in Massachusetts
SOUTH, WEST, STEP = 42.05, -72.72, 0.02
N_ROWS, N_COLUMNS, HOURS, MEMBERS = 20, 12, 168, 1000


def count_riders(path):
    """Count 1,000 riders in each cell and hour of a week, by hand."""
    week = [("timestamp", ">=", MONDAY), ("timestamp", "<", MONDAY + 3600 * HOURS)]
    seen = pq.read_table(path, filters=week).to_pandas()
    row = np.floor((seen["lat"].astype(float) - SOUTH) / STEP)
    column = np.floor((seen["lon"].astype(float) - WEST) / STEP)
    inside = row.between(0, N_ROWS - 1) & column.between(0, N_COLUMNS - 1)
    cells = (
        seen[inside]
        .assign(
            roi=(row * N_COLUMNS + column)[inside].astype(int),
            hour=((seen["timestamp"] - MONDAY) // 3600)[inside],
        )[["user", "roi", "hour"]]
        .drop_duplicates()
    )
    riders = np.random.default_rng(0).permutation(np.unique(cells["user"]))[:MEMBERS]
    cells = cells[cells["user"].isin(riders)]
    counts = np.zeros((N_ROWS * N_COLUMNS, HOURS), np.int64)
    np.add.at(counts, (cells["roi"], cells["hour"]), 1)
    return counts


@pytest.fixture(scope="module")
def counts(real_data):
    found = count_riders(real_data / "valleybike_1min.parquet")
    assert 0.05 < (found > 0).mean() < 0.1
    return found


def measure_all(raw, released):
    return {name: utility.create(name).measure(raw, released) for name in utility.UTILITIES}


@pytest.mark.parametrize(
    ("name", "fields", "kept"),
    [("sample_events", {"remove": 0.5}, 0.5), ("suppress_small", {"below": 5}, 0.6)],
)
def test_zeros_are_worse_than_what_keeps_half_and_all_is_ideal(counts, name, fields, kept):
    rng = np.random.default_rng(1)
    released = mechanisms.create(name, **fields).release(counts, group_size=MEMBERS, rng=rng)
    zeros, half, exact = (measure_all(counts, each) for each in (0 * counts, released, counts))
    for measure in utility.UTILITIES:
        ideal = utility.create(measure).ideal
        assert exact[measure] == ideal
        assert abs(zeros[measure] - ideal) > abs(half[measure] - ideal) > 0, measure
    assert zeros["mean_relative_error"] < 0.2, "which is why other measures are needed"
    assert zeros["hotspot_f1"] == zeros["hotspot_tau"] == zeros["events_kept"] == 0
    assert zeros["total_variation"] == 1
    assert half["events_kept"] == pytest.approx(kept, abs=0.05)
