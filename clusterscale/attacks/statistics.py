"""Seven statistics of every ROI's series: the features of NDSS18 §V-B."""

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Counts, Examples, Ints, Release, Values
from clusterscale.jit import kernel

STATISTICS = ("variance", "minimum", "maximum", "median", "mean", "standard_deviation", "sum")

_BINS = 256
_LEAST = 1e-290  # in a narrower range, bins cannot be distinguished

Features = NDArray[np.float64]

_CACHE: WeakKeyDictionary[Release, Features] = WeakKeyDictionary()


def features(release: Release) -> Features:
    """Return the statistics of a release, shape (group, roi * 7), computed once per release."""
    if release not in _CACHE:
        _CACHE[release] = summarise(release.values)
    return _CACHE[release]


def take_groups(examples: Examples, rows: Ints) -> Examples:
    """Return some of the groups, with their statistics if those of all were computed."""
    some = examples.take(rows)
    if examples.release in _CACHE:
        _CACHE[some.release] = _CACHE[examples.release][rows]
    return some


def summarise(values: Values | Counts) -> Features:
    """Return variance, minimum, maximum, median, mean, standard deviation and sum over epochs.

    ``values`` are float64 or int32, shape (group, roi, epoch); the result is float64, shape
    (group, roi * 7): the statistics of ROI 0, then of ROI 1, …; variance and standard deviation
    with ddof 0 (NDSS18 §V-B, tsfresh's definitions).
    """
    n_groups, n_rois, n_epochs = values.shape
    statistics = np.empty((n_groups * n_rois, len(STATISTICS)))
    series: Any = np.ascontiguousarray(values).reshape(n_groups * n_rois, n_epochs)
    whole = np.issubdtype(values.dtype, np.integer)
    _summarise(series, whole, np.int64(0) if whole else 0.0, statistics)
    return statistics.reshape(n_groups, -1)


@kernel
def _summarise(
    series: Values | Counts, whole: bool, zero: Any, statistics: NDArray[np.float64]
) -> None:
    """Write the statistics of each row; ``zero`` has the type of sums, which are exact if whole."""
    n_epochs = series.shape[1]
    tally = np.zeros(_BINS + 1, np.int64)
    near = np.empty(n_epochs)
    for i in range(series.shape[0]):
        total = squares = zero
        n_zero = np.int64(0)
        low = high = series[i, 0]
        for t in range(n_epochs):
            value = series[i, t]
            total += value
            squares += value * value
            n_zero += value == 0
            low = min(low, value)
            high = max(high, value)
        row = statistics[i]
        most = n_epochs * max(abs(float(low)), abs(float(high)))
        # 2.0**62: beyond this, 64-bit integers overflow
        if whole and most**2 < 2.0**62:
            row[0] = (n_epochs * squares - total * total) / n_epochs**2
        else:
            row[0] = _variance(series[i], total / n_epochs)
        row[1] = low
        row[2] = high
        if low == 0 and 2 * n_zero > n_epochs:  # most ROIs are empty most of the time
            row[3] = 0.0
        elif whole and high - low < _BINS:
            row[3] = _median_of_counts(series[i], low, high, tally)
        elif low == high or (np.isfinite(total) and _LEAST < high - low < np.inf):
            row[3] = _median_of_values(series[i], low, high, tally, near)
        else:
            row[3] = np.median(series[i])
        row[4] = total / n_epochs
        row[5] = np.sqrt(row[0])
        row[6] = total


@kernel
def _variance(series: Values | Counts, mean: float) -> float:
    spread = 0.0
    for value in series:
        spread += (value - mean) ** 2
    return spread / len(series)


@kernel
def _median_of_counts(
    series: Values | Counts, low: float, high: float, tally: NDArray[np.int64]
) -> float:
    """Return the median of integers whose range is below the number of bins, by counting."""
    tally[: int(high - low) + 1] = 0
    for value in series:
        tally[int(value - low)] += 1
    lower, upper, _ = _middle(tally, len(series))
    return low + (lower + upper) / 2


@kernel
def _median_of_values(
    series: Values | Counts,
    low: float,
    high: float,
    tally: NDArray[np.int64],
    near: NDArray[np.float64],
) -> float:
    """Return the median in two passes: find the bins of the middle, then sort their values.

    ``tally`` and ``near`` are work arrays, of the number of bins + 1 and of epochs.
    """
    if low == high:
        return float(low)
    n = len(series)
    per_bin = _BINS / (float(high) - float(low))
    tally[:] = 0
    for t in range(n):
        tally[int((series[t] - low) * per_bin)] += 1
    first, last, below = _middle(tally, n)
    n_near = 0
    for t in range(n):
        if first <= int((series[t] - low) * per_bin) <= last:
            near[n_near] = series[t]
            n_near += 1
    middle = near[:n_near]
    if middle.min() == middle.max():
        return float(middle[0])
    middle.sort()
    return float(middle[(n - 1) // 2 - below] + middle[n // 2 - below]) / 2


@kernel
def _middle(tally: NDArray[np.int64], n: int) -> tuple[int, int, int]:
    """Return the bins of the two middle of ``n`` values, and the count below the first bin."""
    first = below = 0
    while below + tally[first] <= (n - 1) // 2:
        below += tally[first]
        first += 1
    last, covered = first, below + tally[first]
    while covered <= n // 2:
        last += 1
        covered += tally[last]
    return first, last, below
