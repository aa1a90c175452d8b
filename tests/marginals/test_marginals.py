"""Marginals estimated from releases: by hand on four users, and the paper's theorem as a law."""

import numpy as np
import pytest
from conftest import write_cube
from loops import for_each

from clusterscale.analyses.marginals import MarginalsAnalysis, MarginalsPlan
from clusterscale.errors import ConfigError
from clusterscale.runtime import SerialExecutor
from clusterscale.study import run

FLAT = np.array([[1, 1, 1, 0], [1, 0, 0, 1], [1, 0, 0, 1], [1, 0, 0, 0]], bool)
"""Four users with 3, 2, 2 and 1 visits; counts are [[4, 1], [1, 2]]."""


def measured(place, dense, **fields):
    plan = MarginalsPlan.model_validate(fields)
    cube = write_cube(f"{place}/cube.zarr", dense)
    return run(MarginalsAnalysis(plan), cube, f"{place}/run", SerialExecutor()).load()


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory):
    """All four users, raw and with counts of 1 suppressed."""
    found = measured(
        tmp_path_factory.mktemp("marginals"),
        FLAT.reshape(4, 2, 2),
        periods=[{"name": "all", "epochs": 2}],
        group_sizes=[4],
        mechanisms=[{"name": "exact"}, {"name": "suppress_small", "up_to": 1}],
        groups=1,
    )
    return found.squeeze(["period", "group_size", "group"])


def test_distances_by_hand(by_hand):
    """True shares are 5/8 and 3/8; those of suppressed counts 2/3 and 1/3, of logs 3 and 2."""
    logs = np.log(3) / np.log(6)
    exponentials = np.expm1(2 / 3) / (np.expm1(2 / 3) + np.expm1(1 / 3))
    first = np.array([5 / 8, 2 / 3, logs, exponentials])
    hidden = by_hand.isel(mechanism=1, estimate=slice(4))
    for marginal in ("space", "time"):
        each = hidden.sel(marginal=marginal)
        np.testing.assert_allclose(each.distance, np.abs(first - 5 / 8), atol=1e-6)
        np.testing.assert_allclose(each.unevenness, first - 1 / 2, atol=1e-6)
    for shares in (hidden.space_share, hidden.time_share):
        np.testing.assert_allclose(shares, np.stack([first, 1 - first], axis=1), atol=1e-6)
    raw = by_hand.isel(mechanism=0).distance.sel(estimate=["true", "uncorrected", "corrected"])
    np.testing.assert_allclose(raw, 0, atol=1e-7)


def test_visits_by_hand(by_hand):
    """A mean of 2 visits; a constant 2 is a quarter off at 1 and at 2 visits."""
    raw, hidden = (by_hand.isel(mechanism=i) for i in range(2))
    assert raw.mean_visits.values[:4].tolist() == [2, 2, 2, 2]
    assert raw.mean_visits.sel(estimate="matched") == pytest.approx(2, rel=0.1)
    assert hidden.mean_visits.sel(estimate=["true", "uncorrected"]).values.tolist() == [2, 1.5]
    assert raw.activity_distance.sel(law=["true", "constant"]).values.tolist() == [0, 0.25]
    shares = raw.activity_share.sel(n_visits=[1, 2, 3])
    assert shares.sel(law="true").values.tolist() == [0.25, 0.75, 1]
    assert shares.sel(law="constant").values.tolist() == [0, 1, 1]
    at_most_two = -np.expm1(-2.5 / 2)  # of an exponential number, rounded
    assert shares.sel(law="exponential", n_visits=2) == pytest.approx(at_most_two, abs=0.02)


def test_marginals_tend_to_equal_shares_under_noise(tmp_path):
    """Theorem A.2, and how fast.

    A value is Laplace noise where that is positive: mean b / 2, variance 3 b² / 4. A share of S, of
    T values each, is thus off by √(3 / T) of itself in the standard deviation, and the sum of
    deviations of a normal variable is √(2 / π) of that. Noise rarely reaches the group size, to
    which values are clipped. Distances are means over 20 groups and at
    least 24 shares, so their error is below .034, and beyond 4.5 of it in 1 of 10^5 runs.
    """
    n_rois, lengths = 24, (24, 96, 384)
    dense = np.zeros((12, n_rois, lengths[-1]), bool)
    dense[np.arange(3), np.arange(3), np.arange(3)] = True  # sparse, as the theorem assumes
    found = measured(
        tmp_path,
        dense,
        periods=[{"name": f"{n}", "epochs": n} for n in lengths],
        group_sizes=[10],
        mechanisms=[{"name": "laplace", "epsilon": 1.0, "unit": "event", "clip": True}],
        groups=20,
    )
    far = found.unevenness.sel(estimate="uncorrected").mean(["group", "mechanism"]).squeeze()
    factor = np.sqrt(3) * np.sqrt(2 / np.pi) / 2
    for marginal, n_values, n_shares in (
        ("space", lengths, (n_rois,) * 3),
        ("time", (n_rois,) * 3, lengths),
    ):
        expected = factor * np.sqrt((1 - 1 / np.array(n_shares)) / np.array(n_values))
        np.testing.assert_allclose(far.sel(marginal=marginal), expected, rtol=4.5 * 0.034)


GOOD = {
    "periods": [{"name": "day", "epochs": 24}],
    "group_sizes": [5],
    "mechanisms": [{"name": "exact"}],
}


@for_each(
    ("fields", "message"),
    [
        ({"group_sizes": [5, 100]}, r"marginals.group_sizes.1: 100 members, .* 60 users"),
        ({"periods": [{"name": "week"}]}, r"marginals.periods.0: .* 47, the last"),
        (
            {"mechanisms": [{"name": "coarsen_time", "factor": 2}]},
            r"marginals.mechanisms.0: .* without trace steps",
        ),
    ],
)
def test_what_a_cube_cannot_answer(cube, fields, message):
    MarginalsAnalysis(MarginalsPlan.model_validate(GOOD)).check(cube, 0)
    with pytest.raises(ConfigError, match=message):
        MarginalsAnalysis(MarginalsPlan.model_validate({**GOOD, **fields})).check(cube, 0)
