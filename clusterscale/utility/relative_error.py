"""How far published values are from the counts, relative to the counts."""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from clusterscale.contracts import Component, Positive, Share, Values
from clusterscale.errors import InputError
from clusterscale.utility.pair import busiest, check_pair

__all__ = [
    "BusiestRelativeError",
    "MeanRelativeError",
    "busiest_relative_error",
    "mean_relative_error",
]


def mean_relative_error(raw: ArrayLike, released: ArrayLike, *, floor: float = 0.001) -> float:
    """Return the mean over ROIs and epochs of |A' − A| / max(floor·Σ A, A).

    NDSS18 eq. 7, POMACS20 eq. 2; the sum is over the epochs of one ROI. Both texts state a floor
    of 0.1 %, but the published tables come out with ``floor=0.1``.

    Parameters
    ----------
    raw
        Counts A, real, shape (roi, epoch), visits. ROIs without any are left out.
    released
        Published values A', real, shape (roi, epoch), visits.
    floor
        Share of a ROI's total that a count is taken for at least, so that errors on small counts
        do not count too much.

    Returns
    -------
    float
        0 or more; 0 if the two are equal where there are counts.

    Raises
    ------
    InputError
        If shapes differ or are not (roi, epoch), a raw count is negative or not finite, a released
        value is not finite, raw has no counts at all, or ``floor`` is not a positive number.
    """
    before, after = check_pair(raw, released)
    return _relative_error(before, after, floor)


def busiest_relative_error(
    raw: ArrayLike, released: ArrayLike, *, top: float = 0.1, floor: float = 0.001
) -> float:
    """Return :func:`mean_relative_error` over the busiest ROIs only (POMACS20 §5.1, "MRE 10%").

    ``top`` is the share of ROIs, those of the largest total raw counts (ties by index), rounded
    down, at least one. Other parameters and errors are those of :func:`mean_relative_error`.

    Raises
    ------
    InputError
        Also if ``top`` is not in (0, 1].
    """
    before, after = check_pair(raw, released)
    kept = busiest(before.sum(axis=1), top)
    return _relative_error(before[kept], after[kept], floor)


def _relative_error(before: Values, after: Values, floor: float) -> float:
    if not 0 < floor < np.inf:
        raise InputError(f"floor is a share of a ROI's total count, above 0, not {floor}")
    visited = before.any(axis=1)
    before, after = before[visited], after[visited]
    least = floor * before.sum(axis=1, keepdims=True)
    return float(np.mean(np.abs(after - before) / np.maximum(least, before)))


class MeanRelativeError(Component):
    """Error relative to the counts, as :func:`mean_relative_error` computes it (NDSS18 eq. 7)."""

    ideal: ClassVar[float] = 0.0
    title: ClassVar[str] = "mean relative error"

    name: Literal["mean_relative_error"] = "mean_relative_error"
    floor: Positive = 0.001

    def measure(self, raw: ArrayLike, released: ArrayLike) -> float:
        """Return the error, 0 or more."""
        return mean_relative_error(raw, released, floor=self.floor)


class BusiestRelativeError(Component):
    """Error in the busiest ROIs, as :func:`busiest_relative_error` computes it (POMACS20 §5.1)."""

    ideal: ClassVar[float] = 0.0
    title: ClassVar[str] = "mean relative error, busiest ROIs"

    name: Literal["busiest_relative_error"] = "busiest_relative_error"
    top: Share = 0.1
    floor: Positive = 0.001

    def measure(self, raw: ArrayLike, released: ArrayLike) -> float:
        """Return the error, 0 or more."""
        return busiest_relative_error(raw, released, top=self.top, floor=self.floor)
