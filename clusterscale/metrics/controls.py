"""Negative controls: where they differ from chance, and where an attack only matches a sum."""

import numpy as np
import scipy
from numpy.typing import NDArray

Cells = NDArray[np.bool_]
Floats = NDArray[np.float64]

_RISK = 0.01


def off_cells(*controls: Floats) -> list[Cells]:
    """Return the cells where controls differ from .5 by more than sampling error, bool, shape (…).

    ``controls`` are the AUCs of each, shape (…, target), NaN where not known. Two-sided t-tests
    over the targets of each cell, at a total risk of 1 in 100 for all cells of all controls
    (Bonferroni); cells with fewer than two known targets are not tested.
    """
    n_cells = sum(int(is_testable(values).sum()) for values in controls)
    level = _RISK / max(1, n_cells) / 2
    return [np.abs(_excess(values)) > _critical_distance(values, level) for values in controls]


def weak_cells(auc: Floats, naive: Floats) -> Cells:
    """Return the cells where a plain sum beats chance and the attack does no better, bool, (…).

    ``auc`` and ``naive`` are those of the attack and of the sum of all values, shape (…,
    target), NaN where not known. Where even the sum is at chance, an attack at chance is no
    sign of weakness: there may be nothing to find. One-sided t-tests, at a total risk of 1 in
    100, test whether the sum beats chance.
    """
    level = _RISK / max(1, int(is_testable(naive).sum()))
    beats_chance = _excess(naive) > _critical_distance(naive, level)
    return np.asarray(beats_chance & (_means(auc - naive) <= 1e-9))


def is_testable(values: Floats) -> Cells:
    """Return which cells, of values (…, target), have the two known targets that a test needs."""
    return np.asarray(np.isfinite(values).sum(axis=-1) >= 2)


def _means(values: Floats) -> Floats:
    """Return means over known targets, shape (…), NaN where there are none."""
    known = np.isfinite(values)
    n = known.sum(axis=-1)
    return np.where(n > 0, np.where(known, values, 0.0).sum(axis=-1) / np.maximum(n, 1), np.nan)


def _excess(values: Floats) -> Floats:
    return np.asarray(_means(values) - 0.5)


def _critical_distance(values: Floats, level: float) -> Floats:
    """Return the critical distance of means from chance at one-sided ``level``; NaN if untested."""
    n = np.isfinite(values).sum(axis=-1)
    freedom = np.maximum(n - 1, 1)
    deviation = values - _means(values)[..., None]
    squares = np.where(np.isfinite(deviation), deviation, 0.0) ** 2
    variance = squares.sum(axis=-1) / freedom
    distance = np.sqrt(variance / np.maximum(n, 1)) * scipy.stats.t.isf(level, freedom)
    # tolerance, so that rounding does not fail a control that is .5 for every target
    return np.where(n >= 2, distance + 1e-9, np.nan)
