"""The score from which on an adversary says *inside*."""

import numpy as np

from clusterscale.contracts import Labels, Scores

__all__ = ["youden"]


def youden(labels: Labels, scores: Scores) -> float:
    """Return the threshold of greatest Youden's J: true less false positive rate (Youden 1950).

    Midway between the two scores that it parts; the lowest of equally good ones.

    Parameters
    ----------
    labels
        bool, shape (group,), of both classes.
    scores
        float64, shape (group,), finite.
    """
    order = np.argsort(scores, kind="stable")
    ranked, inside = scores[order], labels[order]
    # J of saying inside from the i-th score on, where that score differs from the one before.
    kept_in = 1 - np.concatenate([[0], np.cumsum(inside)]) / inside.sum()
    kept_out = 1 - np.concatenate([[0], np.cumsum(~inside)]) / (~inside).sum()
    cut = np.flatnonzero(np.diff(ranked) > 0) + 1
    if not len(cut):
        return float(ranked[0])
    best = cut[np.argmax((kept_in - kept_out)[cut])]
    return float(ranked[best - 1] / 2 + ranked[best] / 2)
