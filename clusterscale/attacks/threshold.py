"""The score from which on an adversary says *inside*."""

import numpy as np

from clusterscale.contracts import Labels, Scores

__all__ = ["youden"]


def youden(labels: Labels, scores: Scores) -> float:
    """Return the threshold of greatest Youden's J: true less false positive rate (Youden 1950).

    Midway between the two scores that it parts, or the lowest score where calling everything
    *inside* is no worse; the lowest of equally good ones.

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
    missed, spared = (np.concatenate([[0], np.cumsum(side)]) for side in (inside, ~inside))
    gain = spared * inside.sum() - missed * (~inside).sum()  # J in whole numbers: ties stay ties
    cut = np.concatenate([[0], np.flatnonzero(np.diff(ranked) > 0) + 1])
    best = cut[np.argmax(gain[cut])]
    if best == 0:
        return float(ranked[0])
    below, above = float(ranked[best - 1]), float(ranked[best])
    middle = below / 2 + above / 2
    return middle if middle > below else above  # nothing lies between neighbouring numbers
