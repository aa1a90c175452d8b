"""The interval of an AUC: against all pairs, published numbers, and how often it holds."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each, mostly_slow
from scipy.stats import norm

from clusterscale.errors import InputError
from clusterscale.metrics import auc, auc_interval
from clusterscale.metrics.intervals import delong

SCORES = st.sampled_from([-np.inf, -1.5, 0.0, 0.1, 0.1 + 1e-12, 7.0, np.inf])
ROWS = st.lists(st.tuples(st.booleans(), SCORES), min_size=2, max_size=40).filter(
    lambda rows: 0 < sum(label for label, _ in rows) < len(rows)
)


def columns(rows):
    labels, scores = zip(*rows, strict=True)
    return np.array(labels), np.array(scores)


def slow_variance(labels, scores):
    """DeLong's estimate with every pair compared."""
    won = np.array(
        [
            [1.0 if high > low else 0.5 if high == low else 0.0 for low in scores[~labels]]
            for high in scores[labels]
        ]
    )
    by_inside, by_outside = won.mean(axis=1), won.mean(axis=0)
    return np.var(by_inside, ddof=1) / by_inside.size + np.var(by_outside, ddof=1) / by_outside.size


@given(ROWS)
def test_the_variance_is_that_of_all_pairs(rows):
    labels, scores = columns(rows)
    _, found, _ = delong(labels, scores)
    if min(labels.sum(), (~labels).sum()) == 1:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(slow_variance(labels, scores), abs=1e-12)


def test_published_numbers_of_the_computed_tomography_ratings():
    """109 images rated 1 to 5 (Hanley and McNeil 1982, table I).

    Stata's manual, [R] roctab, works the example: area .8932, standard error .0307 after DeLong,
    95 % interval .83295 to .95339.
    """
    normal, abnormal = [33, 6, 6, 11, 2], [3, 2, 2, 11, 33]
    labels = np.repeat([False, True], [58, 51])
    scores = np.concatenate([np.repeat(np.arange(1, 6), counts) for counts in (normal, abnormal)])
    assert round(auc(labels, scores), 4) == 0.8932
    assert round(delong(labels, scores)[1] ** 0.5, 4) == 0.0307
    low, high = auc_interval(labels, scores)
    assert (round(low, 5), round(high, 5)) == (0.83295, 0.95339)


@given(ROWS, st.sampled_from([0.05, 0.5, 0.95, 0.9999]))
def test_the_interval_is_in_range_and_holds_the_sample_s_own_area(rows, confidence):
    labels, scores = columns(rows)
    low, high = auc_interval(labels, scores, confidence=confidence)
    area = auc(labels, scores)
    assert 0 <= low <= area + 1e-12
    assert area - 1e-12 <= high <= 1


