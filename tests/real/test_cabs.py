"""The San Francisco cabs, from raw fixes to the AUCs that two independent sources report."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr
from real.cabs import BOX, HOURS, ingest_cabs

from clusterscale.audit import AuditPlan, run
from clusterscale.runtime import Local

pytest.importorskip("distributed")
pytestmark = [pytest.mark.heavy, pytest.mark.dask, pytest.mark.timeout(1200)]

START = 1211180400  # Monday 2008-05-19 00:00 in San Francisco

# NDSS18 Fig. 4, 150 targets: mean AUC by members and attack.
PAPER = {
    10: {"logistic": 0.90, "perceptron": 0.90, "forest": 0.84, "nearest": 0.70},
    50: {"logistic": 0.70, "perceptron": 0.72},
    100: {"logistic": 0.67, "perceptron": 0.68},
}
# An independent re-computation with 12 targets, whose means carry about ± .04.
COMPUTED = {
    50: {"forest": 0.57, "nearest": 0.56},
    100: {"forest": 0.55, "nearest": 0.54},
}
SURE = {"spectral": {10: 1.0, 50: 1.0, 100: 1.0}, "projection": {10: 1.0, 50: 1.0, 100: 0.99}}
FOUR = ["logistic", "perceptron", "forest", "nearest"]


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


def audit(cube, folder, **fields):
    plan = AuditPlan(seed=1, mechanisms=[{"name": "exact"}], **fields)
    with Local().open() as executor:
        results = run(plan, cube, folder, executor)
    assert (results.status == "done").all(), results.error.values
    return results.mean("target").squeeze(drop=True)


def test_known_subset_gives_the_published_aucs(cabs, tmp_path):
    """Forty-five cabs: the standard error of a mean is about .013."""
    means = audit(
        cabs,
        tmp_path / "run",
        targets={"tertiles": 15},
        group_sizes=[10, 50, 100],
        priors=[{"name": "known_subset", "alpha": 0.2}],
        attacks=[{"name": name} for name in (*FOUR, *SURE)],
    )
    assert abs(means.control_auc - 0.5).max() < 0.03
    for table, error in ((PAPER, 0.05), (COMPUTED, 0.08)):
        for m, row in table.items():
            for name, auc in row.items():
                found = float(means.auc.sel(attack=name, group_size=m))
                assert found == pytest.approx(auc, abs=error), (name, m)
    for name, row in SURE.items():
        for m, auc in row.items():
            assert float(means.auc.sel(attack=name, group_size=m)) == pytest.approx(auc, abs=0.06)


def test_past_groups_tell_little_once_groups_are_large(cabs, tmp_path):
    """NDSS18 Figs 7 and 10, thirty cabs: small groups are told, large and new ones hardly."""
    means = audit(
        cabs,
        tmp_path / "run",
        control=False,
        targets={"tertiles": 10},
        group_sizes=[5, 100],
        periods=[{"name": "third week", "first": 336, "epochs": 168, "observed": [0, 168]}],
        priors=[{"name": "same_groups"}, {"name": "different_groups"}],
        attacks=[{"name": name} for name in ("logistic", "perceptron", "spectral")],
    ).auc
    same, different = (means.isel(prior=i).sel(group_size=5) for i in range(2))
    np.testing.assert_allclose(same, [0.73, 0.72, 0.81], atol=0.06)
    np.testing.assert_allclose(different, [0.72, 0.72, 0.79], atol=0.06)
    same, different = (means.isel(prior=i).sel(group_size=100) for i in range(2))
    np.testing.assert_allclose(same, [0.63, 0.63, 0.66], atol=0.06)
    np.testing.assert_allclose(different, [0.55, 0.52, 0.54], atol=0.06)
