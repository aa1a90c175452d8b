"""Distances between the raw and the released distribution of visits over ROIs, by epoch."""

from math import log
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clusterscale.contracts import Values
from clusterscale.utility.measure import FunctionUtility, check_pair, mean_known


def pearson(raw: ArrayLike, released: ArrayLike) -> float:
    """Return the correlation of raw and released counts over time, mean over ROIs (POMACS20 eq. 6).

    Both are real, shape (roi, epoch), visits. ROIs with the same raw count in all epochs are
    left out; a ROI whose released values are all the same counts 0. Between −1 and 1; 1 if
    every series is an increasing affine function of its counts; NaN if no ROI's counts vary.
    Raises the errors of :func:`check_pair`.
    """
    before, after = check_pair(raw, released)
    varies = (before != before[:, :1]).any(axis=1)
    if not varies.any():
        return float("nan")
    first, second = _standardise(before[varies]), _standardise(after[varies])
    # For vectors of norm 1, first · second = 1 - |first - second|² / 2: exactly 1 for equal series.
    correlation = np.clip(1 - ((first - second) ** 2).sum(axis=1) / 2, -1, 1)
    return float(np.where(second.any(axis=1), correlation, 0).mean())


def _standardise(series: Values) -> Values:
    """Return series of mean 0 and norm 1; a constant series becomes exactly 0."""
    # Subtract the minimum first: a constant is then exactly 0, without rounding errors.
    series = series - series.min(axis=1, keepdims=True)
    series /= _or_one(series.max(axis=1, keepdims=True))
    series -= series.mean(axis=1, keepdims=True)
    series /= _or_one(np.linalg.norm(series, axis=1, keepdims=True))
    return series


def _or_one(divisors: Values) -> Values:
    return np.where(divisors > 0, divisors, 1)


class Pearson(FunctionUtility):
    """Correlation over time, as :func:`pearson` computes it (POMACS20 eq. 6)."""

    ideal = 1.0
    phrase = "Pearson correlation"
    function = staticmethod(pearson)

    name: Literal["pearson"] = "pearson"


def jensen_shannon(raw: ArrayLike, released: ArrayLike) -> float:
    """Return the Jensen–Shannon divergence of visits over ROIs, mean over epochs (POMACS20 eq. 5).

    Both arrays are real, shape (roi, epoch), visits. Epochs without raw counts are left out,
    and negative released values count as 0. An epoch without a value above 0 enters eq. 5 as
    zeros, which gives half a bit, less than a release in the wrong ROIs. POMACS20's tables
    agree. In bits, between 0 (released is proportional to raw) and 1 (no ROI in common); NaN if
    raw has no counts. Raises the errors of :func:`check_pair`.
    """
    return mean_known(_divergences(raw, released)) / log(2)


def jensen_shannon_distance(raw: ArrayLike, released: ArrayLike) -> float:
    """Return the Jensen–Shannon distance of visits over ROIs, mean over epochs.

    The square root of the divergence of :func:`jensen_shannon` in nats: what POMACS20's
    appendix A tabulates as *JS*. Between 0 and √(ln 2) ≈ .833; NaN if raw has no counts.
    """
    return mean_known(np.sqrt(_divergences(raw, released)))


def total_variation(raw: ArrayLike, released: ArrayLike) -> float:
    """Return the total-variation distance of visits over ROIs, mean over epochs.

    Half the sum over ROIs of |p' − p|, where p and p' are the shares of the ROIs in the raw and
    the released total of an epoch: the share of visits that the release puts elsewhere. Both
    arrays are real, shape (roi, epoch), visits. Epochs without raw counts are left out, and
    negative released values count as 0; an epoch without a value above 0 counts 1, since all
    visits are lost. Between 0 (released is proportional to raw) and 1 (no ROI in common, or
    nothing released); NaN if raw has no counts. Raises the errors of :func:`check_pair`.
    """
    first, second = _epoch_shares(raw, released)
    distances = np.minimum(np.abs(first - second).sum(axis=0) / 2, 1)
    return mean_known(np.where(second.any(axis=0), distances, 1))


def _divergences(raw: ArrayLike, released: ArrayLike) -> Values:
    """Return the divergence of every epoch that has raw counts, in nats, shape (epoch,)."""
    first, second = _epoch_shares(raw, released)
    both = first + second
    # 2p against p + q, not p against their mean, which can underflow to 0 where p does not.
    nats: Values = (
        scipy.special.rel_entr(2 * first, both) + scipy.special.rel_entr(2 * second, both)
    ).sum(axis=0) / 4
    return np.clip(nats, 0, log(2))


def _epoch_shares(raw: ArrayLike, released: ArrayLike) -> tuple[Values, Values]:
    """Return the shares of ROIs in the epochs that have raw counts, shape (roi, epoch)."""
    before, after = check_pair(raw, released)
    counted = before.any(axis=0)
    return _shares(before[:, counted]), _shares(after[:, counted])


def _shares(values: Values) -> Values:
    """Return the share of every ROI in its epoch; 0 in an epoch without visits."""
    mass = np.maximum(values, 0)
    for reduce in (np.max, np.sum):  # by the maximum first: the sum of huge values overflows
        total = reduce(mass, axis=0, initial=0)
        mass /= np.where(total > 0, total, 1)
    return mass


class JensenShannon(FunctionUtility):
    """Divergence over ROIs, as :func:`jensen_shannon` computes it (POMACS20 eq. 5)."""

    ideal = 0.0
    phrase = "Jensen–Shannon divergence"
    function = staticmethod(jensen_shannon)

    name: Literal["jensen_shannon"] = "jensen_shannon"


class JensenShannonDistance(FunctionUtility):
    """Distance over ROIs, by :func:`jensen_shannon_distance` (POMACS20 appendix A)."""

    ideal = 0.0
    phrase = "Jensen–Shannon distance"
    function = staticmethod(jensen_shannon_distance)

    name: Literal["jensen_shannon_distance"] = "jensen_shannon_distance"


class TotalVariation(FunctionUtility):
    """Share of visits put elsewhere, as :func:`total_variation` computes it."""

    ideal = 0.0
    phrase = "total-variation distance"
    events_only = True
    function = staticmethod(total_variation)

    name: Literal["total_variation"] = "total_variation"
