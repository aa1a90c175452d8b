"""Confidence intervals of AUCs and means, and bounds on an AUC for every law of scores.

On the plain scale of :func:`auc_interval` the normal approximation degrades towards 0 and 1, and
coverage falls below the nominal confidence. Measured at 95 % over 4,000 samples of normal scores,
in per cent, plain and odds:

============  ==========  ==========  ==========  ==========  ==========
rows a class  AUC .5      .7          .9          .95         .99
============  ==========  ==========  ==========  ==========  ==========
50            94.6  95.6  94.1  95.1  91.9  95.2  89.8  94.7  81.5  94.0
100           94.3  95.6  94.7  95.2  94.3  95.3  92.1  94.6  86.5  93.1
200           94.9  95.2  94.1  94.8  93.4  95.2  94.1  94.8  90.3  94.4
============  ==========  ==========  ==========  ==========  ==========

The bound of :func:`auc_tail`: an AUC of n challenges with the target and n without is the average,
over all ways to pair them, of the mean of n independent values 0, ½ or 1 with the true AUC as mean.
For a convex function φ the mean of φ(AUC) is thus at most that of φ(B/n), B binomial (Hoeffding
1963, §5), and with φ(x) = max(0, x − a), P(AUC ≥ u) ≤ E max(0, B − a) / (n·u − a) for every
a < n·u (Bentkus 2004). The least of these bounds is at most e times the binomial tail, which some
laws reach.
"""

from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from clusterscale.contracts import Floats, Scores
from clusterscale.errors import InputError
from clusterscale.metrics.clopper_pearson import check_confidence
from clusterscale.metrics.roc import check_scores

# Keeps the ends on either side of the mean: the average has a log-concave distribution, of which at
# least 1/e is on each side (Grünbaum 1960).
_LEAST_CONFIDENCE = 0.5
_FEW = 51  # points whose average is integrated exactly
_NODES = np.linspace(0.0, 7.0, 71)
_SINH, _COSH = np.sinh(_NODES), np.cosh(_NODES)


def auc_interval(
    labels: ArrayLike,
    scores: ArrayLike,
    *,
    confidence: float = 0.95,
    scale: Literal["plain", "odds"] = "plain",
    refits: ArrayLike = (),
) -> tuple[float, float]:
    """Return a confidence interval of the AUC (DeLong, DeLong and Clarke-Pearson 1988).

    AUC ± z·√variance with the variance of :func:`delong`, clipped to 0..1; on the scale of ``odds``
    the logarithm of AUC/(1 − AUC) ± z·√variance/(AUC(1 − AUC)), transformed back. The first is
    the published form. Audits should use the second, which keeps its coverage near 1.

    This is an interval for the distinguisher that gave the scores. ``refits``, float, shape
    (part,), are the AUCs of the same attack after training without one part of its groups each, all
    parts of about the same size. With them, the interval is for an attack that is trained anew:
    their jackknife variance, (n − 1)/n · Σ(refit − mean)², is added, and z is Student's quantile
    with :func:`auc_degrees`. The interval is 0 to 1 if a refit is NaN, because it failed.

    If DeLong's variance is 0 or unknown, the interval is exact but wide. That is so if the scores
    separate the classes without an error, in either direction, or are all equal, or if a class
    has one row. Let A be the AUC of the sample, α = 1 − confidence, n the rows of the smaller
    class and q = (α/2)^(1/n): the interval is A·q to 1 − (1 − A)·q. For A = 1, n disjoint pairs
    are independent and all in order, which has a probability of at most α/2 if AUC ≤ q; for A =
    0 the same in reverse; for A = ½, all n pairs are tied, so ties have a probability of at
    least q, and half of it counts for either side. For n = 1, A is an unbiased estimate between
    0 and 1, so A ≥ AUC/(α/2) has a probability of at most α/2 (Markov), and 1 − A likewise.

    ``labels`` and ``scores`` are those of :func:`auc`; rows must be independent, and the
    distinguisher must not have been fitted on them. Raises its errors, and InputError if
    ``confidence`` is not strictly between 0 and 1.
    """
    check_confidence(confidence)
    area, variance, fewest = delong(labels, scores)
    tail, refit = (1.0 - confidence) / 2, _jackknife(refits)
    if np.isnan(refit):
        return 0.0, 1.0
    z = -float(student_quantile(tail, _degrees(variance, refit, np.size(refits))))
    if variance > 0:
        reach = z * (variance + refit) ** 0.5
        if scale == "odds":
            middle, reach = float(scipy.special.logit(area)), reach / (area * (1.0 - area))
            return float(scipy.special.expit(middle - reach)), float(
                scipy.special.expit(middle + reach)
            )
        return max(0.0, area - reach), min(1.0, area + reach)
    q = tail ** (1.0 / fewest)
    low, high = area * q, 1.0 - (1.0 - area) * q
    if refit > 0:
        low, high = (
            area + side * np.hypot(end - area, z * refit**0.5)
            for side, end in ((-1, low), (1, high))
        )
    return max(0.0, float(low)), min(1.0, float(high))


