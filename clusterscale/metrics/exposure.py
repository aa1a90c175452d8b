"""Who is certainly exposed: one test a person, and Holm's correction for all of them together."""

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from clusterscale.errors import InputError
from clusterscale.metrics.clopper_pearson import check_confidence

__all__ = ["EXPOSED_AUC", "auc_p_values", "reject_holm"]

Floats = NDArray[np.float64]

EXPOSED_AUC = 0.75
"""AUC above which a person counts as exposed: a privacy loss of one half."""


def auc_p_values(
    auc: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    *,
    limit: float = EXPOSED_AUC,
    confidence: float = 0.95,
) -> Floats:
    """Return one-sided p-values of "the true AUC is at most ``limit``".

    The standard error comes from the interval: on the scale of log odds between its ends, as
    ``auc_interval(…, scale="odds")`` makes it. An AUC of 1 has no such error. Its interval starts
    at q = (α/2)^(1/n), from n disjoint pairs of challenges in order, which have a probability of
    at most limit^n.

    Parameters
    ----------
    auc, low, high
        float, one shape: AUCs, and the ends of their intervals on the scale of odds; NaN where
        they are not known.
    limit
        AUC of the hypothesis, strictly between 0 and 1.
    confidence
        Of the intervals.

    Returns
    -------
    NDArray of float64
        In the shape of ``auc``; 1 where nothing is known, and where the AUC is not above the limit.

    Raises
    ------
    InputError
        If the shapes differ, or ``limit`` or ``confidence`` is not strictly between 0 and 1.
    """
    found, lower, upper = (np.asarray(each, dtype=np.float64) for each in (auc, low, high))
    if not found.shape == lower.shape == upper.shape:
        raise InputError(f"auc {found.shape}, low {lower.shape} and high {upper.shape} differ")
    if not 0 < limit < 1:
        raise InputError(f"limit is strictly between 0 and 1, not {limit}")
    check_confidence(confidence)
    tail = (1.0 - confidence) / 2
    p_values = np.ones(found.shape)
    known = np.isfinite(lower) & np.isfinite(upper) & (found > limit)
    perfect = known & (found >= 1.0) & (lower > 0)
    between = known & (found < 1.0) & (lower < upper) & (lower > 0) & (upper < 1)
    p_values[perfect] = limit ** (np.log(tail) / np.log(np.minimum(lower[perfect], 1 - 1e-16)))
    odds = scipy.special.logit
    error = (odds(upper[between]) - odds(lower[between])) / (-2 * scipy.special.ndtri(tail))
    p_values[between] = scipy.special.ndtr((odds(limit) - odds(found[between])) / error)
    return p_values


def reject_holm(p_values: ArrayLike, *, risk: float = 0.05) -> NDArray[np.bool_]:
    """Return which hypotheses are rejected so that none is wrongly but with chance ``risk``.

    Holm's step-down procedure (Scandinavian Journal of Statistics 6, 1979), under any dependence.

    Parameters
    ----------
    p_values
        float between 0 and 1, any shape: all that were tested.
    risk
        Chance that any true hypothesis is rejected; strictly between 0 and 1.

    Returns
    -------
    NDArray of bool
        In the shape of ``p_values``.

    Raises
    ------
    InputError
        If a p-value is not between 0 and 1, or ``risk`` is out of range.
    """
    given = np.asarray(p_values, dtype=np.float64)
    if not ((given >= 0) & (given <= 1)).all():
        raise InputError("p-values are between 0 and 1")
    if not 0 < risk < 1:
        raise InputError(f"risk is strictly between 0 and 1, not {risk}")
    order = np.argsort(given, axis=None, kind="stable")
    passed = given.ravel()[order] <= risk / np.arange(given.size, 0, -1)
    n_rejected = given.size if passed.all() else int(np.argmin(passed))
    rejected = np.zeros(given.size, dtype=bool)
    rejected[order[:n_rejected]] = True
    return rejected.reshape(given.shape)
