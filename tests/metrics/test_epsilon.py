"""The bound on ε: against slow arithmetic, and what rows and their order can change."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from scipy.stats import binomtest, rankdata

from clusterscale.errors import InputError
from clusterscale.metrics import epsilon_lower_bound, largest_bound
from clusterscale.metrics.clopper_pearson import _clopper_pearson

SCORES = st.sampled_from([-np.inf, -2.0, 0.0, 0.1, 0.1 + 1e-12, 3.0, np.inf])
ROWS = st.lists(st.tuples(st.booleans(), SCORES), min_size=4, max_size=40).filter(
    lambda rows: 2 <= sum(label for label, _ in rows) <= len(rows) - 2
)
DELTAS = st.sampled_from([0.0, 0.01, 0.3])
CONFIDENCES = st.sampled_from([0.05, 0.5, 0.95, 0.999])


@cache
def limits(hits, n, confidence):
    found = binomtest(hits, n).proportion_ci(confidence_level=confidence, method="exact")
    return found.low, found.high


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [
        (81, 263, 0.2527, 0.3676),
        (15, 148, 0.0578, 0.1617),
        (0, 20, 0.0, 0.1684),
        (1, 29, 0.0009, 0.1776),
    ],
)
def test_limits_of_rates_are_the_published_ones(hits, n, low, high):
    """Newcombe (Statistics in Medicine 1998), table I, the method of Clopper and Pearson."""
    found = np.ravel(_clopper_pearson(np.array([hits]), n, 0.025))
    np.testing.assert_allclose(found, [low, high], atol=5e-5)


def ratio(inside, outside, says_inside, hears_inside, delta, confidence):
    """(TPR − δ)/FPR, or (TNR − δ)/FNR, of the test that answers *inside* on ``says_inside``."""
    right, wrong = (inside, outside) if hears_inside else (outside, inside)
    calls = says_inside if hears_inside else lambda score: not says_inside(score)
    low, _ = limits(sum(map(calls, right)), len(right), confidence)
    _, high = limits(sum(map(calls, wrong)), len(wrong), confidence)
    return (low - delta) / high


def slow_bounds(labels, scores, delta, confidence):
    """Every bound that a best choice on the first half may lead to: more than one, if tied."""
    halves = [[scores[labels == inside][half::2] for inside in (True, False)] for half in (0, 1)]
    cuts = sorted({*halves[0][0], *halves[0][1]})[1:]
    sides = [lambda s, t: s >= t, lambda s, t: s < t]

    def promise(half, choice, confidence):
        cut, side, hears = choice
        return ratio(*halves[half], lambda s: side(s, cut), hears, delta, confidence)

    wary = 1 - (1 - confidence) / 10
    promised = {choice: promise(0, choice, wary) for choice in product(cuts, sides, (True, False))}
    best = max(promised.values(), default=0)
    tied = [choice for choice, value in promised.items() if value >= best - 1e-9]
    return [np.log(max(1, promise(1, choice, confidence))) for choice in tied] or [0.0]


def columns(rows):
    labels, scores = zip(*rows, strict=True)
    return np.array(labels), np.array(scores)


@given(ROWS, DELTAS, CONFIDENCES)
def test_bound_is_that_of_slow_arithmetic(rows, delta, confidence):
    labels, scores = columns(rows)
    bound = epsilon_lower_bound(labels, scores, delta=delta, confidence=confidence)
    slow = np.array(slow_bounds(labels, scores, delta, confidence))
    assert np.abs(bound - slow).min() < 1e-7


@given(st.data(), st.integers(1, 300), st.integers(1, 300), CONFIDENCES, DELTAS)
def test_limits_are_the_exact_binomial_ones(data, n_in, n_out, confidence, delta):
    """Each row twice makes the halves equal, and there is one threshold: four known ratios."""
    inside = np.arange(n_in) < data.draw(st.integers(0, n_in))
    outside = np.arange(n_out) < data.draw(st.integers(0, n_out))
    labels = np.repeat([True, False], [2 * n_in, 2 * n_out])
    scores = np.repeat(np.concatenate([inside, outside]), 2)
    bound = epsilon_lower_bound(labels, scores, delta=delta, confidence=confidence)
    slow = np.array(slow_bounds(labels, scores, delta, confidence))
    assert np.abs(bound - slow).min() < 1e-6


@given(ROWS, DELTAS, CONFIDENCES)
def test_only_the_order_of_scores_counts(rows, delta, confidence):
    labels, scores = columns(rows)
    options = {"delta": delta, "confidence": confidence}
    ranks = rankdata(scores, method="dense")
    assert epsilon_lower_bound(labels, ranks, **options) == epsilon_lower_bound(
        labels, scores, **options
    )


@given(ROWS)
def test_halves_are_taken_class_by_class_in_the_given_order(rows):
    labels, scores = columns(rows)
    by_class = np.argsort(~labels, kind="stable")
    bound = epsilon_lower_bound(labels, scores)
    assert bound == epsilon_lower_bound(labels, scores)
    assert bound == epsilon_lower_bound(labels[by_class], scores[by_class])


@given(ROWS, CONFIDENCES)
def test_no_sample_shows_more_than_its_size_allows(rows, confidence):
    labels, scores = columns(rows)
    bound = epsilon_lower_bound(labels, scores, confidence=confidence)
    assert 0 <= bound <= largest_bound(labels.sum(), (~labels).sum(), confidence=confidence) + 1e-9


def test_perfect_scores_reach_the_cap_and_equal_scores_show_nothing():
    labels = np.arange(4000) % 2 == 0
    perfect = np.where(labels, np.inf, -np.inf)
    limit = 0.025 ** (1 / 1000)
    assert epsilon_lower_bound(labels, perfect) == pytest.approx(np.log(limit / (1 - limit)))
    assert epsilon_lower_bound(labels, np.zeros(4000)) == 0


def test_a_real_threshold_is_chosen_even_when_none_promises_anything():
    """Rows 0, 2, … of each class are alike; rows 1, 3, … are told apart."""
    labels = np.repeat([True, False], 40)
    chooses = np.arange(80) % 2 == 0
    scores = np.where(chooses, np.arange(80) // 2 % 2, labels)
    assert epsilon_lower_bound(labels, scores, confidence=0.5) > 2


TRUE_FALSE = [True, False, True, False]


@for_each(
    ("labels", "scores", "options", "message"),
    [
        ([1, 0], [1.0, 2.0], {}, "labels are int64, not bool (True = target inside)"),
        (TRUE_FALSE, [1.0], {}, "labels (4,) and scores (1,) must be one row each"),
        (
            [True] * 4,
            [1.0] * 4,
            {},
            "both classes are needed: some groups with the target, some without",
        ),
        (TRUE_FALSE, [np.nan, 1.0, np.nan, 2.0], {}, "2 scores are NaN"),
        (
            [True, False, False],
            [1.0, 2.0, 3.0],
            {},
            "1 with the target and 2 without: each class needs 2 rows, "
            "one to choose and one to judge",
        ),
        (TRUE_FALSE, [1.0] * 4, {"delta": 1.0}, "delta must be at least 0 and below 1, not 1.0"),
        (TRUE_FALSE, [1.0] * 4, {"delta": -0.1}, "delta must be at least 0 and below 1, not -0.1"),
        (TRUE_FALSE, [1.0] * 4, {"delta": np.nan}, "delta must be at least 0 and below 1, not nan"),
        (
            TRUE_FALSE,
            [1.0] * 4,
            {"confidence": 1.0},
            "confidence must be strictly between 0 and 1, not 1.0",
        ),
        (
            TRUE_FALSE,
            [1.0] * 4,
            {"confidence": 0.0},
            "confidence must be strictly between 0 and 1, not 0.0",
        ),
        (
            TRUE_FALSE,
            [1.0] * 4,
            {"confidence": np.nan},
            "confidence must be strictly between 0 and 1, not nan",
        ),
    ],
)
def test_nonsense_is_refused(labels, scores, options, message):
    with pytest.raises(InputError) as caught:
        epsilon_lower_bound(labels, scores, **options)
    assert str(caught.value) == message
