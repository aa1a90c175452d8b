"""Correlation of published series with the counts."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from clusterscale.contracts import Values
from clusterscale.utility.measure import FunctionUtility, check_pair


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
