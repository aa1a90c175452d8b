"""Lower limit ≤ true ≤ certified: chance is not called a fault, and a fault is."""

import numpy as np
import pytest

from clusterscale.analyses import certify
from clusterscale.analyses.certify.comparison import ERROR_RATE, bracket, lower_limits
from clusterscale.mechanisms import create
from clusterscale.metrics import auc

N_PAIRS = 100


def play(rng, epsilon, n_cells, true_epsilon=None):
    """Return the AUC of the best test of Laplace noise, over new releases."""
    noise = rng.laplace(0, 1 / (true_epsilon or epsilon), (2, N_PAIRS, n_cells))
    noise[1] += 1
    scores = (np.abs(noise) - np.abs(noise - 1)).sum(axis=2)
    return auc(np.repeat([False, True], N_PAIRS), scores.ravel())


def ceilings(epsilon, cells):
    noisy = create("laplace", epsilon=epsilon, unit="event")
    return np.array([certify.ceiling(noisy, n_changed=n, group_size=9).auc for n in cells])


def compare(measured, allowed, n_pairs=N_PAIRS, **options):
    measured = np.reshape(measured, (len(allowed), -1))
    return bracket(measured, np.full(measured.shape, n_pairs), np.array(allowed), **options)


def test_the_best_attack_exceeds_its_ceiling_no_more_often_than_by_chance():
    """60 people × 20 audits whose attack reaches the ceiling: 0 of 20 are called violated.

    By the rule, one is with a probability of at most 20 × 10⁻³. No limit is above a true AUC,
    which is at most the ceiling, and the mean of 60 people is known well.
    """
    rng = np.random.default_rng(11)
    cells = np.tile([1, 3, 8, 20, 40, 80], 10)
    allowed = ceilings(0.3, cells)
    for _ in range(20):
        found = compare([play(rng, 0.3, int(n)) for n in cells], allowed)
        assert not found.is_violated
        assert found.n_people == 60
        assert 0.5 <= found.low < found.certified
        assert allowed.mean() - 0.06 < found.mean_low < found.mean_certified


def test_too_little_noise_is_found():
    """Noise of half the stated scale, on 8 cells, for 10 people."""
    rng = np.random.default_rng(12)
    measured = [play(rng, 0.3, 8, true_epsilon=0.6) for _ in range(10)]
    found = compare(measured, ceilings(0.3, [8] * 10))
    assert found.is_violated
    assert found.mean_low > found.mean_certified
    alone = compare(measured, ceilings(0.3, [8] * 10), has_own_challenges=False)
    assert np.isnan(alone.mean_low), "the same challenges are no further evidence"


def test_the_limits_are_above_ceilings_exactly_if_chance_does_not_explain_it():
    for measured in np.linspace(0.6, 1, 81):
        found = compare([measured, 0.5], [0.65, 0.65])
        above = found.low > found.certified, found.mean_low > found.mean_certified
        assert found.is_violated == any(above), measured


def test_a_ceiling_of_1_and_unknown_numbers_are_never_violated():
    assert not compare([1.0, np.nan, 0.7], [1.0, 0.5, 0.7]).is_violated
    assert compare([np.nan, np.nan], [0.6, 0.6]) is None
    found = compare([0.6], [0.5])
    assert not found.is_violated
    assert (found.low, found.certified) == (0.5, 0.5)
    assert ERROR_RATE == 1e-3


def test_interim_looks_and_people_count_against_a_measured_auc():
    assert compare([0.9], [0.7]).smallest_p * 4 == pytest.approx(
        compare([0.9], [0.7], looks=4).smallest_p
    )
    many = np.array([0.8, *[0.5] * 99])
    assert compare(many, [0.7] * 100).low < compare(many[:1], [0.7]).low
    assert lower_limits(np.array([0.8]), np.array([100]), 1) > 0.6


def test_the_largest_of_many_aucs_is_not_shown_beside_its_ceiling():
    """Guessing attacks on 200 people: the best measured AUC is above the ceiling, the limit not."""
    rng = np.random.default_rng(13)
    measured = [auc(np.arange(60) % 2 == 0, rng.random(60)) for _ in range(200)]
    found = compare(measured, [0.6] * 200, n_pairs=30)
    assert max(measured) > 0.66
    assert found.low == 0.5
    assert 0.5 <= found.mean_low < 0.52
