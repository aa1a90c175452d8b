"""How far a mean over targets can be trusted."""

import numpy as np
from numpy.typing import NDArray

from clusterscale.seeds import stream

__all__ = ["mean_interval"]

_N_RESAMPLES = 4000
_BATCH = 1_000_000  # indices drawn at once


def mean_interval(values: NDArray[np.float64], *, confidence: float = 0.95) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean (Efron and Tibshirani 1993, ch. 13).

    Parameters
    ----------
    values
        Shape (target,), one number a target, none of them NaN.
    confidence
        Between 0 and 1.

    Returns
    -------
    tuple of float
        Low and high end; NaN both when fewer than two values leave nothing to resample. The
        draws depend only on the number of values, so the same results give the same interval.
    """
    n = len(values)
    if n < 2:
        return float("nan"), float("nan")
    rng = stream(0, "report", "mean_interval", n)
    # in batches: thousands of targets must not become a gigabyte of indices
    batch = max(1, _BATCH // n)
    means = [
        values[rng.integers(n, size=(min(batch, _N_RESAMPLES - start), n))].mean(axis=1)
        for start in range(0, _N_RESAMPLES, batch)
    ]
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return float(low), float(high)
