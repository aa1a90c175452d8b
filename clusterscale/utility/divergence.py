"""How far the distribution of visits over ROIs moves, epoch by epoch."""

from math import log
from typing import ClassVar, Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clusterscale.contracts import Component, Values
from clusterscale.utility.pair import check_pair

__all__ = [
    "JensenShannon",
    "JensenShannonDistance",
    "jensen_shannon",
    "jensen_shannon_distance",
]


def jensen_shannon(raw: ArrayLike, released: ArrayLike) -> float:
    """Return the Jensen–Shannon divergence of visits over ROIs, mean over epochs (POMACS20 eq. 5).

    Parameters
    ----------
    raw
        Counts, real, shape (roi, epoch), visits. Epochs without any are left out.
    released
        Published values, real, shape (roi, epoch), visits. Negative values count as 0. An epoch
        that is left with nothing enters eq. 5 as it is, all zero, and is half a bit away: saying
        nothing misleads less than naming the wrong places. POMACS20's tables agree.

    Returns
    -------
    float
        In bits, between 0 (released is proportional to raw) and 1 (no ROI in common).

    Raises
    ------
    InputError
        If shapes differ or are not (roi, epoch), a raw count is negative or not finite, a released
        value is not finite, or raw has no counts at all.
    """
    return float(_divergences(raw, released).mean() / log(2))


def jensen_shannon_distance(raw: ArrayLike, released: ArrayLike) -> float:
    """Return the Jensen–Shannon distance of visits over ROIs, mean over epochs.

    The square root of the divergence in nats, so between 0 and √(ln 2) ≈ .833: what POMACS20's
    appendix A tabulates as *JS*. Parameters and errors are those of :func:`jensen_shannon`.
    """
    return float(np.sqrt(_divergences(raw, released)).mean())


def _divergences(raw: ArrayLike, released: ArrayLike) -> Values:
    """Return the divergence of every epoch that has raw counts, in nats, shape (epoch,)."""
    before, after = check_pair(raw, released)
    counted = before.any(axis=0)
    first, second = _shares(before[:, counted]), _shares(after[:, counted])
    both = first + second
    # 2p against p + q, not p against their mean, which may vanish where p does not.
    nats: Values = (
        scipy.special.rel_entr(2 * first, both) + scipy.special.rel_entr(2 * second, both)
    ).sum(axis=0) / 4
    return np.clip(nats, 0, log(2))


def _shares(values: Values) -> Values:
    """Return the share of every ROI in its epoch; an epoch without visits keeps its zeros."""
    mass = np.maximum(values, 0)
    for whole in (np.max, np.sum):  # by the largest first: the sum of huge values overflows
        total = whole(mass, axis=0)
        mass /= np.where(total > 0, total, 1)
    return mass


class JensenShannon(Component):
    """Divergence over ROIs, as :func:`jensen_shannon` computes it (POMACS20 eq. 5)."""

    ideal: ClassVar[float] = 0.0
    title: ClassVar[str] = "Jensen–Shannon divergence"

    name: Literal["jensen_shannon"] = "jensen_shannon"

    def measure(self, raw: ArrayLike, released: ArrayLike) -> float:
        """Return the divergence in bits, between 0 and 1."""
        return jensen_shannon(raw, released)


class JensenShannonDistance(Component):
    """Distance over ROIs, as :func:`jensen_shannon_distance` has it (POMACS20 appendix A)."""

    ideal: ClassVar[float] = 0.0
    title: ClassVar[str] = "Jensen–Shannon distance"

    name: Literal["jensen_shannon_distance"] = "jensen_shannon_distance"

    def measure(self, raw: ArrayLike, released: ArrayLike) -> float:
        """Return the distance, between 0 and √(ln 2)."""
        return jensen_shannon_distance(raw, released)