def auc_degrees(labels: ArrayLike, scores: ArrayLike, refits: ArrayLike) -> float:
    """Return the degrees of freedom of the error of an AUC whose attack is trained anew.

    They follow from the two variances that :func:`auc_interval` adds (Welch and Satterthwaite):
    DeLong's is taken as known, that of n ``refits`` has n − 1. Infinite without refits, or if these
    are equal; 1 if a refit is NaN.
    """
    return _degrees(delong(labels, scores)[1], _jackknife(refits), np.size(refits))


def _jackknife(refits: ArrayLike) -> float:
    """Return the jackknife variance of AUCs, each of an attack trained without one of n parts."""
    aucs = np.asarray(refits, np.float64)
    return float((aucs.size - 1) * aucs.var()) if aucs.size else 0.0


def _degrees(variance: float, refit: float, n_parts: int) -> float:
    if np.isnan(refit):
        return 1.0
    # DeLong's variance is NaN if a class has one row
    return (float(np.nan_to_num(variance)) / refit + 1.0) ** 2 * (n_parts - 1) if refit else np.inf


def student_quantile(probability: ArrayLike, degrees: ArrayLike) -> Floats:
    """Return quantiles of Student's distribution, float64; of the normal one if infinite."""
    normal = np.isinf(degrees)  # where stdtrit differs from ndtri in the last bits
    quantiles = scipy.special.stdtrit(np.where(normal, 1.0, degrees), probability)
    return np.asarray(np.where(normal, scipy.special.ndtri(probability), quantiles))


def student_cdf(at: ArrayLike, degrees: ArrayLike) -> Floats:
    """Return the probabilities of values up to ``at``; see :func:`student_quantile`."""
    normal = np.isinf(degrees)
    below = scipy.special.stdtr(np.where(normal, 1.0, degrees), at)
    return np.asarray(np.where(normal, scipy.special.ndtr(at), below))


def delong(labels: ArrayLike, scores: ArrayLike) -> tuple[float, float, int]:
    """Return AUC, its variance (DeLong et al. 1988), and the rows of the smaller class.

    The placement of a row is the share of the other class on its correct side. Placements come
    from mid-ranks (Sun and Xu 2014), which takes one sort instead of all pairs. The variance, the
    squared standard error, is 0 if the scores separate the classes without an error or are all
    equal; NaN if a class has a single row. ``labels``, ``scores`` and errors are those of
    :func:`auc`.
    """
    truth, values = check_scores(labels, scores)
    ranks = scipy.stats.rankdata(values)
    won = _placements(ranks, values, truth)
    lost = _placements(ranks, values, ~truth)
    fewest = min(won.size, lost.size)
    area = float(won.mean())
    if fewest == 1:
        return area, float("nan"), fewest
    return area, float(won.var(ddof=1) / won.size + lost.var(ddof=1) / lost.size), fewest


def _placements(ranks: Floats, scores: Scores, of: NDArray[np.bool_]) -> Floats:
    """Return for each row of one class the share of the other below it, ties counting ½."""
    return np.asarray((ranks[of] - scipy.stats.rankdata(scores[of])) / np.count_nonzero(~of))


