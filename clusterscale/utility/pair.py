"""Validation of raw and released arrays, and selection of the busiest ROIs."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clusterscale.contracts import Values
from clusterscale.errors import InputError

__all__ = ["busiest", "check_pair", "mean_known"]


def check_pair(raw: ArrayLike, released: ArrayLike) -> tuple[Values, Values]:
    """Return raw counts and published values as float64, if they can be compared.

    Parameters
    ----------
    raw
        Real, shape (roi, epoch), visits: finite, not negative.
    released
        Real, shape (roi, epoch): finite.

    Raises
    ------
    InputError
        If either array violates this, or their shapes differ.
    """
    before, after = _as_real(raw, "raw"), _as_real(released, "released")
    if before.ndim != 2 or before.shape != after.shape:
        raise InputError(
            f"raw {before.shape} and released {after.shape} must have one shape (roi, epoch)"
        )
    if n_bad := int((~np.isfinite(before) | (before < 0)).sum()):
        raise InputError(f"{n_bad} of {before.size} raw counts are negative or not finite")
    if n_bad := int((~np.isfinite(after)).sum()):
        raise InputError(f"{n_bad} of {after.size} released values are not finite")
    return before, after


def mean_known(values: Values) -> float:
    """Return the mean of the values that are not NaN; NaN if there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def busiest(values: Values, top: float) -> NDArray[np.int64]:
    """Return the busiest ROIs, busiest first, equally busy ones by index.

    Parameters
    ----------
    values
        float64, shape (…, roi).
    top
        Share of the ROIs, in (0, 1]. It is rounded down to whole ROIs, at least one.

    Returns
    -------
    NDArray
        int64, shape (…, hotspot): indices of the ROIs.

    Raises
    ------
    InputError
        If ``top`` is out of range.
    """
    if not 0 < top <= 1:
        raise InputError(f"top must be a share of the ROIs, above 0 and at most 1, not {top}")
    # .29 * 100 is 28.999…96 in floating point: round up a product just below a whole number.
    n_top = max(1, int(top * values.shape[-1] * (1 + 1e-12)))
    return np.argsort(-values, axis=-1, kind="stable")[..., :n_top]


def _as_real(values: ArrayLike, name: str) -> Values:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} is {array.dtype}, not real numbers")
    return array.astype(np.float64)
