"""With how many decimals numbers were written."""

from __future__ import annotations

import numpy as np

from clusterscale.contracts import Values

__all__ = ["MOST_DECIMALS", "decimals"]

MOST_DECIMALS = 9  # beyond, a number written so cannot be told from a full float


def decimals(values: Values) -> int | None:
    """Return the fewest decimals that all values can be written with, None if more than 9.

    Parameters
    ----------
    values
        float64, any shape, finite. Of no value the answer is 0.
    """
    for n in range(MOST_DECIMALS + 1):
        if bool((np.round(values, n) == values).all()):
            return n
    return None
