"""Differential privacy and a distinguisher's success: what the one says about the other."""

from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv, expit

from clusterscale.contracts import Scores
from clusterscale.errors import InputError
from clusterscale.metrics.roc import _check

__all__ = ["auc_ceiling", "epsilon_lower_bound"]

Floats = NDArray[np.float64]


@overload
def auc_ceiling(epsilon: float, delta: float = 0.0) -> float: ...
@overload
def auc_ceiling(epsilon: NDArray[Any], delta: float | NDArray[Any] = 0.0) -> Floats: ...
@overload
def auc_ceiling(epsilon: float, delta: NDArray[Any]) -> Floats: ...
def auc_ceiling(epsilon: float | NDArray[Any], delta: float | NDArray[Any] = 0.0) -> float | Floats:
    """Return the most AUC any adversary can have against an (ε, δ)-private mechanism.

    No test at false positive rate α misses less than
    f(α) = max(0, 1 − δ − e^ε·α, e^−ε·(1 − δ − α)) (Kairouz, Oh and Viswanath 2015, theorem 2.1),
    so AUC is at most one minus the area under f. Both lines meet where α = f = (1 − δ)/(1 + e^ε),
    and the two triangles and the square under them make (1 − δ)²/(1 + e^ε).

    Parameters
    ----------
    epsilon
        ε ≥ 0 for the two worlds that the adversary tells apart, float or array; may be infinite.
        Swapping one user for another costs twice what adding one does.
    delta
        δ in [0, 1), float or array; broadcast against ``epsilon``.

    Returns
    -------
    float, or float64 array of the common shape
        1 − (1 − δ)²/(1 + e^ε), from ½ to 1; e^ε/(1 + e^ε) when δ = 0. It is reached by randomized
        response that lets the truth slip with probability δ.

    Raises
    ------
    InputError
        If an ε is negative or not a number, or a δ is outside [0, 1).
    """
    budgets, slips = np.asarray(epsilon, dtype=np.float64), np.asarray(delta, dtype=np.float64)
    if not (budgets >= 0).all():
        raise InputError(f"epsilon is at least 0, not {budgets[~(budgets >= 0)][0]}")
    _check_delta(slips)
    ceiling = 1.0 - (1.0 - slips) ** 2 * expit(-budgets)
    return ceiling if ceiling.ndim else float(ceiling)


def epsilon_lower_bound(
    labels: ArrayLike, scores: ArrayLike, *, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """Return the ε that a mechanism is seen to exceed, from the outcomes of a guessing game.

    Under (ε, δ)-privacy P(S | in) ≤ e^ε·P(S | out) + δ for every set S of scores, and the same
    with *in* and *out* exchanged (Kairouz et al. 2015). With S one side of a threshold, either
    ``score >= t`` or ``score < t``, this gives for the test that calls S *inside*
    ε ≥ log((TPR − δ)/FPR) and ε ≥ log((TNR − δ)/FNR). Rates are replaced by their Clopper–Pearson
    limits (1934), TPR or TNR from below and FPR or FNR from above, each at (1 − confidence)/2, so
    that both hold at once (Bonferroni). Jagielski, Ullman and Oprea (2020) and Nasr et al. (2021)
    audit learning this way.

    One half of the rows chooses the threshold, the side and the statement, by the same limits; the
    other half judges that single choice, so choosing costs no confidence. There is no random
    split: within each class rows 0, 2, 4, … choose and rows 1, 3, 5, … judge. The same rows in the
    same order give the same bound; in another order a different one that is just as valid.

    Parameters
    ----------
    labels
        bool, shape (group,): True = target inside.
    scores
        float, shape (group,): higher = more likely inside, though scores that point the wrong way
        tell just as much; infinities are allowed. Rows must be independent within each class, and
        the distinguisher must not have been fitted on them.
    delta
        δ of the guarantee that is tested, in [0, 1).
    confidence
        Chance, at least, that the bound is not above the true ε; strictly between 0 and 1.

    Returns
    -------
    float
        At least 0; finite, for with n judging rows in each class it cannot pass about
        log(n / log(2 / (1 − confidence))).

    Raises
    ------
    InputError
        As :func:`auc`; if a class has fewer than two rows; if ``delta`` or ``confidence`` is out
        of range.

    Notes
    -----
    O(n log n): one sort, then every distinct score is tried as a threshold. With many distinct
    scores a lucky tail of the first half may be chosen: the bound then comes out low, and as valid.
    """
    truth, given = _check(labels, scores)
    inside, outside = given[truth], given[~truth]
    if min(inside.size, outside.size) < 2:
        raise InputError(
            f"{inside.size} with the target and {outside.size} without: "
            "each class needs 2 rows, one to choose and one to judge"
        )
    _check_delta(np.asarray(delta))
    if not 0 < confidence < 1:
        raise InputError(f"confidence is strictly between 0 and 1, not {confidence}")
    tail = (1.0 - confidence) / 2
    # The lowest score is no threshold: all rows are above it, which tells nothing.
    thresholds = np.unique(np.concatenate([inside[::2], outside[::2]]))[1:]
    if not thresholds.size:
        return 0.0
    promised = _ratios(inside[::2], outside[::2], thresholds, delta, tail)
    statement, best = np.unravel_index(promised.argmax(), promised.shape)
    judged = _ratios(inside[1::2], outside[1::2], thresholds[[best]], delta, tail)[statement, 0]
    return float(np.log(max(judged, 1.0)))


def _ratios(
    inside: Scores, outside: Scores, thresholds: Scores, delta: float, tail: float
) -> Floats:
    """Return what e^ε is at least, shape (statement, threshold), for the four statements."""
    in_low, in_high = _share_above(inside, thresholds, tail)
    out_low, out_high = _share_above(outside, thresholds, tail)
    return np.stack(
        [
            (in_low - delta) / out_high,  # inside is high: TPR, FPR
            (1 - out_high - delta) / (1 - in_low),  # inside is high: TNR, FNR
            (1 - in_high - delta) / (1 - out_low),  # inside is low: TPR, FPR
            (out_low - delta) / in_high,  # inside is low: TNR, FNR
        ]
    )


def _share_above(scores: Scores, thresholds: Scores, tail: float) -> tuple[Floats, Floats]:
    """Return limits of the probability to score at or above each threshold."""
    hits = scores.size - np.searchsorted(np.sort(scores), thresholds)
    return _clopper_pearson(hits, scores.size, tail)


def _clopper_pearson(hits: NDArray[np.integer], n: int, tail: float) -> tuple[Floats, Floats]:
    """Return exact limits of a share, each wrong with probability ``tail`` at most.

    Clopper and Pearson (1934), by quantiles of beta distributions; 0 below no hits and 1 above all.
    """
    none, every = hits == 0, hits == n
    low = betaincinv(np.where(none, 1, hits), n - hits + 1, tail)
    high = betainccinv(hits + 1, np.where(every, 1, n - hits), tail)
    return np.where(none, 0.0, low), np.where(every, 1.0, high)


def _check_delta(delta: Floats) -> None:
    fine = (delta >= 0) & (delta < 1)
    if not fine.all():
        raise InputError(f"delta is at least 0 and below 1, not {delta[~fine][0]}")
