"""What a stated guarantee implies for more than one changed unit."""

from __future__ import annotations

import numpy as np

__all__ = ["group_privacy"]


def group_privacy(epsilon: float, delta: float, n_units: int) -> tuple[float, float]:
    """Return what an (ε, δ) guarantee for one unit implies if ``n_units`` change.

    Nothing more follows from a guarantee alone: the same noise can be in everything published, as
    in a total with Laplace noise. Adding and removing are one change each; to replace somebody is
    to remove one and to add another, so it is two.

    Parameters
    ----------
    epsilon, delta
        The guarantee for one changed unit.
    n_units
        Number of changed units, at least 0.

    Returns
    -------
    tuple of float
        nε, and δ·Σ_{i<n} e^{iε}, at most 1 (Dwork and Roth 2014, Lemma 2.2).

    Examples
    --------
    >>> group_privacy(0.5, 0.0, 4)
    (2.0, 0.0)
    >>> group_privacy(0.0, 0.25, 2)
    (0.0, 0.5)
    """
    if n_units == 0:
        return 0.0, 0.0
    if delta == 0 or n_units == 1:
        return n_units * epsilon, min(delta, 1.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        times = float(np.expm1(n_units * epsilon) / np.expm1(epsilon)) if epsilon else n_units
    return n_units * epsilon, min(1.0, delta * times) if times < np.inf else 1.0
