"""Compare which ROIs are the busiest, and in which order, in raw and released, by epoch."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clusterscale.contracts import Share, Values
from clusterscale.jit import kernel
from clusterscale.utility.measure import FunctionUtility, busiest, check_pair, mean_known


def hotspot_f1(raw: ArrayLike, released: ArrayLike, *, top: float = 0.1) -> float:
    """Return the F1 score of the busiest ROIs in the release, mean over epochs (POMACS20 eq. 3).

    The hotspots of an epoch are its busiest ROIs with a value above 0: fewer than the share
    ``top`` if few ROIs have a count, and none in an epoch that is released as zeros. Where raw
    and released have equally many hotspots, precision, recall and F1 are all the share of
    hotspots in common. Both arrays are real, shape (roi, epoch), visits; epochs without raw
    counts are left out. ``top``, in (0, 1], is rounded down to at least one ROI; equal values
    are ordered by index. Between 0 and 1; 1 if the hotspots are the same, 0 if nothing above 0
    is released, about ``top`` for a guess where all ROIs have counts; NaN if raw has no counts.
    Raises the errors of :func:`check_pair` and :func:`busiest`.
    """
    first, second = (_mark_hotspots(rows, top) for rows in _by_epoch(raw, released))
    n_common, n_both = (first & second).sum(axis=1), first.sum(axis=1) + second.sum(axis=1)
    return mean_known(2 * n_common / n_both)


def hotspot_tau(raw: ArrayLike, released: ArrayLike, *, top: float = 0.1) -> float:
    """Return Kendall's τ-b of raw and released counts over raw's hotspots, mean over epochs.

    POMACS20 eq. 4. Epochs in which raw's hotspots, as in :func:`hotspot_f1`, have no order,
    because there is one or all have the same count, are left out. An epoch in which only raw
    orders the hotspots, because all their released values are equal, counts 0. Between −1 and
    1; NaN if no epoch is left.
    """
    before, after = _by_epoch(raw, released)
    hotspots, n_hotspots = _list_hotspots(before, top)
    first, second = (np.take_along_axis(rows, hotspots, axis=1) for rows in (before, after))
    return _mean_tau(first, second, n_hotspots, n_hotspots)


def hotspot_tau_listwise(raw: ArrayLike, released: ArrayLike, *, top: float = 0.1) -> float:
    """Return Kendall's τ-b between the two ordered lists of hotspots' ids, mean over epochs.

    The i-th hotspot of raw, as in :func:`hotspot_f1`, is paired with the i-th of released, and
    indices of ROIs are used as values. The result depends on how ROIs are numbered, but
    POMACS20's appendix A tabulates it. Where the release has fewer hotspots than raw, pairs
    with a missing one count as ties; where it has more, the rest of its list is not used.
    Epochs with one hotspot are left out. Between −1 and 1; NaN if no epoch is left.
    """
    lists = [_list_hotspots(rows, top) for rows in _by_epoch(raw, released)]
    (first, n_first), (second, n_second) = lists
    n_compared = np.minimum(n_first, n_second)
    return _mean_tau(first.astype(np.float64), second.astype(np.float64), n_first, n_compared)


def _by_epoch(raw: ArrayLike, released: ArrayLike) -> tuple[Values, Values]:
    """Return the epochs that have a raw count, shape (epoch, roi)."""
    before, after = check_pair(raw, released)
    counted = before.any(axis=0)
    return np.ascontiguousarray(before[:, counted].T), np.ascontiguousarray(after[:, counted].T)


def _list_hotspots(rows: Values, top: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the busiest ROIs of each epoch, busiest first, and how many of them are above 0."""
    ranked = busiest(rows, top)
    return ranked, (np.take_along_axis(rows, ranked, axis=1) > 0).sum(axis=1)


def _mark_hotspots(rows: Values, top: float) -> NDArray[np.bool_]:
    is_hotspot = np.zeros(rows.shape, np.bool_)
    np.put_along_axis(is_hotspot, busiest(rows, top), True, axis=1)
    return is_hotspot & (rows > 0)


def _mean_tau(
    first: Values, second: Values, n_first: NDArray[np.int64], n_second: NDArray[np.int64]
) -> float:
    """Return the mean τ-b of pairs of rows, over the first ``n_first`` values of each."""
    taus = np.full(len(first), np.nan)
    _tau_b(first, second, n_first, n_second, taus)
    return mean_known(taus)


@kernel
def _tau_b(
    first: Values,
    second: Values,
    n_first: NDArray[np.int64],
    n_second: NDArray[np.int64],
    taus: Values,
) -> None:
    """Store τ-b of each pair of rows, by comparing every two columns.

    Values beyond ``n_second`` are missing and tie with all others. τ stays as it is where ``first``
    has no order, and is 0 where only ``second`` has none.
    """
    for i in range(len(first)):
        net = n_ordered = n_ordered_second = 0
        for j in range(n_first[i]):
            for k in range(j):
                x = int(first[i, j] > first[i, k]) - int(first[i, j] < first[i, k])
                y = 0
                if j < n_second[i]:
                    y = int(second[i, j] > second[i, k]) - int(second[i, j] < second[i, k])
                net += x * y
                n_ordered += x * x
                n_ordered_second += y * y
        if n_ordered > 0:
            ordered = np.sqrt(float(n_ordered) * float(n_ordered_second))
            taus[i] = net / ordered if n_ordered_second > 0 else 0.0


class HotspotF1(FunctionUtility):
    """F1 score of hotspots, as :func:`hotspot_f1` computes it (POMACS20 eq. 3).

    Attributes
    ----------
    top
        Share of ROIs that are hotspots.
    """

    ideal = 1.0
    phrase = "hotspot F1"
    function = staticmethod(hotspot_f1)

    name: Literal["hotspot_f1"] = "hotspot_f1"
    top: Share = 0.1


class HotspotTau(FunctionUtility):
    """Order of raw's hotspots, as :func:`hotspot_tau` computes it (POMACS20 eq. 4).

    Attributes
    ----------
    top
        Share of ROIs that are hotspots.
    """

    ideal = 1.0
    phrase = "hotspot τ-b"
    function = staticmethod(hotspot_tau)

    name: Literal["hotspot_tau"] = "hotspot_tau"
    top: Share = 0.1


class HotspotTauListwise(FunctionUtility):
    """Lists of hotspots, as :func:`hotspot_tau_listwise` compares them (POMACS20 appendix A).

    Attributes
    ----------
    top
        Share of ROIs that are hotspots.
    """

    ideal = 1.0
    phrase = "hotspot τ of ordered lists"
    function = staticmethod(hotspot_tau_listwise)

    name: Literal["hotspot_tau_listwise"] = "hotspot_tau_listwise"
    top: Share = 0.1
