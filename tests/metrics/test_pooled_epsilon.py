"""The bound on ε from many targets: valid where ε is known, equal to the plain one, and useful."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each, mostly_slow
from metrics.known import laplace, randomized_response, reversed_sign
from scipy.stats import binom

from clusterscale.errors import InputError
from clusterscale.metrics import (
    calibrated_counts,
    epsilon_lower_bound,
    largest_bound,
    pooled_epsilon_lower_bound,
)
from clusterscale.metrics import (
    clopper_pearson as rates,
)

REPETITIONS = 500
# A test that is right fails with probability 1e-6 (were its miss rate the whole 1 − confidence).
ERROR_RATE = 1e-6


def counts(mechanisms, n_inside, n_outside, rng):
    """Calibrated counts of one target a mechanism, each on a scale of its own."""
    labels = np.repeat([True, False], [n_inside, n_outside])
    counted = []
    for mechanism in mechanisms:
        scale, place = 10.0 ** rng.uniform(-3, 3, 2)
        counted.append(calibrated_counts(labels, scale * mechanism(labels, rng) + place))
    inside, outside = zip(*counted, strict=True)
    return np.stack(inside), np.stack(outside)


@mostly_slow("confidence", [0.95, 0.5])
@mostly_slow(
    ("mechanisms", "epsilon"),
    [
        pytest.param([randomized_response(1)] * 20, 1.0, id="randomized response"),
        pytest.param([randomized_response(0)] * 20, 0.0, id="coin"),
        pytest.param([laplace(1)] * 20, 1.0, id="Laplace"),
        pytest.param([reversed_sign(laplace(1))] * 20, 1.0, id="Laplace, turned over"),
        pytest.param([randomized_response(0), laplace(1)] * 10, 1.0, id="half of them a coin"),
        pytest.param(
            [randomized_response(0)] * 2 + [randomized_response(1)] * 18, 1.0, id="most leak"
        ),
    ],
)
def test_true_epsilon_is_seldom_passed(mechanisms, epsilon, confidence):
    rng = np.random.default_rng(20180218)
    bounds = [
        pooled_epsilon_lower_bound(*counts(mechanisms, 10, 20, rng), confidence=confidence)
        for _ in range(REPETITIONS)
    ]
    allowed = binom.isf(ERROR_RATE, REPETITIONS, 1 - confidence)
    assert np.sum(np.array(bounds) > epsilon) <= allowed


def test_limits_hold_the_mean_of_unequal_rates():
    """Half of the rows hit almost always, half almost never: their sum is hardly spread at all."""
    rng = np.random.default_rng(6)
    shares = np.repeat([0.02, 0.35, 0.98], 40)
    hits = (rng.random((4000, 120)) < shares).sum(axis=1)
    nothing = np.zeros_like(hits)
    tally = rates.ThresholdCounts(hits, 120, nothing, 120)
    # With none of the other class above, the first statement is the low limit over its high one.
    low = rates.ratios(tally, 0.0, 0.1)[0] * (1 - 0.1 ** (1 / 120))
    assert np.mean(low > shares.mean()) <= 0.1
    assert np.mean(low) == pytest.approx(shares.mean(), abs=0.1)


def test_many_targets_of_randomized_response_come_close():
    rng = np.random.default_rng(7)
    found = counts([randomized_response(1)] * 200, 50, 100, rng)
    assert 0.75 <= pooled_epsilon_lower_bound(*found) <= 1.0


def test_pooling_shows_what_no_target_shows_alone():
    """Each target has 20 rows of a class, which can show 0 at most."""
    rng = np.random.default_rng(8)
    assert largest_bound(10, 10) == 0
    assert pooled_epsilon_lower_bound(*counts([laplace(4)] * 100, 10, 20, rng)) > 1.5


def test_scores_that_point_the_wrong_way_tell_as_much():
    rng = np.random.default_rng(9)
    found = counts([reversed_sign(randomized_response(2))] * 200, 20, 40, rng)
    assert pooled_epsilon_lower_bound(*found) > 1.0


def test_delta_takes_its_part():
    found = counts([randomized_response(2)] * 200, 20, 40, np.random.default_rng(9))
    assert 0 < pooled_epsilon_lower_bound(*found, delta=0.3) < pooled_epsilon_lower_bound(*found)


@for_each("n_pairs", [1, 2, 4])
@for_each("seed", range(20))
@for_each("delta", [0.0, 0.1])
def test_it_is_the_plain_bound_with_targets_for_halves(seed, n_pairs, delta):
    """Rows of the targets that choose, in turn with rows of those that judge.

    Choices that promise the same may be settled otherwise; none of these seeds has such a tie.
    """
    rng = np.random.default_rng(seed)
    n_levels, n_rows = 4, 40
    occupancy_probabilities = rng.dirichlet(np.ones(n_levels), size=2)
    inside, outside = (
        rng.multinomial(n_rows, p, size=2 * n_pairs) for p in occupancy_probabilities
    )
    scores = []
    for side in (inside, outside):
        rows = [np.repeat(-np.arange(n_levels), side[half::2].sum(axis=0)) for half in (0, 1)]
        scores.append(np.stack(rows, axis=1).ravel())
    labels = np.repeat([True, False], 2 * n_pairs * n_rows)
    plain = epsilon_lower_bound(labels, np.concatenate(scores), delta=delta)
    assert pooled_epsilon_lower_bound(inside, outside, delta=delta) == pytest.approx(plain)


@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 20))
def test_more_tries_never_give_more(seed, one, other):
    rng = np.random.default_rng(seed)
    found = counts([randomized_response(3)] * 6, 20, 40, rng)
    few, more = (pooled_epsilon_lower_bound(*found, tries=tries) for tries in sorted([one, other]))
    assert more <= few


def test_a_target_without_rows_is_passed_over():
    inside, outside = counts([randomized_response(3)] * 6, 20, 40, np.random.default_rng(1))
    expected = pooled_epsilon_lower_bound(inside, outside)
    gaps = [6, 6]  # two failed ones at the end keep the others in their halves
    padded = [np.insert(side, gaps, 0, axis=0) for side in (inside, outside)]
    assert expected > 0
    assert pooled_epsilon_lower_bound(*padded) == expected


def test_perfect_counts_reach_the_largest_bound_of_the_judging_rows():
    inside, outside = np.eye(1, 25, 0, dtype=int) * 30, np.eye(1, 25, 24, dtype=int) * 30
    found = pooled_epsilon_lower_bound(np.repeat(inside, 8, 0), np.repeat(outside, 8, 0))
    assert found == pytest.approx(largest_bound(2 * 4 * 30, 2 * 4 * 30))


def test_unlike_proportions_would_pass_for_a_leak_and_are_refused():
    """Nothing leaks, but high targets have more rows inside: the pooled rates differ."""
    inside = np.array([[90, 10], [1, 9]] * 50)
    outside = np.array([[9, 1], [10, 90]] * 50)
    with pytest.raises(InputError) as caught:
        pooled_epsilon_lower_bound(inside, outside)
    assert str(caught.value) == (
        "target 0 has 100 rows with it and 10 without, all targets 5500 and 5500: every target "
        "needs the same proportion, or a common threshold compares different targets"
    )


ONES = np.ones((2, 3), int)


@for_each(
    ("inside", "outside", "options", "message"),
    [
        (
            ONES[:1],
            ONES[:1],
            {},
            "targets 1, 3, 5, … judge: they have 0 rows with the target and 0 without, "
            "and some of each are needed",
        ),
        (
            ONES * [[0], [1]],
            ONES * [[0], [1]],
            {},
            "targets 0, 2, 4, … choose: they have 0 rows with the target and 0 without, "
            "and some of each are needed",
        ),
        (
            ONES,
            ONES * 0,
            {},
            "targets 0, 2, 4, … choose: they have 3 rows with the target and 0 without, "
            "and some of each are needed",
        ),
        (ONES - 2, ONES, {}, "counts must be at least 0, not -1"),
        (ONES, ONES, {"delta": 1.0}, "delta must be at least 0 and below 1, not 1.0"),
        (ONES, ONES, {"tries": 0}, "tries must be a positive integer, not 0"),
        (
            ONES,
            ONES,
            {"confidence": 1.0},
            "confidence must be strictly between 0 and 1, not 1.0",
        ),
    ],
)
def test_nonsense_is_refused(inside, outside, options, message):
    with pytest.raises(InputError) as caught:
        pooled_epsilon_lower_bound(inside, outside, **options)
    assert str(caught.value) == message
