"""Negative controls: where they leave chance, and where an attack does no better than a sum."""

import numpy as np
import scipy
from numpy.typing import NDArray

__all__ = ["is_judged", "off_cells", "weak_cells"]

Cells = NDArray[np.bool_]
Floats = NDArray[np.float64]

_RISK = 0.01


def off_cells(*controls: Floats) -> list[Cells]:
    """Return where controls leave .5 by more than sampling explains.

    Two-sided t-tests over the targets of each cell, at a risk of 1 in 100 that is shared by all
    cells of all controls (Bonferroni).

    Parameters
    ----------
    *controls
        AUC of each control, shape (…, target); not a number where it is not known. Cells with
        fewer than two are not judged.

    Returns
    -------
    list of bool arrays
        One a control, shape (…).
    """
    n_cells = sum(int(is_judged(values).sum()) for values in controls)
    level = _RISK / max(1, n_cells) / 2
    return [np.abs(_lead(values)) > _reach(values, level) for values in controls]


def weak_cells(auc: Floats, naive: Floats) -> Cells:
    """Return where adding up beats chance and the attack does no better, bool, shape (…).

    Where even adding up is at chance, an attack at chance is no sign of weakness: there may be
    nothing to find. That it beats chance is told by one-sided t-tests at a shared risk of 1 in 100.

    Parameters
    ----------
    auc, naive
        Of the attack and of adding up, shape (…, target); not a number where not known.
    """
    level = _RISK / max(1, int(is_judged(naive).sum()))
    return np.asarray((_lead(naive) > _reach(naive, level)) & (_means(auc - naive) <= 1e-9))


def is_judged(values: Floats) -> Cells:
    """Return which cells have the two known targets that a test takes, bool, shape (…).

    ``values`` are floats, shape (…, target), NaN where not known.
    """
    return np.asarray(np.isfinite(values).sum(axis=-1) >= 2)


def _means(values: Floats) -> Floats:
    """Return means over known targets, shape (…), NaN where there are none."""
    known = np.isfinite(values)
    n = known.sum(axis=-1)
    return np.where(n > 0, np.where(known, values, 0.0).sum(axis=-1) / np.maximum(n, 1), np.nan)


def _lead(values: Floats) -> Floats:
    return np.asarray(_means(values) - 0.5)


def _reach(values: Floats, level: float) -> Floats:
    """Return how far means may be off chance at a one-sided ``level``; NaN where not usable."""
    n = np.isfinite(values).sum(axis=-1)
    few = np.maximum(n - 1, 1)
    away = values - _means(values)[..., None]
    variance = (np.where(np.isfinite(away), away, 0.0) ** 2).sum(axis=-1) / few
    reach = np.sqrt(variance / np.maximum(n, 1)) * scipy.stats.t.isf(level, few)
    # rounding alone must not condemn a control that is .5 for every target
    return np.where(n >= 2, reach + 1e-9, np.nan)
