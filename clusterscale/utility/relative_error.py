"""Errors of published values relative to the counts."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from clusterscale.contracts import Positive, Share, Values
from clusterscale.errors import InputError
from clusterscale.utility.measure import FunctionUtility, busiest, check_pair, mean_known

NEARLY_EMPTY = 0.05
"""A release with a :func:`released_share` below this is nearly empty.

Less than one event in twenty is left, or less than one count in twenty is shown.
"""


def mean_relative_error(raw: ArrayLike, released: ArrayLike, *, floor: float = 0.001) -> float:
    """Return the mean over ROIs and epochs of |A' − A| / max(floor·Σ A, A).

    NDSS18 eq. 7, POMACS20 eq. 2; A are raw counts, A' published values, both real, shape (roi,
    epoch), visits, and the sum is over the epochs of one ROI. ROIs without raw counts are left
    out. The floor keeps errors on small counts from dominating; both texts state 0.1 %, but
    ``floor=0.1`` reproduces the published tables. 0 or more; 0 if the two are equal where there
    are counts; NaN if raw has no counts. Raises the errors of :func:`check_pair`, and
    InputError if ``floor`` is not a positive number.
    """
    before, after = check_pair(raw, released)
    return _relative_error(before, after, floor)


def busiest_relative_error(
    raw: ArrayLike, released: ArrayLike, *, top: float = 0.1, floor: float = 0.001
) -> float:
    """Return :func:`mean_relative_error` over the busiest ROIs only (POMACS20 §5.1, "MRE 10%").

    They are the share ``top``, in (0, 1], rounded down to at least one, with the largest total
    raw counts, ties by index.
    """
    before, after = check_pair(raw, released)
    kept = busiest(before.sum(axis=1), top)
    return _relative_error(before[kept], after[kept], floor)


def events_kept(raw: ArrayLike, released: ArrayLike) -> float:
    """Return the released total over the raw total, of the cells that have a raw count.

    Both arrays are real, shape (roi, epoch), visits. Values released in other cells are
    ignored, because no event was there. 1 if the totals are equal, 0 if nothing is released;
    above 1 where the release adds visits, below 0 where noise takes more away than there was;
    NaN if raw has no counts. Raises the errors of :func:`check_pair`.
    """
    before, after = check_pair(raw, released)
    counted = before > 0
    return float(after[counted].sum() / before[counted].sum()) if counted.any() else float("nan")


def released_share(raw: ArrayLike, released: ArrayLike) -> float:
    """Return the share of events, or of counts above 0, that is released; the smaller of the two.

    A few large counts can keep most events of a release that hides nearly all of its cells.
    Both arrays are real, shape (roi, epoch), visits; a hidden value is NaN. Negative values
    keep no events, and a count is shown if its published value is neither 0 nor hidden. 0 if
    nothing is released, at most 1; NaN if raw has no counts. Raises the errors of
    :func:`events_kept`, except for hidden values.
    """
    shown = np.nan_to_num(np.asarray(released, dtype=np.float64), nan=0.0)
    events = events_kept(raw, np.maximum(shown, 0))
    counted = np.asarray(raw) > 0
    return min(events, float(np.mean(shown[counted] != 0))) if counted.any() else events


def suppressed_share(raw: ArrayLike, released: ArrayLike) -> float:
    """Return the share of counts above 0 that the release hides or sets to 0 (POPETS24 Fig. 15).

    Both arrays are real, shape (roi, epoch), visits; a hidden value is NaN. A value that was only
    changed, even to one below 0, is not suppressed. Between 0 and 1; NaN if raw has no counts.
    Raises the errors of :func:`check_pair`, except for hidden values.
    """
    values = np.asarray(released)
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), 0.0, values)
    before, after = check_pair(raw, values)
    counted = before > 0
    return float((after[counted] == 0).mean()) if counted.any() else float("nan")


def _relative_error(before: Values, after: Values, floor: float) -> float:
    if not 0 < floor < np.inf:
        raise InputError(f"floor must be a share of a ROI's total count, above 0, not {floor}")
    visited = before.any(axis=1)
    before, after = before[visited], after[visited]
    least = floor * before.sum(axis=1, keepdims=True)
    return mean_known(np.abs(after - before) / np.maximum(least, before))


class MeanRelativeError(FunctionUtility):
    """Error relative to the counts, as :func:`mean_relative_error` computes it (NDSS18 eq. 7).

    Attributes
    ----------
    floor
        Least denominator, as a share of a ROI's total.
    """

    ideal = 0.0
    kind = "relative"
    phrase = "mean relative error"
    function = staticmethod(mean_relative_error)

    name: Literal["mean_relative_error"] = "mean_relative_error"
    floor: Positive = 0.001


class BusiestRelativeError(FunctionUtility):
    """Error in the busiest ROIs, as :func:`busiest_relative_error` computes it (POMACS20 §5.1).

    Attributes
    ----------
    top
        Share of ROIs that are the busiest.
    floor
        Least denominator, as a share of a ROI's total.
    """

    ideal = 0.0
    kind = "relative"
    phrase = "mean relative error, busiest ROIs"
    function = staticmethod(busiest_relative_error)

    name: Literal["busiest_relative_error"] = "busiest_relative_error"
    top: Share = 0.1
    floor: Positive = 0.001


class EventsKept(FunctionUtility):
    """Released total over raw total, as :func:`events_kept` computes it."""

    ideal = 1.0
    kind = "total"
    phrase = "events kept"
    events_only = True
    function = staticmethod(events_kept)

    name: Literal["events_kept"] = "events_kept"


class SuppressedShare(FunctionUtility):
    """Share of counts that are not shown, as :func:`suppressed_share` computes it."""

    ideal = 0.0
    kind = "share"
    phrase = "counts suppressed"
    events_only = True
    function = staticmethod(suppressed_share)

    name: Literal["suppressed_share"] = "suppressed_share"


def emptiness(share: float) -> str:
    """Return ``empty``, ``nearly empty`` or ``""`` for a :func:`released_share`; NaN is ``""``."""
    if share == 0:
        return "empty"
    return "nearly empty" if share < NEARLY_EMPTY else ""
