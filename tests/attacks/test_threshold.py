"""The threshold is the best there is for Youden's J, by trying them all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from loops import for_each
from sklearn.metrics import roc_curve

from clusterscale.attacks.cells import youden

COARSE = st.sampled_from([-2.0, -0.5, 0.0, 0.25, 1.0])  # many ties
FINE = st.floats(-1e6, 1e6)


@st.composite
def answers(draw, elements=COARSE | FINE):
    """Draw labels of both classes and as many scores."""
    labels = np.array([True, False, *draw(st.lists(st.booleans(), max_size=20))])
    scores = draw(arrays(np.float64, len(labels), elements=elements))
    return labels, scores


def j_at(labels, scores, threshold):
    says = scores >= threshold
    return says[labels].mean() - says[~labels].mean()


@given(answers())
def test_no_threshold_is_better(case):
    labels, scores = case
    false, true, _ = roc_curve(labels, scores)
    found = youden(labels, scores)
    assert j_at(labels, scores, found) == pytest.approx((true - false).max(), abs=1e-12)


@given(answers(st.sampled_from([0.0, 1.0, 2.0, 4.0])))
def test_it_lies_midway_and_is_the_lowest_of_equals(case):
    labels, scores = case
    levels = np.unique(scores)
    midway = (levels[:-1] + levels[1:]) / 2
    gains = [j_at(labels, scores, threshold) for threshold in midway]
    if gains and max(gains) > 1e-12:
        assert youden(labels, scores) == midway[np.isclose(gains, max(gains))][0]


@given(answers(), st.randoms(use_true_random=False))
def test_the_order_of_groups_does_not_matter(case, random):
    labels, scores = case
    order = list(range(len(labels)))
    random.shuffle(order)
    assert youden(labels[order], scores[order]) == youden(labels, scores)


@pytest.mark.parametrize("score", [-3.0, 0.0, 2.5])
def test_scores_that_are_all_equal_are_not_parted(score):
    labels = np.array([True, False, False])
    found = youden(labels, np.full(3, score))
    assert np.isfinite(found)
    assert j_at(labels, np.full(3, score), found) == 0


@for_each("low", [0.0, 1.0, 1.0 + 2.0**-52, -5e-324, 1e300])
def test_neighbouring_numbers_are_parted(low):
    scores = np.array([low, np.nextafter(low, np.inf)])
    assert j_at(np.array([False, True]), scores, youden(np.array([False, True]), scores)) == 1


def test_scores_too_large_to_be_added_are_parted():
    scores = np.array([1e308, 1.7e308])
    found = youden(np.array([False, True]), scores)
    assert 1e308 < found <= 1.7e308
