"""The San Francisco cabs, from raw fixes to the AUCs that two independent sources report."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr

from clusterscale.audit import AuditPlan, run
from clusterscale.cube import Calendar, Grid, TraceCube
from clusterscale.runtime import Local

pytest.importorskip("distributed")
pytestmark = [pytest.mark.heavy, pytest.mark.dask, pytest.mark.timeout(1200)]

BOX = (37.7282, -122.4528, 37.8021, -122.3637)
START, HOURS = 1211180400, 504  # Monday 2008-05-19 00:00 in San Francisco

# Mean AUC of an independent re-computation with 12 targets (about ± .04), and of NDSS18 Fig. 4.
TABLE = {
    "logistic": {10: 0.90, 50: 0.74, 100: 0.69},
    "projection": {10: 1.00, 50: 1.00, 100: 0.99},
}
PAPER = {10: (0.9, 0.9), 50: (0.70, 0.72), 100: (0.67, 0.68)}


@pytest.fixture(scope="module")
def cabs(real_data, tmp_path_factory):
    from clusterscale.ingest import READERS, ingest

    uri = str(tmp_path_factory.mktemp("cabs") / "cube")
    ingest(
        str(real_data / "sfcabs.parquet"),
        uri,
        reader=READERS.create("events"),
        locator=Grid.parse(",".join(map(str, BOX)) + "/10x10"),
        calendar=Calendar.parse("2008-05-19T00:00", "1h", HOURS, "America/Los_Angeles"),
    )
    return TraceCube(uri)


def count_by_hand(path):
    """Count cabs in each cell and hour from the raw file, sharing no code with the package."""
    fixes = pq.read_table(path).to_pandas()
    # The file holds single precision; the fixes were made with five decimals.
    lat, lon = (np.round(fixes[name].to_numpy(np.float64), 5) for name in ("lat", "lon"))
    hour = (fixes["timestamp"].to_numpy() - START) // 3600
    south, west, north, east = BOX
    row = np.floor((lat - south) / ((north - south) / 10))
    column = np.floor((lon - west) / ((east - west) / 10))
    inside = (row >= 0) & (row < 10) & (column >= 0) & (column < 10) & (hour >= 0) & (hour < HOURS)
    cells = fixes.loc[inside, ["user"]].assign(
        roi=(row * 10 + column)[inside].astype(int), hour=hour[inside]
    )
    seen = cells.drop_duplicates()
    counts = np.zeros((100, HOURS), int)
    np.add.at(counts, (seen["roi"].to_numpy(), seen["hour"].to_numpy()), 1)
    return counts


def test_the_lazy_view_agrees_with_a_count_by_hand(cabs, real_data):
    trace = xr.open_dataset(cabs.uri, engine="clusterscale", chunks={}).trace
    counts = trace.sum("user").values
    assert counts.sum() == cabs.n_events == 2_013_414
    np.testing.assert_array_equal(counts, count_by_hand(real_data / "sfcabs.parquet"))


def test_audit_gives_the_published_aucs(cabs, tmp_path):
    """Sixty cabs: the standard error of a mean is about .012, of the table's about .04."""
    plan = AuditPlan(
        seed=1,
        targets={"tertiles": 20},
        group_sizes=[10, 50, 100],
        priors=[{"name": "known_subset", "alpha": 0.2}],
        mechanisms=[{"name": "exact"}],
        attacks=[{"name": "logistic"}, {"name": "projection"}],
    )
    with Local().open() as executor:
        results = run(plan, cabs, tmp_path / "run", executor)
    means = results.mean("target").squeeze()
    for attack, sizes in TABLE.items():
        for size, expected in sizes.items():
            case = means.sel(attack=attack, group_size=size)
            assert float(case.auc) == pytest.approx(expected, abs=0.05), (attack, size)
            assert float(case.control_auc) == pytest.approx(0.5, abs=0.03), (attack, size)
    for size, (low, high) in PAPER.items():
        found = float(means.auc.sel(attack="logistic", group_size=size))
        assert low - 0.05 <= found <= high + 0.05
