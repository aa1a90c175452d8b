"""Bounds on AUCs that hold for every law of scores."""

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.metrics import auc, auc_lower_limit, auc_tail


def test_the_tail_is_between_the_binomial_one_and_e_times_it():
    for n, limit in ((10, 0.5), (100, 0.7), (400, 0.95)):
        hits = np.arange(np.ceil(n * limit) + 1, n + 1)
        exact = scipy.stats.binom.sf(hits - 1, n, limit)
        found = auc_tail(hits / n, n, limit)
        assert (found >= exact).all()
        assert (found <= np.e * exact * 1.001).all()


def test_all_pairs_in_order_is_a_power_of_the_limit():
    assert auc_tail(1.0, 20, 0.8) == pytest.approx(0.8**20, rel=1e-4)
    assert auc_tail([0.5, np.nan, 0.8], 20, 0.8).tolist() == [1, 1, 1]


def test_the_tail_is_the_least_bound_of_all_by_a_shifted_mean():
    n, u, limit = 30, 0.8, 0.6
    law = scipy.stats.binom(n, limit).pmf(np.arange(n + 1))
    bounds = [
        law @ np.maximum(np.arange(n + 1) - a, 0) / (n * u - a) for a in np.linspace(0, 23.9, 2391)
    ]
    assert auc_tail(u, n, limit) == pytest.approx(min(bounds), rel=1e-3)


@given(st.floats(0.05, 1), st.integers(1, 200), st.floats(1e-6, 0.05))
def test_the_lower_limit_inverts_the_tail(area, n, risk):
    low = auc_lower_limit(area, n, risk)
    assert 0 <= low <= area
    assert auc_tail(area, n, low - 1e-5) < risk or low < 1e-5
    assert auc_tail(area, n, low + 1e-5) >= risk


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_no_more_false_alarms_than_stated_for_rare_certain_scores(share):
    """A release shows the target for sure with a small probability: 5 % level, 20,000 audits.

    The AUC is ½ and half the share of shown targets, a binomial number.
    """
    rng, n = np.random.default_rng(3), 40
    shown = rng.binomial(n, share, 20_000)
    one = np.repeat([0.0, 1.0, 0.0], [n, shown[0], n - shown[0]])
    assert auc(np.arange(2 * n) >= n, one) == pytest.approx(0.5 + shown[0] / n / 2)
    p = auc_tail(0.5 + shown / n / 2, n, 0.5 + share / 2)
    assert (p < 0.05).mean() < 0.05
