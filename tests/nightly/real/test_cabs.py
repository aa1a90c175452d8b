"""The San Francisco cabs, from raw fixes to counts, and to who is told from them."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr
from real.cabs import BOX, HOURS, ingest_cabs
from running import run

from clusterscale.analyses.audit import AuditPlan
from clusterscale.runtime import Local

pytest.importorskip("distributed")
pytestmark = [pytest.mark.nightly(group="real"), pytest.mark.dask, pytest.mark.timeout(1200)]

START = 1211180400  # Monday 2008-05-19 00:00 in San Francisco


@pytest.fixture(scope="module")
def cabs(real_data, tmp_path_factory):
    return ingest_cabs(real_data, str(tmp_path_factory.mktemp("cabs") / "cube"))


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


def test_cabs_are_told_by_their_components_or_their_traces(cabs, tmp_path):
    """A mean of .99 of 45 cabs, computed twice; of 12, two standard errors are .05.

    The attacks of NDSS18 are held to its AUCs by its studies.
    """
    plan = AuditPlan(
        seed=1,
        null_roi=True,
        targets={"tertiles": 4},
        group_sizes=[10, 100],
        priors=[{"name": "known_subset", "alpha": 0.2}],
        mechanisms=[{"name": "exact"}],
        attacks=[{"name": "spectral"}, {"name": "projection"}],
    )
    with Local().open() as executor:
        results = run(plan, cabs, tmp_path / "run", executor)
    assert (results.status == "done").all(), results.error.values
    means = results.mean("target").squeeze(drop=True)
    assert abs(means.control_auc - 0.5).max() < 0.05  # 12 cabs; the standard error is about .015
    assert (means.auc > 0.99 - 0.06 - 0.05).all(), means.auc.values
