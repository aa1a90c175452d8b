"""True positives at a rate of false ones: against every threshold, and against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_curve

from clusterscale.errors import InputError
from clusterscale.metrics import resolvable_fpr, tpr_at_fpr

SCORES = st.sampled_from([-np.inf, -1.5, 0.0, 0.1, 0.1 + 1e-12, 7.0, np.inf])
CASES = st.lists(st.tuples(st.booleans(), SCORES), min_size=2).filter(
    lambda rows: 0 < sum(label for label, _ in rows) < len(rows)
)
RATES = st.floats(0, 1) | st.integers(0, 100).map(lambda percent: percent / 100)


def columns(rows):
    return (np.array(column) for column in zip(*rows, strict=True))


@given(CASES, RATES)
def test_it_is_the_best_of_all_thresholds(rows, fpr):
    labels, scores = columns(rows)
    found = tpr_at_fpr(labels, scores, fpr)
    if 0 < fpr < 1 / np.sum(~labels):
        assert np.isnan(found)
        return
    answers = [scores >= cut for cut in scores] + [np.zeros(len(rows), bool)]
    allowed = [np.mean(a[labels]) for a in answers if np.mean(a[~labels]) <= fpr]
    assert found == max(allowed)


@given(st.integers(0, 10**6), st.integers(20, 100).map(lambda percent: percent / 100))
def test_it_is_a_point_of_the_curve_of_scikit_learn(seed, fpr):
    rng = np.random.default_rng(seed)
    labels = np.arange(60) % 3 == 0
    scores = np.round(rng.normal(size=60) + labels, 1)
    false, true, _ = roc_curve(labels, scores, drop_intermediate=False)
    assert tpr_at_fpr(labels, scores, fpr) == pytest.approx(true[false <= fpr].max(), abs=1e-12)


@given(CASES, RATES, RATES)
def test_a_higher_rate_finds_no_fewer(rows, one, other):
    labels, scores = columns(rows)
    low, high = sorted([one, other])
    found = tpr_at_fpr(labels, scores, low), tpr_at_fpr(labels, scores, high)
    assert np.isnan(found).any() or found[0] <= found[1]


def test_a_rate_in_percent_allows_so_many_of_a_hundred():
    """29 of 100 are at most .29, whatever .29 · 100 rounds to."""
    labels = np.repeat([True, False], 100)
    scores = np.concatenate([np.arange(100) + 0.5, np.arange(100)])
    found = [tpr_at_fpr(labels, scores, percent / 100) for percent in range(1, 101)]
    assert found == [min(100, percent + 1) / 100 for percent in range(1, 101)]


def test_zero_is_what_no_row_outside_reaches():
    labels = np.repeat([True, False], [4, 3])
    assert tpr_at_fpr(labels, [3, 2, 2, 1, 2, 1, 0], 0) == 0.25
    assert tpr_at_fpr(labels, [0, 0, 0, 0, 2, 1, 0], 0) == 0
    assert tpr_at_fpr(labels, [1, 1, 1, 1, 0, 0, 0], 0) == 1


def test_a_rate_that_the_sample_cannot_show_is_unknown():
    labels = np.repeat([True, False], [5, 20])
    scores = labels.astype(float)
    assert resolvable_fpr(20) == 0.05
    assert tpr_at_fpr(labels, scores, 0.05) == 1
    assert np.isnan(tpr_at_fpr(labels, scores, 0.0499))


@pytest.mark.parametrize("fpr", [-0.01, 1.01, np.nan, np.inf])
def test_no_rate_is_refused(fpr):
    with pytest.raises(InputError) as caught:
        tpr_at_fpr([True, False], [1.0, 0.0], fpr)
    assert str(caught.value) == f"a false positive rate must be between 0 and 1, not {fpr}"


@pytest.mark.parametrize("n_outside", [0, -1])
def test_no_rows_show_no_rate(n_outside):
    with pytest.raises(InputError) as caught:
        resolvable_fpr(n_outside)
    message = f"{n_outside} rows without the target: a rate needs at least 1"
    assert str(caught.value) == message
