"""The bound on ε against mechanisms whose ε is known: seldom above it, and close to it."""

import numpy as np
import pytest
from loops import mostly_slow
from metrics.known import (
    coin,
    gaussian,
    gaussian_delta,
    laplace,
    randomized_response,
    reversed_sign,
)
from scipy.stats import binom

from clusterscale.metrics import clopper_pearson as rates
from clusterscale.metrics import epsilon_lower_bound

REPETITIONS = 400
# A test that is right fails with probability 1e-6 (were its miss rate the whole 1 − confidence).
ERROR_RATE = 1e-6


@mostly_slow("confidence", [0.95, 0.5])
@mostly_slow(
    ("mechanism", "epsilon", "delta"),
    [
        pytest.param(coin, 0.0, 0.0, id="coin"),
        pytest.param(randomized_response(0.1), 0.1, 0.0, id="randomized response, epsilon .1"),
        pytest.param(randomized_response(1), 1.0, 0.0, id="randomized response, epsilon 1"),
        pytest.param(laplace(1), 1.0, 0.0, id="Laplace, epsilon 1"),
        pytest.param(reversed_sign(laplace(3)), 3.0, 0.0, id="Laplace, epsilon 3, turned over"),
        pytest.param(gaussian(1), 0.5, gaussian_delta(0.5, 1), id="Gaussian, epsilon .5"),
        pytest.param(gaussian(1), 1.0, gaussian_delta(1, 1), id="Gaussian, epsilon 1"),
    ],
    n_quick=2,
)
def test_true_epsilon_is_seldom_passed(mechanism, epsilon, delta, confidence):
    rng = np.random.default_rng(20180218)
    labels = np.arange(200) % 2 == 0
    bounds = [
        epsilon_lower_bound(labels, mechanism(labels, rng), delta=delta, confidence=confidence)
        for _ in range(REPETITIONS)
    ]
    allowed = binom.isf(ERROR_RATE, REPETITIONS, 1 - confidence)
    assert np.sum(np.array(bounds) > epsilon) <= allowed


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "delta", "share"),
    [
        pytest.param(randomized_response(1), 1.0, 0.0, 0.85, id="randomized response"),
        pytest.param(reversed_sign(randomized_response(1)), 1.0, 0.0, 0.85, id="turned over"),
        pytest.param(laplace(1), 1.0, 0.0, 0.8, id="Laplace"),
        pytest.param(gaussian(1), 1.0, gaussian_delta(1, 1), 0.75, id="Gaussian"),
    ],
)
def test_many_rows_come_close_in_any_order(mechanism, epsilon, delta, share):
    rng = np.random.default_rng(7)
    labels = np.arange(20_000) % 2 == 0
    scores = mechanism(labels, rng)
    bounds = []
    for _ in range(9):
        order = rng.permutation(labels.size)
        bounds.append(epsilon_lower_bound(labels[order], scores[order], delta=delta))
    assert share * epsilon <= np.median(bounds) <= epsilon


def test_randomized_response_gives_four_fifths_of_its_epsilon_in_each_run():
    rng = np.random.default_rng(11)
    labels = np.arange(20_000) % 2 == 0
    runs = [epsilon_lower_bound(labels, randomized_response(1)(labels, rng)) for _ in range(20)]
    assert min(runs) >= 0.8


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("leaks", [True, False])
def test_an_atom_without_noise_is_found(side, leaks):
    """One answer in five comes out as it is, for one of the two worlds only."""
    rng = np.random.default_rng(3)
    labels = np.arange(4000) % 2 == 0
    scores = laplace(1)(labels, rng)
    scores[(labels == leaks) & (rng.random(4000) < 0.2)] = side * np.inf
    assert epsilon_lower_bound(labels, scores) > 3.5
    assert epsilon_lower_bound(labels, scores, delta=0.2) < 1.2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "delta"),
    [
        pytest.param(laplace(1), 0.0, id="Laplace"),
        pytest.param(gaussian(1), gaussian_delta(1, 1), id="Gaussian"),
    ],
)
def test_a_wary_choice_finds_no_less_on_average(mechanism, delta, monkeypatch):
    """Both choices judge the same runs; the mean difference may be 2 of its errors below 0."""
    rng = np.random.default_rng(23)
    labels = np.arange(10_000) % 2 == 0
    runs = [mechanism(labels, rng) for _ in range(40)]
    wary = [epsilon_lower_bound(labels, scores, delta=delta) for scores in runs]
    monkeypatch.setattr(rates, "CAUTION", 1.0)
    greedy = [epsilon_lower_bound(labels, scores, delta=delta) for scores in runs]
    gained = np.subtract(wary, greedy)
    assert gained.mean() >= -2 * gained.std(ddof=1) / len(runs) ** 0.5
    assert np.std(wary) <= np.std(greedy)
