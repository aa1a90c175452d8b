"""Bounds between differential privacy and the success of a distinguisher."""

import math
from typing import Any, Literal, overload

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from clusterscale.contracts import Floats, Scores
from clusterscale.errors import InputError
from clusterscale.metrics.clopper_pearson import (
    ThresholdCounts,
    bound,
    check_delta,
    ratios,
    tail_of,
)
from clusterscale.metrics.roc import check_scores

Verdict = Literal["consistent", "broken", "too few samples"]


@overload
def auc_ceiling(epsilon: float, delta: float = 0.0) -> float: ...
@overload
def auc_ceiling(epsilon: NDArray[Any], delta: float | NDArray[Any] = 0.0) -> Floats: ...
@overload
def auc_ceiling(epsilon: float, delta: NDArray[Any]) -> Floats: ...
def auc_ceiling(epsilon: float | NDArray[Any], delta: float | NDArray[Any] = 0.0) -> float | Floats:
    """Return the largest AUC of any adversary against an (ε, δ)-private mechanism.

    No test at false positive rate α has a false negative rate below f(α) = max(0, 1 − δ −
    e^ε·α, e^−ε·(1 − δ − α)) (Kairouz, Oh and Viswanath 2015, theorem 2.1), so AUC is at most
    one minus the area under f. Both lines meet where α = f = (1 − δ)/(1 + e^ε), and the two
    triangles and the square under them have the area (1 − δ)²/(1 + e^ε). The ceiling is 1 − (1
    − δ)²/(1 + e^ε), from ½ to 1; e^ε/(1 + e^ε) when δ = 0. It is attained by randomized
    response that reveals the truth with probability δ.

    ε ≥ 0, which may be infinite, is for the two worlds that the adversary distinguishes:
    replacing one user by another costs twice what adding one does. Arrays broadcast. Raises
    InputError if an ε is negative or NaN, or a δ is outside [0, 1).
    """
    epsilons, deltas = np.asarray(epsilon, dtype=np.float64), np.asarray(delta, dtype=np.float64)
    if not (epsilons >= 0).all():
        raise InputError(f"epsilon must be at least 0, not {epsilons[~(epsilons >= 0)][0]}")
    check_delta(deltas)
    ceiling = 1.0 - (1.0 - deltas) ** 2 * scipy.special.expit(-epsilons)
    return ceiling if ceiling.ndim else float(ceiling)


def epsilon_lower_bound(
    labels: ArrayLike,
    scores: ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    tries: int = 1,
) -> float:
    """Return a lower confidence bound on ε, from the outcomes of a guessing game.

    Under (ε, δ)-privacy P(S | in) ≤ e^ε·P(S | out) + δ for every set S of scores, and the same
    with *in* and *out* exchanged (Kairouz et al. 2015). With S one side of a threshold, either
    ``score >= t`` or ``score < t``, this gives for the test that calls S *inside* ε ≥ log((TPR
    − δ)/FPR) and ε ≥ log((TNR − δ)/FNR). Rates are replaced by their Clopper–Pearson limits
    (1934), TPR or TNR from below and FPR or FNR from above, each at (1 − confidence)/(2·tries),
    so that both hold at once (Bonferroni). Jagielski, Ullman and Oprea (2020) and Nasr et al.
    (2021) audit learning this way.

    One half of the rows chooses the threshold, the side and the statement, by wider limits; the
    other half judges that choice, so choosing costs no confidence. The split is not random:
    within each class rows 0, 2, 4, … choose and rows 1, 3, 5, … judge. O(n log n) for n rows.

    ``labels`` and ``scores`` are those of :func:`auc`, but reversed scores give the same bound.
    Rows must be independent within each class, and the distinguisher must not have been fitted
    on them. ``tries`` is the number of bounds of which the caller takes the largest, including
    this one, as when several attacks score the same releases. The largest then keeps the
    confidence under any dependence of the bounds. Count every bound that could have been the
    largest. The bound is at least 0 and at most :func:`largest_bound`. Raises the errors of
    :func:`auc`, and InputError if a class has fewer than two rows, or an option is out of
    range.
    """
    truth, values = check_scores(labels, scores)
    inside, outside = values[truth], values[~truth]
    _check_rows(inside.size, outside.size)
    # The lowest score is not a useful threshold: all rows are at or above it.
    thresholds = np.unique(np.concatenate([inside[::2], outside[::2]]))[1:]
    choosing, judging = (
        ThresholdCounts(*_above(inside[half::2], thresholds), *_above(outside[half::2], thresholds))
        for half in (0, 1)
    )
    return bound(choosing, judging, delta, confidence, tries)


def largest_bound(
    n_inside: int,
    n_outside: int,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    tries: int = 1,
) -> float:
    """Return the largest possible :func:`epsilon_lower_bound` for these numbers of rows.

    It is the bound from scores that separate the classes perfectly, and finite. With n judging
    rows in each class, half of all, it is close to log(n / log(2·tries / (1 − confidence))):
    this sample cannot refute a guarantee with ε above that, whatever the mechanism does. Raises
    InputError if there are fewer than 2 rows of a class, or an option is out of range.
    """
    _check_rows(n_inside, n_outside)
    check_delta(delta)
    judging = n_inside // 2, n_outside // 2
    perfect = ThresholdCounts(np.array([judging[0]]), judging[0], np.array([0]), judging[1])
    most = ratios(perfect, delta, tail_of(confidence, tries)).max()
    return float(np.log(max(most, 1.0)))


def claim_verdict(lower_bound: float, declared: float, *, largest: float) -> Verdict:
    """Return the verdict on a declared ε, from the observed and the largest possible bound.

    It is ``"broken"`` if the observed lower bound exceeds the declared ε. Else ``"too few
    samples"`` if the bound could not have exceeded it even for a mechanism without any privacy:
    an audit that finds nothing clears a mechanism only if it could have found something. Else
    ``"consistent"``, also if no ε is declared, which is then infinite. Bounds are those of
    :func:`epsilon_lower_bound` or of pooled counts, and :func:`largest_bound` for that number
    of rows. Raises InputError if a value is negative or NaN.
    """
    values = {"lower_bound": lower_bound, "declared": declared, "largest": largest}
    for name, value in values.items():
        if not value >= 0:
            raise InputError(f"{name} must be an epsilon of at least 0, not {value}")
    if lower_bound > declared:
        return "broken"
    if largest <= declared and not math.isinf(declared):
        return "too few samples"
    return "consistent"


def _above(scores: Scores, thresholds: Scores) -> tuple[NDArray[np.int64], int]:
    """Return the number of scores at or above each threshold, and of all scores."""
    hits = scores.size - np.searchsorted(np.sort(scores), thresholds)
    return hits.astype(np.int64), scores.size


def _check_rows(n_inside: int, n_outside: int) -> None:
    if min(n_inside, n_outside) < 2:
        raise InputError(
            f"{n_inside} with the target and {n_outside} without: "
            "each class needs 2 rows, one to choose and one to judge"
        )
