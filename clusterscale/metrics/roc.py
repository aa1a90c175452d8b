"""How well scores tell *inside* from *outside*."""

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clusterscale.contracts import Labels, Scores
from clusterscale.errors import InputError
from clusterscale.metrics.clopper_pearson import check_rate

__all__ = ["accuracy", "auc", "resolvable_fpr", "tpr_at_fpr"]


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
    rank_sum = float(scipy.stats.rankdata(ranked)[truth].sum())
    return (rank_sum - n_in * (n_in + 1) / 2) / (n_in * n_out)


def accuracy(labels: ArrayLike, scores: ArrayLike, threshold: float | Scores) -> float:
    """Return the share of groups answered rightly when *inside* means ``score >= threshold``.

    The threshold is one for all scores, or one for each, shape (group,).
    Parameters and errors are those of :func:`auc`.
    """
    truth, given = _check(labels, scores)
    return float(np.mean((given >= threshold) == truth))


def tpr_at_fpr(labels: ArrayLike, scores: ArrayLike, fpr: float) -> float:
    """Return the most true positives that can be had for a share of false positives.

    Attacks on single people are judged where they seldom err: Carlini et al. (2022).

    Parameters
    ----------
    labels
        bool, shape (group,): True = target inside.
    scores
        float, shape (group,): higher = more likely inside; infinities are allowed.
    fpr
        The largest share of the rows without the target that may be called *inside*, in [0, 1].

    Returns
    -------
    float
        The highest share of rows with the target at or above a threshold, over all thresholds
        with at most ``fpr`` of the rows without it at or above. Equal scores are one threshold and
        nothing is interpolated. For ``fpr=0`` it is the share above every row without the target,
        which is a fact about the sample: the rate behind it may be anything up to about three
        times :func:`resolvable_fpr`. NaN where ``fpr`` is positive but below
        :func:`resolvable_fpr`, for the sample cannot tell such a rate from 0.

    Raises
    ------
    InputError
        As :func:`auc`, or if ``fpr`` is not between 0 and 1.
    """
    truth, given = _check(labels, scores)
    check_rate(fpr)
    outside = np.sort(given[~truth])[::-1]
    if 0 < fpr < resolvable_fpr(outside.size):
        return float("nan")
    # Shares are divided as they are measured: 29/100 is at most .29, but .29·100 is below 29.
    allowed = np.searchsorted(np.arange(outside.size + 1) / outside.size, fpr, side="right") - 1
    if allowed == outside.size:
        return 1.0
    return float(np.mean(given[truth] > outside[allowed]))


def resolvable_fpr(n_outside: int) -> float:
    """Return the smallest positive rate that so many rows can show: one of them.

    Parameters
    ----------
    n_outside
        Rows without the target, at least 1.

    Returns
    -------
    float
        1/n_outside.

    Raises
    ------
    InputError
        If there is no row.
    """
    if n_outside < 1:
        raise InputError(f"{n_outside} rows without the target: a rate needs at least 1")
    return 1.0 / n_outside


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
