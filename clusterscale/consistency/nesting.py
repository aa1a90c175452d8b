"""How likely a group looks like a part of another without being one."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.contracts import Values

__all__ = ["coincidence"]

Flags = NDArray[np.bool_]
Whole = NDArray[np.int64]

_LONGEST = 24 * 7 * 2  # epochs after which nobody is looked for again
_TINY = 1e-300


def coincidence(whole: Whole, part: Whole, exact: Flags, people: int, share: float) -> float:
    """Return the logarithm of the chance that a group of others looks like a part in each cell.

    That is: of s visits to a cell, x of the smaller group, 0 ≤ s − 2x ≤ ``people``, where x is
    binomial. What holds in all cells of a ROI holds in any one of them, so the most telling is a
    bound however long people stay. The other bound multiplies its cells, for the share of visits
    that the smaller group has there, but only as far as its counts change as those of people do who
    come and go: their mean square change is 2 means, and less if the same people stay or come back
    at any distance. The lower bound counts; those of ROIs are multiplied.

    Parameters
    ----------
    whole, part
        int64, shape (roi, epoch): visits of the larger and of the smaller group.
    exact
        bool, shape (roi, epoch): where both are known; other cells are left out.
    people
        By how many the larger group is larger.
    share
        Of the members of both, those of the smaller group.
    """
    visits, part = np.where(exact, whole + part, 0), np.where(exact, part, 0)
    here = part.sum(axis=1, keepdims=True) / np.maximum(visits.sum(axis=1, keepdims=True), 1)
    one = _log_chance(visits, people, np.full_like(here, share)).min(axis=1)
    every = _log_chance(visits, people, here).sum(axis=1) * _come_and_go(part, exact)
    return float(np.minimum(one, every).sum())


def _log_chance(visits: Whole, people: int, share: Values) -> Values:
    law = scipy.stats.binom(visits, share)
    likely = law.cdf(visits // 2) - law.cdf((visits - people + 1) // 2 - 1)
    return np.asarray(np.log(np.clip(likely, _TINY, 1.0)))


def _come_and_go(counts: Whole, exact: Flags) -> Values:
    """Return the least mean square change over two means, from 0 to 1, shape (roi,).

    Where counts are not told exactly nothing is taken to change.
    """
    n_epochs = counts.shape[1]
    mean = counts.sum(axis=1, keepdims=True) / np.maximum(exact.sum(axis=1, keepdims=True), 1)
    away = np.where(exact, counts - mean, 0.0)
    changes = [
        np.mean((away[:, lag:] - away[:, :-lag]) ** 2, axis=1) / np.maximum(2 * mean[:, 0], _TINY)
        for lag in range(1, min(n_epochs // 2, _LONGEST) + 1)
    ]
    return np.asarray(np.min(changes, axis=0, initial=1.0))
