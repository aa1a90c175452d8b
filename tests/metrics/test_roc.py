"""AUC and accuracy against brute force and scikit-learn; nonsense is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from clusterscale.errors import InputError
from clusterscale.metrics import accuracy, auc, privacy_loss

CASES = st.lists(
    st.tuples(st.booleans(), st.sampled_from([-np.inf, -1.5, 0.0, 0.1, 0.1 + 1e-12, 7.0, np.inf])),
    min_size=2,
).filter(lambda rows: 0 < sum(label for label, _ in rows) < len(rows))


@given(CASES)
def test_auc_is_the_share_of_pairs_in_order(rows):
    labels, scores = (np.array(column) for column in zip(*rows, strict=True))
    pairs = [
        1.0 if high > low else 0.5 if high == low else 0.0
        for high in scores[labels]
        for low in scores[~labels]
    ]
    assert auc(labels, scores) == pytest.approx(np.mean(pairs), abs=1e-12)


@given(st.integers(0, 10**6))
def test_auc_equals_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    labels = np.arange(30) % 3 == 0
    scores = np.round(rng.normal(size=30) + labels, 1)
    assert auc(labels, scores) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


@given(CASES)
def test_auc_turns_over_with_the_labels(rows):
    labels, scores = (np.array(column) for column in zip(*rows, strict=True))
    assert auc(labels, scores) + auc(~labels, scores) == pytest.approx(1.0)


def test_accuracy_counts_the_threshold_as_inside():
    labels = [True, True, False, False]
    assert accuracy(labels, [2.0, 1.0, 1.0, 0.0], 1.0) == 0.75


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [
        ([1, 0], [1.0, 2.0], "labels are int64, not bool (True = target inside)"),
        ([True, False], [1.0], "labels (2,) and scores (1,) must be one row each"),
        (
            [True, True],
            [1.0, 2.0],
            "both classes are needed: some groups with the target, some without",
        ),
        ([True, False], [np.nan, 2.0], "1 scores are NaN"),
    ],
)
def test_nonsense_is_refused(labels, scores, message):
    with pytest.raises(InputError) as caught:
        auc(labels, scores)
    assert str(caught.value) == message


@pytest.mark.parametrize(("area", "loss"), [(0.5, 0.0), (1.0, 1.0), (0.75, 0.5), (0.2, 0.0)])
def test_privacy_loss(area, loss):
    assert privacy_loss(area) == loss


@pytest.mark.parametrize("area", [-0.1, 1.1, np.nan])
def test_privacy_loss_of_no_auc(area):
    with pytest.raises(InputError, match="an AUC must be between 0 and 1, not"):
        privacy_loss(area)
