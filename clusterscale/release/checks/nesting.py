"""Probability that a group looks like a subset of another by coincidence."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.contracts import Values

Flags = NDArray[np.bool_]
Whole = NDArray[np.int64]

_LONGEST = 24 * 7 * 2  # epochs: the longest lag at which changes are computed
_TINY = 1e-300


def coincidence(whole: Whole, part: Whole, exact: Flags, people: int, share: float) -> float:
    """Return the log probability that a disjoint group looks like a subset in every cell.

    In a cell with s visits, x of them by the smaller group, this requires 0 ≤ s − 2x ≤ ``people``,
    where x is binomial. A condition on all cells of a ROI is at most as likely as on its least
    likely cell; this first bound is valid however long people stay. The second bound multiplies
    the probabilities of the ROI's cells, using the smaller group's share of visits there. It
    treats cells as independent only as far as counts vary like those of independent visitors,
    whose mean square change is twice the mean; the change is smaller if the same people stay or
    return after any lag. The smaller bound is used, and the bounds of ROIs are multiplied.

    Parameters
    ----------
    whole, part
        int64, shape (roi, epoch): visits of the larger and of the smaller group.
    exact
        bool, shape (roi, epoch): cells where both are known; other cells are ignored.
    people
        Size of the larger group minus size of the smaller.
    share
        Members of the smaller group divided by the members of both groups together.
    """
    visits, part = np.where(exact, whole + part, 0), np.where(exact, part, 0)
    local_share = part.sum(axis=1, keepdims=True) / np.maximum(visits.sum(axis=1, keepdims=True), 1)
    least_likely = _log_chance(visits, people, np.full_like(local_share, share)).min(axis=1)
    product = _log_chance(visits, people, local_share).sum(axis=1) * _come_and_go(part, exact)
    return float(np.minimum(least_likely, product).sum())


def _log_chance(visits: Whole, people: int, share: Values) -> Values:
    law = scipy.stats.binom(visits, share)
    likely = law.cdf(visits // 2) - law.cdf((visits - people + 1) // 2 - 1)
    return np.asarray(np.log(np.clip(likely, _TINY, 1.0)))


def _come_and_go(counts: Whole, exact: Flags) -> Values:
    """Return the least mean square change over twice the mean, from 0 to 1, shape (roi,).

    Cells whose counts are not exact are assumed not to change.
    """
    n_epochs = counts.shape[1]
    mean = counts.sum(axis=1, keepdims=True) / np.maximum(exact.sum(axis=1, keepdims=True), 1)
    deviation = np.where(exact, counts - mean, 0.0)
    changes = [
        np.mean((deviation[:, lag:] - deviation[:, :-lag]) ** 2, axis=1)
        / np.maximum(2 * mean[:, 0], _TINY)
        for lag in range(1, min(n_epochs // 2, _LONGEST) + 1)
    ]
    return np.asarray(np.min(changes, axis=0, initial=1.0))
