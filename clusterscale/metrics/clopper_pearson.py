"""What rates on two sides of a threshold say about ε: shared by the bounds on ε.

Under (ε, δ)-privacy P(S | in) ≤ e^ε·P(S | out) + δ for every set S of scores, and the same with
*in* and *out* exchanged (Kairouz, Oh and Viswanath 2015). S is one side of a threshold.
"""

from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from clusterscale.errors import InputError

__all__ = [
    "ThresholdCounts",
    "bound",
    "check_confidence",
    "check_delta",
    "check_rate",
    "ratios",
    "tail_of",
]

Floats = NDArray[np.float64]

CAUTION = 10.0
"""How many times smaller the tail is by which a threshold is chosen than that which judges it.

The best of many thresholds is partly the luckiest, and luck is greatest where few rows are left.
Wider limits weigh against such thresholds. It is a matter of power only: whatever is chosen, and
however, is judged on other rows.
"""


class ThresholdCounts(NamedTuple):
    """Rows at or above each threshold, int arrays of shape (threshold,), and rows in all."""

    inside: NDArray[np.int64]
    n_inside: int
    outside: NDArray[np.int64]
    n_outside: int

    def at(self, threshold: int) -> "ThresholdCounts":
        """Return the tally of one threshold."""
        one = slice(threshold, threshold + 1)
        return ThresholdCounts(self.inside[one], self.n_inside, self.outside[one], self.n_outside)


def bound(
    choosing: ThresholdCounts, judging: ThresholdCounts, delta: float, confidence: float, tries: int
) -> float:
    """Return the ε that ``judging`` shows by the threshold and statement that ``choosing`` likes.

    Both tallies are over the same thresholds, of independent rows. The choice is the same for any
    number of tries, so that more of them never raise the bound.
    """
    check_delta(delta)
    wary, tail = tail_of(confidence, 1) / CAUTION, tail_of(confidence, tries)
    if not choosing.inside.size:
        return 0.0
    promised = ratios(choosing, delta, wary)
    statement, best = np.unravel_index(promised.argmax(), promised.shape)
    judged = ratios(judging.at(int(best)), delta, tail)[statement, 0]
    return float(np.log(max(judged, 1.0)))


def ratios(tally: ThresholdCounts, delta: float, tail: float) -> Floats:
    """Return what e^ε is at least, shape (statement, threshold), for the four statements.

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
    """Return exact limits of a share, each wrong with probability ``tail`` at most.

    Clopper and Pearson (1934), by quantiles of beta distributions; 0 below no hits and 1 above all.
    """
    none, every = hits == 0, hits == n
    low = scipy.special.betaincinv(np.where(none, 1, hits), n - hits + 1, tail)
    high = scipy.special.betainccinv(hits + 1, np.where(every, 1, n - hits), tail)
    return np.where(none, 0.0, low), np.where(every, 1.0, high)


def tail_of(confidence: float, tries: int) -> float:
    """Return the tail of each of the two limits of each of ``tries`` bounds (Bonferroni)."""
    check_confidence(confidence)
    if not tries >= 1 or tries % 1:
        raise InputError(f"tries is a whole number from 1 up, not {tries!r}")
    return (1.0 - confidence) / (2 * int(tries))


def check_confidence(confidence: float) -> None:
    """Raise unless ``confidence`` is strictly between 0 and 1."""
    if not 0 < confidence < 1:
        raise InputError(f"confidence is strictly between 0 and 1, not {confidence}")


def check_delta(delta: ArrayLike) -> None:
    """Raise unless every ``delta`` is at least 0 and below 1."""
    slips = np.asarray(delta, dtype=np.float64)
    fine = (slips >= 0) & (slips < 1)
    if not fine.all():
        raise InputError(f"delta is at least 0 and below 1, not {slips[~fine][0]}")


def check_rate(fpr: float) -> None:
    """Raise unless ``fpr`` is between 0 and 1."""
    if not 0 <= fpr <= 1:
        raise InputError(f"a false positive rate is between 0 and 1, not {fpr}")
