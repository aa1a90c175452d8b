"""Negative controls: shuffled labels, and groups without the target."""

from __future__ import annotations

import numpy as np

from clusterscale.contracts import GroupSample, Labels, Scores
from clusterscale.metrics import auc

__all__ = ["misled_auc", "stand_in_auc"]


def misled_auc(
    labels: Labels, scores: Scores, label_shuffled: Scores, *, rng: np.random.Generator
) -> float:
    """Return the AUC of an attack after training on shuffled labels; it should be about ½.

    An attack that ignores training labels has unchanged scores when they are shuffled, so the
    labels of its challenges are shuffled instead.
    """
    truth = rng.permutation(labels) if np.array_equal(label_shuffled, scores) else labels
    return auc(truth, label_shuffled)


def stand_in_auc(absent: GroupSample, found: Scores, labels: Labels, scores: Scores) -> float:
    """Return the AUC with a substitute for the target; it should be about ½.

    Parameters
    ----------
    absent, found
        Groups with a substitute for the target, and their scores.
    labels, scores
        The challenges, whose groups without the target serve as the other class if ``absent`` has
        none.
    """
    has_substitute = absent.labels
    if has_substitute.all():  # challenges without the target are new to the adversary as well
        outside = scores[~labels]
        found = np.concatenate([found, outside])
        has_substitute = np.concatenate([has_substitute, np.zeros(len(outside), np.bool_)])
    return auc(has_substitute, found)
