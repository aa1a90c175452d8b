"""Lower bounds on ε from Clopper–Pearson limits of the rates at a threshold.

Under (ε, δ)-privacy P(S | in) ≤ e^ε·P(S | out) + δ for every set S of scores, and the same with
*in* and *out* exchanged (Kairouz, Oh and Viswanath 2015). S is one side of a threshold.
"""

from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from clusterscale.contracts import Floats
from clusterscale.errors import InputError

CAUTION = 10.0
"""Factor by which the tail for choosing a threshold is smaller than the tail for judging it.

The best of many thresholds is partly best by chance, most of all where few rows are left. Wider
limits count against such thresholds. This affects only power: any choice is judged on other
rows. Mean bounds over 400 runs of 5,000 rows a class, chosen at the tail itself and at a tenth of
it: .81 and .86 for Laplace noise of ε = 1; .765 and .769 for normal noise of σ = 1 on a shift of 1
at δ = .127, where ε is 1. With 1,000 rows a class, δ = 0 and a shift of 2σ, where the extreme tail
is the right one, it costs .02 of 2.75.
"""


class ThresholdCounts(NamedTuple):
    """Rows at or above each threshold, int arrays of shape (threshold,), and all rows."""

    inside: NDArray[np.int64]
    n_inside: int
    outside: NDArray[np.int64]
    n_outside: int

    def at(self, threshold: int) -> "ThresholdCounts":
        """Return the counts at one threshold."""
        one = slice(threshold, threshold + 1)
        return ThresholdCounts(self.inside[one], self.n_inside, self.outside[one], self.n_outside)


def bound(
    choosing: ThresholdCounts, judging: ThresholdCounts, delta: float, confidence: float, tries: int
) -> float:
    """Return the bound on ε from ``judging``, at the best threshold and statement of ``choosing``.

    Both are counts of independent rows at the same thresholds. The choice does not depend on
    ``tries``, so that more tries never raise the bound.
    """
    check_delta(delta)
    choice_tail, tail = tail_of(confidence, 1) / CAUTION, tail_of(confidence, tries)
    if not choosing.inside.size:
        return 0.0
    candidates = ratios(choosing, delta, choice_tail)
    statement, best = np.unravel_index(candidates.argmax(), candidates.shape)
    judged = ratios(judging.at(int(best)), delta, tail)[statement, 0]
    return float(np.log(max(judged, 1.0)))


def ratios(tally: ThresholdCounts, delta: float, tail: float) -> Floats:
    """Return lower limits of e^ε, shape (statement, threshold), for the four statements.

    Each of the two limits that a statement uses is wrong with probability ``tail`` at most.
    """
    in_low, in_high = _clopper_pearson(tally.inside, tally.n_inside, tail)
    out_low, out_high = _clopper_pearson(tally.outside, tally.n_outside, tail)
    return np.stack(
        [
            (in_low - delta) / out_high,  # inside is high: TPR, FPR
            (1 - out_high - delta) / (1 - in_low),  # inside is high: TNR, FNR
            (1 - in_high - delta) / (1 - out_low),  # inside is low: TPR, FPR
            (out_low - delta) / in_high,  # inside is low: TNR, FNR
        ]
    )


def _clopper_pearson(hits: NDArray[np.integer], n: int, tail: float) -> tuple[Floats, Floats]:
    """Return exact limits of a proportion, each wrong with probability ``tail`` at most.

    Clopper and Pearson (1934), by quantiles of beta distributions; the low limit of no hits is 0,
    the high limit of all hits is 1.
    """
    none, every = hits == 0, hits == n
    low = scipy.special.betaincinv(np.where(none, 1, hits), n - hits + 1, tail)
    high = scipy.special.betainccinv(hits + 1, np.where(every, 1, n - hits), tail)
    return np.where(none, 0.0, low), np.where(every, 1.0, high)


def tail_of(confidence: float, tries: int) -> float:
    """Return the tail of each of the two limits of each of ``tries`` bounds (Bonferroni)."""
    check_confidence(confidence)
    if not tries >= 1 or tries % 1:
        raise InputError(f"tries must be a positive integer, not {tries!r}")
    return (1.0 - confidence) / (2 * int(tries))


def check_confidence(confidence: float) -> None:
    """Raise unless ``confidence`` is strictly between 0 and 1."""
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be strictly between 0 and 1, not {confidence}")


def check_delta(delta: ArrayLike) -> None:
    """Raise unless every ``delta`` is at least 0 and below 1."""
    deltas = np.asarray(delta, dtype=np.float64)
    valid = (deltas >= 0) & (deltas < 1)
    if not valid.all():
        raise InputError(f"delta must be at least 0 and below 1, not {deltas[~valid][0]}")


def check_rate(fpr: float) -> None:
    """Raise unless ``fpr`` is between 0 and 1."""
    if not 0 <= fpr <= 1:
        raise InputError(f"a false positive rate must be between 0 and 1, not {fpr}")
