"""What an attack should make nothing of: labels that are worthless, groups without the target."""

from __future__ import annotations

import numpy as np

from clusterscale.contracts import GroupSample, Labels, Scores
from clusterscale.metrics import auc

__all__ = ["misled_auc", "stand_in_auc"]


def misled_auc(
    labels: Labels, scores: Scores, label_shuffled: Scores, *, rng: np.random.Generator
) -> float:
    """Return the AUC of an attack after training on shuffled labels; it should be about ½.

    An attack that ignores training labels scores as before when they are shuffled, so there the
    answers are shuffled instead.
    """
    answers = rng.permutation(labels) if np.array_equal(label_shuffled, scores) else labels
    return auc(answers, label_shuffled)


def stand_in_auc(absent: GroupSample, found: Scores, labels: Labels, scores: Scores) -> float:
    """Return the AUC with another user wherever the target was; it should be about ½.

    Parameters
    ----------
    absent, found
        Groups with a stand-in for the target, and their scores.
    labels, scores
        The challenges, whose groups without the target are compared with where ``absent`` has
        none of its own.
    """
    stands_in = absent.labels
    if stands_in.all():  # the challenges without the target are new to the adversary as well
        outside = scores[~labels]
        found = np.concatenate([found, outside])
        stands_in = np.concatenate([stands_in, np.zeros(len(outside), np.bool_)])
    return auc(stands_in, found)
