"""Why cabs are exposed: what POMACS20 §3.2 finds of San Francisco comes out again."""

import numpy as np
import pytest
from oracles.pomacs20 import UNIQUE_HOURS
from real.cabs import ingest_cabs
from running import run, traits
from scipy.stats import spearmanr

from clusterscale.analyses.audit import AuditPlan
from clusterscale.runtime import Local

pytest.importorskip("distributed")
pytestmark = [pytest.mark.nightly(group="real"), pytest.mark.dask, pytest.mark.timeout(1800)]

WEEK = 168
ATTACKS = ("spectral", "projection")
ABOUND = ("total_events", "active_epochs", "unicity", "events_per_weekend_day")


@pytest.fixture(scope="module")
def found(real_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cabs")
    cube = ingest_cabs(real_data, str(folder / "cube.zarr"))
    plan = AuditPlan(
        seed=1,
        null_roi=True,
        targets={"tertiles": 50, "unseen": "include"},  # as the paper does
        group_sizes=[100],
        priors=[{"name": "known_subset", "alpha": 0.2}],
        mechanisms=[{"name": "exact"}],
        attacks=[{"name": name} for name in ATTACKS],
        control=False,
    )
    with Local(workers=2).open() as executor:
        run(plan, cube, str(folder / "run"), executor)
        return traits(plan, cube, str(folder / "run"), executor).load()


@pytest.mark.parametrize("attack", ATTACKS)
def test_those_who_contribute_more_are_exposed(found, attack):
    """Events, active and unique hours, ROIs an hour: the paper's first take-aways."""
    case = found.isel(comparison=found.compared_attack.values.tolist().index(attack))
    assert case.n_compared == 15
    assert case.auc_top - case.auc_bottom > 0.2
    assert case.forest_accuracy > 0.85
    for name in ABOUND:
        assert case.separation.sel(characteristic=name) > 0.9, name
        assert case.logistic_coefficient.sel(characteristic=name) > 0, name
    dense = case.sel(characteristic="rois_per_active_epoch")
    assert dense.separation > 0.85
    assert dense.top_mean > 2 * dense.bottom_mean
    # The paper's top feature and the next three; here as much is in what goes along with them.
    weights = case.forest_importance
    entropy = weights.sel(characteristic=["spatial_entropy", "temporal_entropy"]).sum()
    assert entropy < 0.35
    assert weights.sum() == pytest.approx(1)


def test_the_exposed_are_unique_for_most_of_the_week(found):
    """124 ± 6 hours against 38 ± 30; ours stand further apart, for some cabs hardly moved."""
    (high, spread), (low, most) = UNIQUE_HOURS
    case = found.isel(comparison=found.compared_attack.values.tolist().index("projection"))
    case = case.sel(characteristic="unicity")
    assert abs(WEEK * case.top_mean - high) < 2 * spread
    assert WEEK * case.bottom_mean < low + most / 2


def test_attacks_look_where_most_cabs_are(found):
    """Figures 3b to 3d: popular places and times weigh most, and the least exposed have less."""
    loading = found.loading.isel(view=0, roi=slice(0, 100))
    popular = np.outer(found.roi_events[0, :100], found.epoch_events[0])
    assert found.n_viewed.values.tolist() == [[150, 15, 15]]
    for who in ("all", "top"):
        assert spearmanr(loading.sel(who=who).values.ravel(), popular.ravel())[0] > 0.8
    assert loading.sel(who="top").mean() > 1.5 * loading.sel(who="bottom").mean()


def test_the_least_exposed_begin_the_week_and_then_fade(found):
    """Figure 4b: their share of visits on Monday is above a seventh, that of weekends below."""
    # by the attack that is not trained: which 15 cabs are least exposed is then not left to noise
    number = found.compared_attack.values.tolist().index("projection")
    when = found.frequency.isel(comparison=number)
    first, weekend = (when.isel(epoch=part).sum("epoch") for part in (slice(24), slice(120, 168)))
    assert first.sel(who="bottom") > first.sel(who="top")
    assert weekend.sel(who="top") > weekend.sel(who="bottom")
