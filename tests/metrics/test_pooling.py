"""Calibrated counts: each p-value by brute force, and what scales of targets cannot change."""

from fractions import Fraction
from itertools import permutations
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from scipy.stats import binom

from clusterscale.errors import InputError
from clusterscale.metrics import (
    N_PVALUE_BINS,
    auc,
    calibrated_counts,
    pooled_resolvable_fpr,
    pooled_tpr_at_fpr,
)

# A test that is right fails with probability 1e-6.
ERROR_RATE = 1e-6
SCORES = st.sampled_from([-np.inf, -2.0, 0.0, 0.1, 0.1 + 1e-12, 3.0, np.inf])
ROWS = st.lists(st.tuples(st.booleans(), SCORES), min_size=3, max_size=40).filter(
    lambda rows: 1 <= sum(label for label, _ in rows) <= len(rows) - 2
)
COUNTS = st.integers(1, 6).flatmap(
    lambda levels: st.lists(
        st.tuples(*[st.lists(st.integers(0, 9), min_size=levels, max_size=levels)] * 2),
        min_size=1,
        max_size=5,
    )
)


def columns(rows):
    labels, scores = zip(*rows, strict=True)
    return np.array(labels), np.array(scores)


def tables(pairs):
    """Counts of both classes, with a row of each added to the last level."""
    inside, outside = (np.array(side) for side in zip(*pairs, strict=True))
    inside[0, -1] += 1
    outside[0, -1] += 1
    return inside, outside


def pooled(targets, **options):
    """Calibrated counts of (labels, scores) of many targets, stacked."""
    counted = [calibrated_counts(labels, scores, **options) for labels, scores in targets]
    inside, outside = zip(*counted, strict=True)
    return np.stack(inside), np.stack(outside)


def as_rows(inside, outside):
    """One row for each count, scored by its level."""
    levels = np.arange(inside.shape[1])
    per_class = [np.repeat(levels, counts.sum(axis=0)) for counts in (inside, outside)]
    labels = np.repeat([True, False], [len(rows) for rows in per_class])
    return labels, -np.concatenate(per_class).astype(float)


@given(ROWS, st.sampled_from([2, 3, 10, N_PVALUE_BINS]))
def test_levels_are_those_of_slow_p_values(rows, levels):
    labels, scores = columns(rows)
    outside = scores[~labels]
    calibrating, held_out = outside[::2], outside[1::2]
    expected = np.zeros((2, levels), int)
    for side, counted in enumerate((scores[labels], held_out)):
        for score in counted:
            p = Fraction(1 + sum(c >= score for c in calibrating), len(calibrating) + 1)
            expected[side, ceil(p * levels) - 1] += 1
    found = calibrated_counts(labels, scores, levels=levels)
    assert [side.tolist() for side in found] == expected.tolist()
    assert all(side.dtype == np.int64 for side in found)


@given(ROWS, st.floats(0.01, 100), st.floats(-5, 5))
def test_counts_do_not_depend_on_the_scale_of_scores(rows, scale, shift):
    labels, scores = columns(rows)
    _, ranks = np.unique(scores, return_inverse=True)
    expected = calibrated_counts(labels, scores)
    found = calibrated_counts(labels, ranks * scale + shift)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("scores", [(0, 1, 2, 3, 4), (0, 0, 1, 1, 2), (7, 7, 7, 7, 7)])
def test_rows_without_the_target_are_as_rare_as_their_level_says(scores):
    """Every order of five scores is as likely: p ≤ u in at most a share u of them, exactly."""
    levels = 8
    total = np.zeros(levels, int)
    for order in permutations(scores):
        _, outside = calibrated_counts([True] + [False] * 5, [0, *order], levels=levels)
        total += outside
    share = np.cumsum(total) / total.sum()
    assert (share <= np.arange(1, levels + 1) / levels + 1e-12).all()
    if len(set(scores)) == 5:  # with three that calibrate, p is 1/4, 2/4, 3/4 or 1, equally often
        assert total.tolist() == [0, 60, 0, 60, 0, 60, 0, 60]


@given(COUNTS, st.integers(0, 100).map(lambda percent: percent / 100))
def test_pooled_true_positives_are_those_at_a_level_edge(pairs, fpr):
    inside, outside = tables(pairs)
    n_levels = inside.shape[1]
    used = [i for i in range(n_levels) if inside[:, i].any() or outside[:, i].any()]
    floor = max(1 / outside.sum(), (used[0] + 1) / n_levels)
    assert pooled_resolvable_fpr(inside, outside) == floor
    found = pooled_tpr_at_fpr(inside, outside, fpr)
    if fpr < floor:
        assert np.isnan(found)
        return
    below = [i for i in range(n_levels) if (i + 1) / n_levels <= fpr]
    assert found == inside[:, below].sum() / inside.sum()


def test_few_calibrating_rows_resolve_no_small_rate():
    labels = np.repeat([True, False], [5, 19])
    inside, outside = pooled([(labels, labels.astype(float))] * 50)
    # Ten calibrate: the least p-value is 1/11, which is in the third level of .04.
    assert pooled_resolvable_fpr(inside, outside) == 0.12
    assert np.isnan(pooled_tpr_at_fpr(inside, outside, 0.11))
    assert pooled_tpr_at_fpr(inside, outside, 0.12) == 1


