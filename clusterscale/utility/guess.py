"""Baseline for every utility measure: random values that do not depend on the data."""

import numpy as np
from numpy.typing import ArrayLike

from clusterscale.contracts import Values
from clusterscale.errors import InputError

__all__ = ["random_guess"]


def random_guess(counts: ArrayLike, *, group_size: int, rng: np.random.Generator) -> Values:
    """Draw every value uniformly from 0, 1, …, ``group_size`` (POMACS20 Table 4).

    Only the shape of the counts is used.

    Parameters
    ----------
    counts
        Shape (…, roi, epoch).
    group_size
        Members of the group, the largest possible count.
    rng
        Source of the draws.

    Returns
    -------
    Values
        float64, the shape of ``counts``, visits.

    Raises
    ------
    InputError
        If ``counts`` has fewer than two axes, or the group has no members.
    """
    shape = np.shape(counts)
    if len(shape) < 2:
        raise InputError(f"counts {shape} must have the shape (…, roi, epoch)")
    if group_size < 1:
        raise InputError(f"a group has at least one member, not {group_size}")
    return rng.integers(group_size, size=shape, endpoint=True).astype(np.float64)
