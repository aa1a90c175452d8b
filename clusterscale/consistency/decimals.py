"""Number of decimals with which values were written."""

from __future__ import annotations

import numpy as np

from clusterscale.contracts import Values

__all__ = ["MOST_DECIMALS", "decimals"]

MOST_DECIMALS = 9  # with more, a written number cannot be distinguished from a full float


def decimals(values: Values) -> int | None:
    """Return the smallest number of decimals that represents all values, None if more than 9.

    Parameters
    ----------
    values
        float64, any shape, finite. For an empty array the result is 0.
    """
    for n in range(MOST_DECIMALS + 1):
        if bool((np.round(values, n) == values).all()):
            return n
    return None
