"""ROC curve: AUC, accuracy, true-positive rates, privacy loss and gain."""

from typing import Any, overload

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from clusterscale.contracts import Labels, Scores
from clusterscale.errors import InputError
from clusterscale.metrics.clopper_pearson import check_rate


def auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Return the area under the ROC curve (NDSS18 §IV-C), by ranks (Mann and Whitney 1947).

    It is the probability that a group with the target scores above one without, ties counting
    ½. ``labels``, bool, shape (group,), are True if the target is inside; ``scores``, float,
    shape (group,), are higher the more likely that is, and may be infinite. Raises InputError
    if shapes differ, only one class is present, or a score is NaN.
    """
    truth, ranked = check_scores(labels, scores)
    n_in = int(truth.sum())
    n_out = truth.size - n_in
    rank_sum = float(scipy.stats.rankdata(ranked)[truth].sum())
    return (rank_sum - n_in * (n_in + 1) / 2) / (n_in * n_out)


def accuracy(labels: ArrayLike, scores: ArrayLike, threshold: float | Scores) -> float:
    """Return the share of correct answers when *inside* means ``score >= threshold``.

    ``threshold`` is one for all scores, or float, shape (group,); the rest is as for
    :func:`auc`.
    """
    truth, values = check_scores(labels, scores)
    return float(np.mean((values >= threshold) == truth))


def tpr_at_fpr(labels: ArrayLike, scores: ArrayLike, fpr: float) -> float:
    """Return the largest true positive rate at a false positive rate of at most ``fpr``.

    Attacks on individuals are judged at low false positive rates: Carlini et al. (2022). It is
    the highest share of rows with the target at or above a threshold, over all thresholds with
    at most ``fpr``, in [0, 1], of the rows without it at or above. Equal scores are one
    threshold, without interpolation. For ``fpr=0`` it is the share above every row without the
    target, a property of the sample: the true false positive rate may be up to about three
    times :func:`resolvable_fpr`. NaN where ``fpr`` is positive but below
    :func:`resolvable_fpr`, because the sample cannot distinguish such a rate from 0. ``labels``
    and ``scores`` are those of :func:`auc`. Raises its errors, and InputError if ``fpr`` is not
    between 0 and 1.
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
    """Return 1/n_outside, the smallest positive rate that so many rows can show, that of one row.

    Raises InputError if there is no row.
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


def privacy_loss(auc: float) -> float:
    """Return max(0, 2·AUC − 1), from 0 to 1: the advantage over guessing (NDSS18 eq. 3).

    0 is no better than guessing, 1 makes membership certain. Raises InputError if ``auc`` is
    not between 0 and 1.
    """
    if not 0 <= auc <= 1:
        raise InputError(f"an AUC must be between 0 and 1, not {auc}")
    return max(0.0, 2.0 * float(auc) - 1.0)


@overload
def privacy_gain(raw_auc: float, released_auc: float) -> float: ...
@overload
def privacy_gain(
    raw_auc: NDArray[Any], released_auc: float | NDArray[Any]
) -> NDArray[np.float64]: ...
@overload
def privacy_gain(raw_auc: float, released_auc: NDArray[Any]) -> NDArray[np.float64]: ...
def privacy_gain(
    raw_auc: float | NDArray[Any], released_auc: float | NDArray[Any]
) -> float | NDArray[np.float64]:
    """Return the share of the adversary's advantage on raw counts that a mechanism removes.

    (raw − released)/(raw − ½) if raw > released ≥ ½ (NDSS18 eq. 6, POMACS20 eq. 1). The papers
    leave released < ½ open: here it is 1 if raw > ½, because no advantage is left. Else 0. From
    0 (nothing gained, or nothing to gain) to 1 (no better than guessing); NaN where either AUC
    is. Arrays broadcast. Raises InputError if an AUC is outside [0, 1].
    """
    raw, released = (_check(auc) for auc in (raw_auc, released_auc))
    # Clipped to 0..1, the ratio is right wherever there was an advantage to lose.
    advantage = np.where(raw > 0.5, raw - 0.5, 1.0)
    gain = np.where(raw > 0.5, np.clip((raw - released) / advantage, 0.0, 1.0), 0.0)
    gain = np.where(np.isnan(raw) | np.isnan(released), np.nan, gain)
    return gain if gain.ndim else float(gain)


def _check(auc: float | NDArray[Any]) -> NDArray[np.float64]:
    values = np.asarray(auc, dtype=np.float64)
    outside = (values < 0) | (values > 1)
    if outside.any():
        raise InputError(f"an AUC must be between 0 and 1, not {values[outside][0]}")
    return values
