"""Bounds on an AUC that hold for every law of scores and every number of challenges.

An AUC of n challenges with the target and n without is the average, over all ways to pair them, of
the mean of n independent values 0, ½ or 1 with the true AUC as mean. For a convex function φ the
mean of φ(AUC) is thus at most that of φ(B/n), B binomial (Hoeffding 1963, §5), and with
φ(x) = max(0, x − a), P(AUC ≥ u) ≤ E max(0, B − a) / (n·u − a) for every a < n·u (Bentkus 2004). The
least of these bounds is at most e times the binomial tail, which some laws reach.
"""

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_SAME = 1e-6  # an AUC that exceeds another by less does not
_AT_ONCE = 1 << 22  # elements of an array
_STEPS = 24  # of a bisection


def auc_tail(auc: ArrayLike, n_pairs: ArrayLike, limit: ArrayLike) -> Floats:
    """Return an upper bound on the probability of AUCs this high if the true ones are at limits.

    Parameters
    ----------
    auc
        Measured AUCs, float, between 0 and 1; NaN = unknown. Each may also be the mean of AUCs of
        independent challenges, weighted by their pairs.
    n_pairs
        Number of disjoint pairs of independent challenges, at least 1: the smaller class, or the
        sum of these over AUCs.
    limit
        True AUCs, or their mean, float. All three broadcast to one shape.

    Returns
    -------
    float64 array
        1 where an AUC is not above its limit, or unknown.
    """
    arrays = np.broadcast_arrays(auc, n_pairs, limit)
    area, pairs, top = (np.ravel(one).astype(np.float64) for one in arrays)
    result = np.ones(area.size)
    above = area > top + _SAME
    for n in np.unique(pairs[above]):
        cells = np.flatnonzero(above & (pairs == n))
        hits, true = n * (area[cells] - _SAME), top[cells]
        n_parts = -(-len(hits) * int(n) // _AT_ONCE)
        parts = zip(np.array_split(hits, n_parts), np.array_split(true, n_parts), strict=True)
        result[cells] = np.concatenate([_tail(some, int(n), limits) for some, limits in parts])
    return result.reshape(arrays[0].shape)


def _tail(hits: Floats, n: int, limit: Floats) -> Floats:
    """Return the least bound on P(n·AUC ≥ hits); between two integers a no bound is lower."""
    a = np.arange(n)
    beyond = scipy.special.bdtrc(a, n, np.clip(limit, 0.0, 1.0)[:, None])
    excess = np.cumsum(beyond[:, ::-1], axis=1)[:, ::-1]  # E max(0, B − a) = Σ P(B > j), j ≥ a
    room = hits[:, None] - a
    bounds = np.divide(excess, room, out=np.ones_like(excess), where=room > 0)
    return np.asarray(np.minimum(bounds.min(axis=1), 1.0))


def auc_lower_limit(auc: ArrayLike, n_pairs: ArrayLike, risk: float) -> Floats:
    """Return lower confidence limits of true AUCs, by inversion of :func:`auc_tail`.

    Parameters
    ----------
    auc, n_pairs
        As for :func:`auc_tail`.
    risk
        Probability that a limit is above its true AUC, at most.

    Returns
    -------
    float64 array
        Between 0 and ``auc``; NaN where that is.
    """
    area, pairs = np.broadcast_arrays(np.asarray(auc, np.float64), n_pairs)
    low, high = np.zeros(area.shape), area.copy()
    for _ in range(_STEPS):
        middle = (low + high) / 2
        sure = auc_tail(area, pairs, middle) < risk
        low, high = np.where(sure, middle, low), np.where(sure, high, middle)
    return np.where(np.isnan(area), np.nan, low)
