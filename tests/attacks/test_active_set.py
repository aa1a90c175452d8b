"""The minimum of a quadratic model and the penalty is where no weight can better it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each

from clusterscale.attacks.lasso import minimise


def model(seed, n, rank=None, scale=1.0):
    """Draw a positive definite Hessian, near singular where ``rank`` is low, and a gradient."""
    rng = np.random.default_rng(seed)
    rooted = rng.normal(size=(n, rank or 2 * n)) * rng.gamma(1.0, scale, size=(n, 1))
    hessian = rooted @ rooted.T
    hessian.flat[:: n + 1] *= 1 + 1e-11
    return hessian, rng.normal(scale=1.5 * scale, size=n)


def violation(hessian, gradient, start, weights):
    """Sum up how far 0 is from the subdifferential in each weight."""
    slopes = gradient + hessian @ (weights - start)
    low, high = slopes + np.where(weights > 0, 1, -1), slopes + np.where(weights < 0, -1, 1)
    return np.maximum(np.maximum(low, -high), 0).sum()


def value(hessian, gradient, start, weights):
    change = weights - start
    return gradient @ change + change @ hessian @ change / 2 + np.abs(weights).sum()


def descend(hessian, gradient, start, n=20_000):
    """Minimise along one coordinate after the other: slow, and sure."""
    weights = start.copy()
    for _ in range(n):
        before = weights.copy()
        for j in range(len(start)):
            slope = gradient[j] + hessian[j] @ (weights - start) - hessian[j, j] * weights[j]
            weights[j] = -np.sign(slope) * max(abs(slope) - 1, 0) / hessian[j, j]
        if np.abs(weights - before).max() < 1e-14:
            break
    return weights


@for_each("seed", range(10))
@for_each("n", [1, 2, 5, 20])
def test_weights_are_those_of_coordinate_descent(seed, n):
    hessian, gradient = model(seed, n)
    start = np.where(np.arange(n) % 3 == 1, gradient / 10, 0)
    found = minimise(hessian, gradient, start, 1e-9)
    np.testing.assert_allclose(found, descend(hessian, gradient, start), rtol=1e-6, atol=1e-8)


@given(
    st.integers(0, 10**6),
    st.integers(1, 30),
    st.one_of(st.none(), st.integers(1, 5)),
    st.sampled_from([1e-3, 1.0, 100.0]),
    st.sampled_from([1e-2, 1e-6]),
)
def test_no_weight_can_better_it(seed, n, rank, scale, goal):
    """Up to the goal, where it can be reached: of duplicates, with rounding in the way."""
    hessian, gradient = model(seed, n, rank, scale)
    if rank is not None:  # as duplicated features leave it: no way leads down for ever
        gradient = hessian @ np.random.default_rng(seed).normal(size=n)
    start = np.zeros(n)
    found = minimise(hessian, gradient, start, goal)
    assert violation(hessian, gradient, start, found) <= goal + 1e-7 * np.abs(gradient).sum()
    assert value(hessian, gradient, start, found) <= 0


def test_what_is_best_already_stays_as_it_is():
    hessian, gradient = model(1, 20)
    best = minimise(hessian, gradient, np.zeros(20), 1e-12)
    assert 0 < np.count_nonzero(best) < 20
    again = minimise(hessian, gradient + hessian @ best, best, 1e-6)
    np.testing.assert_array_equal(again, best)


def test_nothing_is_used_where_all_slopes_are_below_the_penalty():
    hessian, gradient = model(2, 6)
    start = np.zeros(6)
    found = minimise(hessian, 0.99 * gradient / np.abs(gradient).max(), start, 1e-9)
    np.testing.assert_array_equal(found, start)


def test_weights_change_sign_and_drop_out_on_the_way():
    """From a start on the wrong side of 0 in every weight."""
    hessian, gradient = model(3, 12)
    best = minimise(hessian, gradient, np.zeros(12), 1e-12)
    start = np.where(best != 0, -best, 1.0)
    found = minimise(hessian, gradient + hessian @ start, start, 1e-10)
    np.testing.assert_allclose(found, best, rtol=1e-6, atol=1e-8)


def test_what_is_given_is_left_alone():
    hessian, gradient = model(4, 7)
    given_ones = (hessian, gradient, np.zeros(7))
    before = [each.copy() for each in given_ones]
    assert np.count_nonzero(minimise(*given_ones, 1e-9))
    for each, kept in zip(given_ones, before, strict=True):
        np.testing.assert_array_equal(each, kept)
