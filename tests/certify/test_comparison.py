"""Measured ≤ true ≤ certified: chance is not called a fault, and a fault is."""

import numpy as np
import pytest
import scipy

from clusterscale import certify
from clusterscale.certify.comparison import ERROR_RATE, bracket, p_values
from clusterscale.mechanisms import create
from clusterscale.metrics import auc, auc_interval

N_PAIRS = 100


def play(rng, epsilon, n_cells, true_epsilon=None):
    """Return AUC and its interval of the best test of Laplace noise, over new releases."""
    noise = rng.laplace(0, 1 / (true_epsilon or epsilon), (2, N_PAIRS, n_cells))
    noise[1] += 1
    scores = (np.abs(noise) - np.abs(noise - 1)).sum(axis=2)
    labels = np.repeat([False, True], N_PAIRS)
    low, _ = auc_interval(labels, scores.ravel(), scale="odds")
    return auc(labels, scores.ravel()), low


def ceilings(epsilon, cells):
    noisy = create("laplace", epsilon=epsilon, unit="event")
    return np.array([certify.ceiling(noisy, n_changed=n, group_size=9).auc for n in cells])


def test_the_best_attack_exceeds_its_ceiling_no_more_often_than_by_chance():
    """60 people × 20 audits whose attack reaches the ceiling: 0 of 20 are called violated.

    By the rule, one is with a probability of at most 20 × 10⁻³; intervals are above the ceiling in
    2.5 % of 1,200, with a standard deviation of .45 %: at most 4.5 % are allowed.
    """
    rng = np.random.default_rng(11)
    cells = np.tile([1, 3, 8, 20, 40, 80], 10)
    allowed = ceilings(0.3, cells)
    above = 0
    for _ in range(20):
        measured = np.array([play(rng, 0.3, int(n)) for n in cells])
        found = bracket(measured[:, :1], measured[:, 1:], allowed)
        assert not found.is_violated
        assert (found.n_people, found.n_compared) == (60, 60)
        above += found.n_above
    assert above <= 0.045 * 1200


def test_too_little_noise_is_found():
    """Noise of half the stated scale, on 8 cells, for 10 people."""
    rng = np.random.default_rng(12)
    measured = np.array([play(rng, 0.3, 8, true_epsilon=0.6) for _ in range(10)])
    found = bracket(measured[:, :1], measured[:, 1:], ceilings(0.3, [8] * 10))
    assert found.is_violated
    assert found.n_above >= 3
    assert found.reached > 1


def test_p_values_are_those_of_normal_scores():
    high, low = np.array([0.8]), np.array([0.7])
    z = (0.8 - 0.6) / (0.1 / 1.959964)
    odds = (scipy.special.logit(0.8) - scipy.special.logit(0.6)) / (
        (scipy.special.logit(0.8) - scipy.special.logit(0.7)) / 1.959964
    )
    expected = max(scipy.stats.norm.sf(z), scipy.stats.norm.sf(odds))
    assert p_values(high, low, np.array([0.6])) == pytest.approx(expected, rel=1e-5)


def test_all_pairs_in_order_is_a_power_of_the_ceiling():
    low = 0.025 ** (1 / 40)
    assert p_values(np.ones(1), np.array([low]), np.array([0.8])) == pytest.approx(0.8**40)


def test_a_ceiling_of_1_and_unknown_numbers_are_never_violated():
    auc_, low = np.array([1.0, np.nan, 0.7]), np.array([0.97, np.nan, 0.5])
    assert p_values(auc_, low, np.array([1.0, 0.5, 0.7])).tolist() == [1, 1, 1]
    nothing = np.full((2, 1), np.nan)
    assert bracket(nothing, nothing, np.array([0.6, 0.6])) is None
    found = bracket(np.array([[0.6]]), np.array([[0.4]]), np.array([0.5]))
    assert np.isnan(found.reached)
    assert not found.is_violated
    assert ERROR_RATE == 1e-3


def test_a_share_that_intervals_do_not_resolve_is_not_stated():
    wide, ceiling = np.array([[0.62]]), np.array([0.505])
    assert np.isnan(bracket(wide, wide - 0.2, ceiling).reached)
    assert bracket(wide, wide - 0.2, ceiling + 0.3).reached == pytest.approx(0.12 / 0.305)
