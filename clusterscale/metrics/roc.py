"""ROC metrics: how well scores distinguish *inside* from *outside*."""

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clusterscale.contracts import Labels, Scores
from clusterscale.errors import InputError
from clusterscale.metrics.clopper_pearson import check_rate


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
        If shapes differ, only one class is present, or a score is NaN.
    """
    truth, ranked = check_scores(labels, scores)
    n_in = int(truth.sum())
    n_out = truth.size - n_in
    rank_sum = float(scipy.stats.rankdata(ranked)[truth].sum())
    return (rank_sum - n_in * (n_in + 1) / 2) / (n_in * n_out)


def accuracy(labels: ArrayLike, scores: ArrayLike, threshold: float | Scores) -> float:
    """Return the share of correct answers when *inside* means ``score >= threshold``.

    Parameters
    ----------
    labels, scores
        As for :func:`auc`.
    threshold
        One threshold for all scores, or float, shape (group,).

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    InputError
        As :func:`auc`.
    """
    truth, values = check_scores(labels, scores)
    return float(np.mean((values >= threshold) == truth))


def tpr_at_fpr(labels: ArrayLike, scores: ArrayLike, fpr: float) -> float:
    """Return the largest true positive rate at a false positive rate of at most ``fpr``.

    Attacks on individuals are judged at low false positive rates: Carlini et al. (2022).

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
        with at most ``fpr`` of the rows without it at or above. Equal scores are one threshold,
        without interpolation. For ``fpr=0`` it is the share above every row without the target,
        a property of the sample: the true false positive rate may be up to about three times
        :func:`resolvable_fpr`. NaN where ``fpr`` is positive but below :func:`resolvable_fpr`,
        because the sample cannot distinguish such a rate from 0.

    Raises
    ------
    InputError
        As :func:`auc`, or if ``fpr`` is not between 0 and 1.
    """
    truth, values = check_scores(labels, scores)
    check_rate(fpr)
    outside = np.sort(values[~truth])[::-1]
    if 0 < fpr < resolvable_fpr(outside.size):
        return float("nan")
    # Compare shares, not counts: 29/100 is at most .29, but in floats .29·100 is below 29.
    allowed = np.searchsorted(np.arange(outside.size + 1) / outside.size, fpr, side="right") - 1
    if allowed == outside.size:
        return 1.0
    return float(np.mean(values[truth] > outside[allowed]))


def resolvable_fpr(n_outside: int) -> float:
    """Return the smallest positive rate that ``n_outside`` rows can show, that of one row.

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


def check_scores(labels: ArrayLike, scores: ArrayLike) -> tuple[Labels, Scores]:
    """Return labels and scores as arrays; raise as :func:`auc` does."""
    truth = np.asarray(labels)
    values = np.asarray(scores, dtype=np.float64)
    if truth.dtype != np.bool_:
        raise InputError(f"labels are {truth.dtype}, not bool (True = target inside)")
    if truth.ndim != 1 or truth.shape != values.shape:
        raise InputError(f"labels {truth.shape} and scores {values.shape} must be one row each")
    if truth.all() or not truth.any():
        raise InputError("both classes are needed: some groups with the target, some without")
    if np.isnan(values).any():
        raise InputError(f"{int(np.isnan(values).sum())} scores are NaN")
    return truth, values
