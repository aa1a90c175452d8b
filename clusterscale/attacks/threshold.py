"""Choice of the threshold at or above which a score means *inside*."""

import numpy as np

from clusterscale.contracts import Labels, Scores

__all__ = ["youden"]


def youden(labels: Labels, scores: Scores) -> float:
    """Return the threshold that maximises Youden's J, true minus false positive rate (Youden 1950).

    It is midway between two scores, or the lowest score if calling everything *inside* is no worse;
    the lowest of equally good thresholds.

    Parameters
    ----------
    labels
        bool, shape (group,), of both classes.
    scores
        float64, shape (group,), finite.
    """
    order = np.argsort(scores, kind="stable")
    ranked, inside = scores[order], labels[order]
    # J of calling scores from the i-th on inside, where that score differs from the one before.
    false_negatives, true_negatives = (
        np.concatenate([[0], np.cumsum(side)]) for side in (inside, ~inside)
    )
    # J, scaled to integers: ties are exact
    gain = true_negatives * inside.sum() - false_negatives * (~inside).sum()
    cut = np.concatenate([[0], np.flatnonzero(np.diff(ranked) > 0) + 1])
    best = cut[np.argmax(gain[cut])]
    if best == 0:
        return float(ranked[0])
    below, above = float(ranked[best - 1]), float(ranked[best])
    middle = below / 2 + above / 2
    return middle if middle > below else above  # no float is between adjacent floats
