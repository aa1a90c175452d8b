"""How well scores tell *inside* from *outside*."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from clusterscale.contracts import Labels, Scores
from clusterscale.errors import InputError

__all__ = ["accuracy", "auc"]


def auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Return the area under the ROC curve (NDSS18 §IV-C), by ranks (Mann and Whitney 1947).

    Parameters
    ----------
    labels
        bool, shape (group,): True = target inside.
    scores
        float, shape (group,): higher = more likely inside; infinities are allowed.

    Returns
    -------
    float
        The probability that a group with the target scores above one without, ties counting ½.

    Raises
    ------
    InputError
        If shapes differ, only one class is present, or a score is not a number.
    """
    truth, ranked = _check(labels, scores)
    n_in = int(truth.sum())
    n_out = truth.size - n_in
    rank_sum = float(rankdata(ranked)[truth].sum())
    return (rank_sum - n_in * (n_in + 1) / 2) / (n_in * n_out)


def accuracy(labels: ArrayLike, scores: ArrayLike, threshold: float) -> float:
    """Return the share of groups answered rightly when *inside* means ``score >= threshold``.

    Parameters and errors are those of :func:`auc`.
    """
    truth, given = _check(labels, scores)
    return float(np.mean((given >= threshold) == truth))


def _check(labels: ArrayLike, scores: ArrayLike) -> tuple[Labels, Scores]:
    truth = np.asarray(labels)
    given = np.asarray(scores, dtype=np.float64)
    if truth.dtype != np.bool_:
        raise InputError(f"labels are {truth.dtype}, not bool (True = target inside)")
    if truth.ndim != 1 or truth.shape != given.shape:
        raise InputError(f"labels {truth.shape} and scores {given.shape} must be one row each")
    if truth.all() or not truth.any():
        raise InputError("both classes are needed: some groups with the target, some without")
    if np.isnan(given).any():
        raise InputError(f"{int(np.isnan(given).sum())} scores are not a number")
    return truth, given
