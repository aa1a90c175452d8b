"""Tests for exposed users: one test per user, with Holm's correction over all users."""

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from clusterscale.errors import InputError
from clusterscale.metrics.clopper_pearson import check_confidence

Floats = NDArray[np.float64]

EXPOSED_AUC = 0.75
"""AUC above which a user counts as exposed: a privacy loss of one half."""


def auc_p_values(
    auc: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    *,
    limit: float = EXPOSED_AUC,
    confidence: float = 0.95,
) -> Floats:
    """Return one-sided p-values of "the true AUC is at most ``limit``", float64, shape of ``auc``.

    ``low`` and ``high`` are the ends of intervals of the given confidence on the log-odds
    scale, as of ``auc_interval(…, scale="odds")``, from which the standard error comes; NaN
    where not known. An AUC of 1 has no such error. Its interval starts at q = (α/2)^(1/n), for
    n disjoint pairs of challenges that are all in order, which has a probability of at most
    limit^n. 1 where nothing is known, and where the AUC is not above the limit. Raises
    InputError if the shapes differ, or ``limit`` or ``confidence`` is not strictly between 0
    and 1.
    """
    areas, lower, upper = (np.asarray(values, dtype=np.float64) for values in (auc, low, high))
    if not areas.shape == lower.shape == upper.shape:
        raise InputError(f"auc {areas.shape}, low {lower.shape} and high {upper.shape} differ")
    if not 0 < limit < 1:
        raise InputError(f"limit must be strictly between 0 and 1, not {limit}")
    check_confidence(confidence)
    tail = (1.0 - confidence) / 2
    p_values = np.ones(areas.shape)
    known = np.isfinite(lower) & np.isfinite(upper) & (areas > limit)
    perfect = known & (areas >= 1.0) & (lower > 0)
    between = known & (areas < 1.0) & (lower < upper) & (lower > 0) & (upper < 1)
    p_values[perfect] = limit ** (np.log(tail) / np.log(np.minimum(lower[perfect], 1 - 1e-16)))
    odds = scipy.special.logit
    error = (odds(upper[between]) - odds(lower[between])) / (-2 * scipy.special.ndtri(tail))
    p_values[between] = scipy.special.ndtr((odds(limit) - odds(areas[between])) / error)
    return p_values


def reject_holm(p_values: ArrayLike, *, risk: float = 0.05) -> NDArray[np.bool_]:
    """Return which hypotheses are rejected, at a family-wise error rate of ``risk``; bool.

    Holm's step-down procedure (Scandinavian Journal of Statistics 6, 1979), under any
    dependence of all ``p_values`` that were tested, any shape. Raises InputError if a p-value
    is not between 0 and 1, or ``risk`` is not strictly so.
    """
    values = np.asarray(p_values, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError("p-values must be between 0 and 1")
    if not 0 < risk < 1:
        raise InputError(f"risk must be strictly between 0 and 1, not {risk}")
    order = np.argsort(values, axis=None, kind="stable")
    passed = values.ravel()[order] <= risk / np.arange(values.size, 0, -1)
    n_rejected = values.size if passed.all() else int(np.argmin(passed))
    rejected = np.zeros(values.size, dtype=bool)
    rejected[order[:n_rejected]] = True
    return rejected.reshape(values.shape)