def mean_interval(
    values: ArrayLike, *, confidence: float = 0.95, bounds: tuple[float, float] = (0.0, 1.0)
) -> tuple[float, float]:
    """Return a confidence interval of the mean of bounded values of any distribution (Gaffke 2005).

    The low end is the α/2 quantile of a random average of the values and the lower bound, with
    weights that are uniform on the simplex (α = 1 − confidence); the high end is the mirror
    image with the upper bound. So the interval allows for values that are not in the sample,
    and does not collapse if all values are equal. If all values are at the bounds, it is that
    of Clopper and Pearson.

    ``values``, float, shape (target,), are finite numbers, such as AUCs, of targets that are
    assumed to be drawn at random and independently from the population of interest; ``bounds``
    are the smallest and largest possible one. ``confidence`` is at least 0.5. Both ends are NaN
    if there is no value. Raises InputError if ``values`` is not one row of finite numbers
    within the bounds, or ``confidence`` is out of range.

    That the interval has its confidence for every distribution is proven for two-point
    distributions and conjectured for others (Gaffke, Mathematical Methods of Statistics 14;
    Learned-Miller and Thomas 2020). ``tests/nightly/benchmarks/intervals.py`` compares it with
    Student's, the studentised bootstrap and the betting interval, for seven distributions and 6 to
    150 values.

    The quantiles are exact up to 50 values, by integration through the saddlepoint. Above that,
    they are Lugannani and Rice's approximation, with an error below 1 % of the width.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise InputError(f"values {array.shape} must be one row, one number per target")
    if not np.isfinite(array).all():
        raise InputError(f"{int((~np.isfinite(array)).sum())} values are not finite numbers")
    check_confidence(confidence)
    if confidence < _LEAST_CONFIDENCE:
        raise InputError(f"confidence is {confidence}, but should be at least {_LEAST_CONFIDENCE}")
    least, most = bounds
    outside = (array < least) | (array > most)
    if outside.any():
        raise InputError(f"a value is {array[outside][0]}, outside the bounds {least} to {most}")
    if not array.size:
        return float("nan"), float("nan")
    share, tail = (array - least) / (most - least), (1.0 - confidence) / 2
    low, high = _lower_end(share, tail), 1.0 - _lower_end(1.0 - share, tail)
    return least + low * (most - least), least + high * (most - least)


def _lower_end(values: Floats, tail: float) -> float:
    """Return the ``tail`` quantile of Σ w·x over ``values`` and 0, w uniform on the simplex.

    With exponential E, P(Σ w·x ≤ t) = P(Σ E·(x − t) ≤ 0), whose saddlepoint is a function of the
    tilt r = −s/(1 + s·t): t is the mean of x with weights 1/(1 + r·x).
    """
    top = float(values.max())
    if top == 0.0:
        return 0.0
    points = np.append(values, 0.0) / top
    probability = _exactly if points.size <= _FEW else _nearly

    def excess(log_tilt: float) -> float:
        return probability(*_tilted(points, np.exp(log_tilt))) - tail

    # -25.0, 45.0: from an average near the mean to one near 0
    log_tilt = scipy.optimize.brentq(excess, *(-25.0, 45.0), xtol=1e-8)
    return float(top * _tilted(points, np.exp(log_tilt))[1].item())


def _tilted(points: Floats, tilt: float) -> tuple[Floats, Floats, float]:
    """Return the points minus t, t, and the saddlepoint s."""
    weights = 1.0 / (1.0 + tilt * points)
    at = (weights * points).sum() / weights.sum()
    return points - at, at, -tilt / (1.0 + tilt * at)


def _exactly(away: Floats, _: Floats, saddle: float) -> float:
    """Return P(Σ E·away ≤ 0) by the trapezoidal rule on a line through the saddlepoint s < 0."""
    spread = ((away / (1.0 - saddle * away)) ** 2).sum() ** -0.5
    # the pole at 0 must stay away from the line, and the line within 1 − s·away > 0
    saddle = min(saddle, max(-0.3 * spread, 0.5 / float(away.min())))
    s = saddle + 1j * spread * _SINH
    at_saddle = 1.0 - saddle * away
    # Relative to the saddlepoint each factor is below 600, so that no product overflows.
    factors = (1.0 - np.multiply.outer(s, away)) / at_saddle
    height = np.exp(-np.log(at_saddle).sum())
    terms = (height / (factors.prod(axis=1) * s)).real * _COSH
    terms[0] /= 2.0  # the other half of the line is its mirror image
    return float(-terms.sum() * (_NODES[1] - _NODES[0]) * spread / np.pi)


def _nearly(away: Floats, _: Floats, saddle: float) -> float:
    """Return P(Σ E·away ≤ 0) by Lugannani and Rice (1980), for a saddlepoint s < 0."""
    inverse = 1.0 - saddle * away
    scaled = saddle * ((away / inverse) ** 2).sum() ** 0.5
    if scaled > -1e-3:
        return 0.5
    signed = -((2.0 * np.log(inverse).sum()) ** 0.5)
    density = scipy.stats.norm.pdf(signed)
    return float(scipy.special.ndtr(signed) + density * (1.0 / signed - 1.0 / scaled))


_SAME = 1e-6  # an AUC that exceeds another by less does not


def auc_tail(auc: ArrayLike, n_pairs: ArrayLike, limit: ArrayLike) -> Floats:
    """Return an upper bound on the probability of AUCs this high if the true ones are at limits.

    ``auc`` are measured, between 0 and 1, NaN = unknown; each may also be the mean of AUCs of
    independent challenges, weighted by their pairs. ``n_pairs`` are the numbers of disjoint
    pairs of independent challenges, at least 1: the smaller class, or the sum of these over
    AUCs. ``limit`` are the true AUCs, or their mean. All three broadcast; the bound, float64,
    is 1 where an AUC is not above its limit, or unknown.
    """
    arrays = np.broadcast_arrays(auc, n_pairs, limit)
    area, pairs, top = (np.ravel(one).astype(np.float64) for one in arrays)
    result = np.ones(area.size)
    above = area > top + _SAME
    for n in np.unique(pairs[above]):
        cells = np.flatnonzero(above & (pairs == n))
        hits, true = n * (area[cells] - _SAME), top[cells]
        n_parts = -(-len(hits) * int(n) // (1 << 22))  # elements of an array
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
    """Return lower confidence limits of true AUCs, float64, by inversion of :func:`auc_tail`.

    Each is above its true AUC with a probability of at most ``risk``, and NaN where ``auc`` is.
    """
    area, pairs = np.broadcast_arrays(np.asarray(auc, np.float64), n_pairs)
    low, high = np.zeros(area.shape), area.copy()
    for _ in range(24):  # of a bisection
        middle = (low + high) / 2
        sure = auc_tail(area, pairs, middle) < risk
        low, high = np.where(sure, middle, low), np.where(sure, high, middle)
    return np.where(np.isnan(area), np.nan, low)
