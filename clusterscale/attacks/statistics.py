"""Seven statistics of every ROI's series: the features of NDSS18 §V-B."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Release, Values
from clusterscale.kernel import kernel

__all__ = ["STATISTICS", "features", "summarise"]

STATISTICS = ("variance", "minimum", "maximum", "median", "mean", "standard_deviation", "sum")

Features = NDArray[np.float64]

_KNOWN: WeakKeyDictionary[Release, Features] = WeakKeyDictionary()


def features(release: Release) -> Features:
    """Return the statistics of a release, shape (group, roi * 7), worked out once a release."""
    if release not in _KNOWN:
        _KNOWN[release] = summarise(release.values)
    return _KNOWN[release]


def summarise(values: Values) -> Features:
    """Return variance, minimum, maximum, median, mean, standard deviation and sum over epochs.

    Parameters
    ----------
    values
        float64, shape (group, roi, epoch).

    Returns
    -------
    Features
        float64, shape (group, roi * 7): the statistics of ROI 0, then of ROI 1, …; variance and
        standard deviation with ddof 0 (NDSS18 §V-B, tsfresh's definitions).
    """
    found = np.empty((values.shape[0], values.shape[1], len(STATISTICS)))
    _summarise(np.ascontiguousarray(values), found)
    return found.reshape(len(values), -1)


@kernel
def _summarise(values: Values, found: NDArray[np.float64]) -> None:
    n_groups, n_rois, n_epochs = values.shape
    series = np.empty(n_epochs)
    tally = np.zeros(4 * n_epochs + 1, np.int64)
    for group in range(n_groups):
        for roi in range(n_rois):
            total = 0.0
            low = high = values[group, roi, 0]
            whole = True
            for t in range(n_epochs):
                value = values[group, roi, t]
                series[t] = value
                total += value
                low = min(low, value)
                high = max(high, value)
                whole = whole and value == np.floor(value)
            mean = total / n_epochs
            spread = 0.0
            for t in range(n_epochs):
                spread += (series[t] - mean) ** 2
            row = found[group, roi]
            row[0] = spread / n_epochs
            row[1] = low
            row[2] = high
            if whole and high - low < len(tally):
                row[3] = _median_by_counting(series, low, high, tally)
            else:
                parted = np.partition(series, n_epochs // 2)
                row[3] = parted[n_epochs // 2]
                if n_epochs % 2 == 0:
                    row[3] = (row[3] + parted[: n_epochs // 2].max()) / 2
            row[4] = mean
            row[5] = np.sqrt(row[0])
            row[6] = total


@kernel
def _median_by_counting(
    series: NDArray[np.float64], low: float, high: float, tally: NDArray[np.int64]
) -> float:
    """Find the median of small integers from their histogram, without sorting."""
    n = len(series)
    span = int(high - low) + 1
    tally[:span] = 0
    for t in range(n):
        tally[int(series[t] - low)] += 1
    seen = 0
    lower = -1
    for level in range(span):
        seen += tally[level]
        if lower < 0 and seen > (n - 1) // 2:
            lower = level
        if seen > n // 2:
            return low + (lower + level) / 2
    return low