@given(ROWS, st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_more_confidence_takes_a_wider_interval(rows, one, other):
    labels, scores = columns(rows)
    inner, outer = (auc_interval(labels, scores, confidence=c) for c in sorted([one, other]))
    assert outer[0] <= inner[0] + 1e-12
    assert inner[1] <= outer[1] + 1e-12


@given(ROWS)
def test_the_interval_turns_over_with_labels_and_with_scores(rows):
    labels, scores = columns(rows)
    low, high = auc_interval(labels, scores)
    for turned in (auc_interval(~labels, scores), auc_interval(labels, -scores)):
        assert turned == pytest.approx((1 - high, 1 - low), abs=1e-12)


@given(ROWS, st.randoms())
def test_only_the_order_of_scores_counts_not_that_of_rows(rows, random):
    labels, scores = columns(rows)
    expected = auc_interval(labels, scores)
    order = random.sample(range(len(rows)), len(rows))
    _, ranks = np.unique(scores, return_inverse=True)
    assert auc_interval(labels[order], ranks[order]) == pytest.approx(expected, abs=1e-12)


@for_each(("n_inside", "n_outside"), [(1, 1), (1, 9), (2, 2), (10, 4), (50, 50)])
@for_each("confidence", [0.5, 0.95])
def test_without_variance_the_interval_is_exact(n_inside, n_outside, confidence):
    labels = np.repeat([True, False], [n_inside, n_outside])
    sure = ((1 - confidence) / 2) ** (1 / min(n_inside, n_outside))
    expected = {1: (sure, 1.0), -1: (0.0, 1 - sure), 0: (sure / 2, 1 - sure / 2)}
    for sign, interval in expected.items():
        found = auc_interval(labels, sign * labels, confidence=confidence)
        assert found == pytest.approx(interval, abs=1e-12)


def test_a_class_of_one_row_gives_an_interval_that_is_wide_but_holds():
    labels = np.arange(5) == 0
    assert auc_interval(labels, [2, 3, 1, 0, 0]) == pytest.approx((0.75 * 0.025, 1 - 0.25 * 0.025))


OUTCOMES = [0, 1, 2]
LAWS = [(0.98, 0.01, 0.01), (0.02, 0.0, 0.98), (0.5, 0.5, 0.0), (0.1, 0.8, 0.1)]


@for_each(("inside", "outside"), list(product(LAWS, LAWS)))
@for_each("confidence", [0.5, 0.9])
@for_each("n_outside", [1, 3])
def test_a_class_of_one_row_by_listing_every_sample(inside, outside, confidence, n_outside):
    """No sampling error: the chance that the interval misses is summed up, and is never more."""
    truth = sum(
        p * q * (1.0 if i > o else 0.5 if i == o else 0.0)
        for (i, p), (o, q) in product(enumerate(inside), enumerate(outside))
    )
    labels = np.arange(1 + n_outside) == 0
    missed = 0.0
    for scores in product(OUTCOMES, repeat=1 + n_outside):
        chance = inside[scores[0]] * np.prod([outside[o] for o in scores[1:]])
        low, high = auc_interval(labels, scores, confidence=confidence)
        missed += chance * (not low - 1e-12 <= truth <= high + 1e-12)
    assert missed <= 1 - confidence + 1e-12


def coverage(n_each, area, repetitions, seed, scale="plain"):
    """Share of intervals that hold the AUC of two normal distributions."""
    rng = np.random.default_rng(seed)
    labels = np.arange(2 * n_each) % 2 == 0
    shift = norm.ppf(area) * 2**0.5 * labels
    held = 0
    for _ in range(repetitions):
        low, high = auc_interval(labels, rng.normal(size=labels.size) + shift, scale=scale)
        held += low <= area <= high
    return held / repetitions


@mostly_slow("n_each", [25, 50, 100])
@mostly_slow("area", [0.5, 0.7, 0.9, 0.95, 0.99])
def test_on_the_scale_of_odds_it_keeps_its_word_up_to_one(n_each, area):
    """93 to 97 %, give or take 2.5 standard errors of 1,500 repetitions (.55 percentage points)."""
    held = coverage(n_each, area, 1500, seed=n_each, scale="odds")
    assert 0.93 - 0.014 <= held <= 0.97 + 0.014


@given(st.integers(0, 2**32))
def test_both_scales_agree_on_the_middle_and_on_what_is_certain(seed):
    rng = np.random.default_rng(seed)
    labels, scores = np.arange(24) % 2 == 0, rng.integers(0, 6, 24)
    area = auc(labels, scores)
    low, high = auc_interval(labels, scores, scale="odds")
    assert 0 <= low <= area <= high <= 1
    if 0 < area < 1 and delong(labels, scores)[1] > 0:
        odds = [np.log(x / (1 - x)) for x in (low, area, high)]
        assert odds[1] - odds[0] == pytest.approx(odds[2] - odds[1])
    else:
        assert (low, high) == auc_interval(labels, scores)


@mostly_slow(("n_each", "area"), [(50, 0.5), (50, 0.7), (100, 0.5), (100, 0.7), (100, 0.9)])
def test_the_interval_holds_the_truth_as_often_as_it_says(n_each, area):
    """2,000 repetitions have a standard error of half a percentage point."""
    assert 0.93 <= coverage(n_each, area, 2000, seed=20180218) <= 0.97


@mostly_slow(
    ("n_each", "area", "documented"), [(50, 0.9, 0.92), (50, 0.95, 0.90), (50, 0.99, 0.82)]
)
def test_the_interval_falls_short_near_one_by_as_much_as_is_documented(n_each, area, documented):
    """3 standard errors of 1,000 repetitions, and the rounding of the figure."""
    error = (documented * (1 - documented) / 1000) ** 0.5
    assert coverage(n_each, area, 1000, seed=1) == pytest.approx(documented, abs=3 * error + 0.005)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, np.nan])
def test_no_confidence_is_refused(confidence):
    with pytest.raises(InputError) as caught:
        auc_interval([True, False], [1.0, 0.0], confidence=confidence)
    assert str(caught.value) == f"confidence must be strictly between 0 and 1, not {confidence}"