def test_few_rows_in_all_resolve_no_small_rate():
    inside, outside = (
        np.eye(1, N_PVALUE_BINS, dtype=int),
        8 * np.eye(1, N_PVALUE_BINS, 24, dtype=int),
    )
    assert pooled_resolvable_fpr(inside, outside) == 1 / 8


def unlike_targets(n_targets, n_inside, n_outside, signal, rng):
    """Normal scores of targets whose scales and places differ by orders of magnitude.

    ``n_inside`` may depend on the target's place among the others.
    """
    for target in range(n_targets):
        labels = np.repeat([True, False], [n_inside(target), n_outside])
        scores = rng.normal(size=labels.size) + signal * labels
        yield labels, 10.0 ** rng.uniform(-3, 3) * scores + 1e4 * target


def concatenated(targets):
    return tuple(np.concatenate(column) for column in zip(*targets, strict=True))


def test_nothing_is_found_where_nothing_is_though_scales_differ():
    """Targets that score high have more rows inside: concatenated, that passes for a leak."""
    rng = np.random.default_rng(1)
    targets = list(unlike_targets(60, lambda target: 5 + target, 40, 0.0, rng))
    inside, outside = pooled(targets)
    assert auc(*concatenated(targets)) > 0.6
    # Within 4 standard errors: .01 and .014, for rows of a target share its calibration.
    assert auc(*as_rows(inside, outside)) == pytest.approx(0.5, abs=0.04)
    # With 20 that calibrate, p ≤ .2 has a probability of 4/21.
    assert pooled_tpr_at_fpr(inside, outside, 0.2) == pytest.approx(4 / 21, abs=0.056)


def test_what_is_there_is_found_though_scales_differ():
    rng = np.random.default_rng(2)
    targets = list(unlike_targets(60, lambda target: 20, 100, 1.5, rng))
    inside, outside = pooled(targets)
    assert auc(*as_rows(inside, outside)) == pytest.approx(0.856, abs=0.03)  # Φ(1.5/√2)
    assert abs(auc(*concatenated(targets)) - 0.5) < 0.1


def test_the_rate_of_false_positives_is_right_for_targets_and_not_for_a_common_threshold():
    """A common threshold accuses everyone of some targets and nobody of the others."""
    rng = np.random.default_rng(3)
    targets = list(unlike_targets(200, lambda target: 1, 98, 0.0, rng))
    outside_scores = [scores[~labels] for labels, scores in targets]
    _, outside = pooled(targets)
    accused = outside[:, :2].sum(axis=1)  # 49 calibrate, so p ≤ .08 has a probability of 4/50
    assert accused.sum() / outside.sum() == pytest.approx(0.08, abs=0.012)
    assert np.mean(accused == 0) < 0.2
    common = np.quantile(np.concatenate([scores[::2] for scores in outside_scores]), 0.92)
    shares = np.array([np.mean(scores[1::2] >= common) for scores in outside_scores])
    assert np.mean((shares == 0) | (shares == 1)) > 0.95


def test_a_single_row_a_target_is_found_at_random_as_often_as_the_rate_says():
    """Rows of different targets are independent, so their number is binomial."""
    rng = np.random.default_rng(4)
    inside, outside = pooled(unlike_targets(500, lambda target: 1, 48, 0.0, rng))
    found = round(pooled_tpr_at_fpr(inside, outside, 0.2) * 500)
    # 24 calibrate: p is a multiple of 1/25, and .2 is five of them.
    assert binom.isf(1 - ERROR_RATE, 500, 0.2) <= found <= binom.isf(ERROR_RATE, 500, 0.2)


GOOD = np.ones((2, 3), int)


@for_each(
    ("inside", "outside", "message"),
    [
        (GOOD[0], GOOD[0], "counts inside (3,) and outside (3,) must both be (target, level)"),
        (GOOD, GOOD[:1], "counts inside (2, 3) and outside (1, 3) must both be (target, level)"),
        (GOOD * 0.5, GOOD, "counts are float64, not integers"),
        (GOOD, GOOD - 2, "counts must be at least 0, not -1"),
        (GOOD * 0, GOOD, "both classes are needed: some rows with the target, some without"),
        (GOOD, GOOD * 0, "both classes are needed: some rows with the target, some without"),
        (GOOD[:0], GOOD[:0], "both classes are needed: some rows with the target, some without"),
    ],
)
def test_no_counts_are_refused(inside, outside, message):
    with pytest.raises(InputError) as caught:
        pooled_resolvable_fpr(inside, outside)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("labels", "scores", "levels", "message"),
    [
        (
            [True, True, False],
            [1, 2, 3],
            25,
            "1 row without the target: 2 are needed, one to calibrate and one to count",
        ),
        ([True, False, False], [1, 2, 3], 1, "levels must be at least 2, not 1"),
        ([True, False, False], [1, 2, np.nan], 25, "1 scores are NaN"),
    ],
)
def test_no_rows_are_refused(labels, scores, levels, message):
    with pytest.raises(InputError) as caught:
        calibrated_counts(labels, scores, levels=levels)
    assert str(caught.value) == message


@pytest.mark.parametrize("fpr", [-0.01, 1.01, np.nan])
def test_no_rate_is_refused(fpr):
    with pytest.raises(InputError) as caught:
        pooled_tpr_at_fpr(GOOD, GOOD, fpr)
    assert str(caught.value) == f"a false positive rate must be between 0 and 1, not {fpr}"
