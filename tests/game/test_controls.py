"""What an attack should make nothing of, worked out by hand."""

import numpy as np
import pytest

from clusterscale.contracts import GroupSample
from clusterscale.game.outcome import shuffled_label_auc, substitute_auc
from clusterscale.seeds import stream

LABELS = np.array([True, False] * 4)
SCORES = np.array([9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0])


def groups(labels):
    """Groups of which nothing but the labels is looked at."""
    labels = np.array(labels)
    return GroupSample(np.zeros((len(labels), 1, 1), np.int32), labels, np.arange(len(labels)))


def test_an_attack_trained_on_shuffled_labels_is_scored_by_the_true_ones():
    label_shuffled = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    # of the sixteen pairs of one with the target and one without, six are in order
    assert shuffled_label_auc(LABELS, SCORES, label_shuffled, rng=stream(0, "x")) == 6 / 16


def test_of_an_attack_that_ignores_labels_the_answers_are_shuffled():
    found = [
        shuffled_label_auc(LABELS, SCORES, SCORES.copy(), rng=stream(i, "x")) for i in range(400)
    ]
    assert len(set(found)) > 5
    # The variance of an AUC of four against four is 9 / 192; four standard errors.
    assert abs(np.mean(found) - 0.5) < 4 * np.sqrt(9 / 192 / 400)
    assert found[3] == shuffled_label_auc(LABELS, SCORES, SCORES, rng=stream(3, "x"))


def test_stand_ins_alone_are_compared_with_the_challenges_without_the_target():
    absent = groups([True, True, True])
    # 1, 2, 3 and 4 are without the target: 2.5 is above two of them, 0 above none, 5 above all
    assert substitute_auc(absent, np.array([2.5, 0.0, 5.0]), LABELS, SCORES) == pytest.approx(
        6 / 12
    )


def test_new_groups_without_the_target_are_compared_with_each_other():
    absent = groups([True, False, True, False])
    found = np.array([2.0, 1.0, 3.0, 2.5])
    for scores in (SCORES, -SCORES):
        assert substitute_auc(absent, found, LABELS, scores) == 3 / 4
