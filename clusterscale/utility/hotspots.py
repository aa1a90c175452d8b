"""Which ROIs are the busiest, and in which order: raw against released, epoch by epoch."""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from clusterscale.contracts import Component, Share, Values
from clusterscale.kernel import kernel
from clusterscale.utility.pair import busiest, check_pair

__all__ = [
    "HotspotF1",
    "HotspotTau",
    "HotspotTauListwise",
    "hotspot_f1",
    "hotspot_tau",
    "hotspot_tau_listwise",
]


def hotspot_f1(raw: ArrayLike, released: ArrayLike, *, top: float = 0.1) -> float:
    """Return the share of the busiest ROIs that the release names, mean over epochs.

    POMACS20 eq. 3. Raw and released name equally many, so precision, recall and F1 are all this
    share.

    Parameters
    ----------
    raw
        Counts, real, shape (roi, epoch), visits.
    released
        Published values, real, shape (roi, epoch), visits.
    top
        Share of the ROIs that are hotspots, in (0, 1], rounded down, at least one ROI. They are
        ordered by descending count; equal counts, by index.

    Returns
    -------
    float
        Between 0 and 1; 1 if the hotspots are the same; about ``top`` for a guess.

    Raises
    ------
    InputError
        If shapes differ or are not (roi, epoch), a raw count is negative or not finite, a released
        value is not finite, raw has no counts at all, or ``top`` is not in (0, 1].
    """
    before, after = _by_epoch(raw, released)
    is_hotspot = np.zeros(before.shape, np.bool_)
    np.put_along_axis(is_hotspot, busiest(before, top), True, axis=1)
    return float(np.take_along_axis(is_hotspot, busiest(after, top), axis=1).mean())


def hotspot_tau(raw: ArrayLike, released: ArrayLike, *, top: float = 0.1) -> float:
    """Return Kendall's τ-b of raw and released counts over raw's hotspots, mean over epochs.

    POMACS20 eq. 4. An epoch whose τ is undefined, since all hotspots tie in raw or in released,
    counts 0: a release equal to the raw counts gets 1 if each epoch has two unequal hotspots.
    Parameters and errors are those of :func:`hotspot_f1`; the value is between −1 and 1.
    """
    before, after = _by_epoch(raw, released)
    hotspots = busiest(before, top)
    return _mean_tau(*(np.take_along_axis(rows, hotspots, axis=1) for rows in (before, after)))


def hotspot_tau_listwise(raw: ArrayLike, released: ArrayLike, *, top: float = 0.1) -> float:
    """Return Kendall's τ between the two ordered lists of hotspots' ids, mean over epochs.

    The i-th hotspot of raw is paired with the i-th of released, and positions of ROIs are taken as
    numbers. That depends on how ROIs are numbered, but it is what POMACS20's appendix A tabulates.
    An epoch with one hotspot counts 0. Parameters and errors are those of :func:`hotspot_f1`; the
    value is between −1 and 1.
    """
    before, after = _by_epoch(raw, released)
    return _mean_tau(*(busiest(rows, top).astype(np.float64) for rows in (before, after)))


def _by_epoch(raw: ArrayLike, released: ArrayLike) -> tuple[Values, Values]:
    before, after = check_pair(raw, released)
    return np.ascontiguousarray(before.T), np.ascontiguousarray(after.T)


def _mean_tau(first: Values, second: Values) -> float:
    taus = np.zeros(len(first))
    _tau_b(first, second, taus)
    return float(taus.mean())


@kernel
def _tau_b(first: Values, second: Values, taus: Values) -> None:
    """Store τ-b of each pair of rows, by looking at every two columns; undefined stays as it is."""
    for i in range(len(first)):
        net = n_first = n_second = 0
        for j in range(first.shape[1]):
            for k in range(j):
                x = int(first[i, j] > first[i, k]) - int(first[i, j] < first[i, k])
                y = int(second[i, j] > second[i, k]) - int(second[i, j] < second[i, k])
                net += x * y
                n_first += x * x
                n_second += y * y
        if n_first > 0 and n_second > 0:
            taus[i] = net / np.sqrt(float(n_first) * float(n_second))


class HotspotF1(Component):
    """Hotspots found again, as :func:`hotspot_f1` computes it (POMACS20 eq. 3)."""

    ideal: ClassVar[float] = 1.0
    title: ClassVar[str] = "hotspot F1"

    name: Literal["hotspot_f1"] = "hotspot_f1"
    top: Share = 0.1

    def measure(self, raw: ArrayLike, released: ArrayLike) -> float:
        """Return the F1 score, between 0 and 1."""
        return hotspot_f1(raw, released, top=self.top)


class HotspotTau(Component):
    """Order of raw's hotspots, as :func:`hotspot_tau` computes it (POMACS20 eq. 4)."""

    ideal: ClassVar[float] = 1.0
    title: ClassVar[str] = "hotspot τ-b"

    name: Literal["hotspot_tau"] = "hotspot_tau"
    top: Share = 0.1

    def measure(self, raw: ArrayLike, released: ArrayLike) -> float:
        """Return the rank correlation, between −1 and 1."""
        return hotspot_tau(raw, released, top=self.top)


class HotspotTauListwise(Component):
    """Lists of hotspots, as :func:`hotspot_tau_listwise` compares them (POMACS20 appendix A)."""

    ideal: ClassVar[float] = 1.0
    title: ClassVar[str] = "hotspot τ of ordered lists"

    name: Literal["hotspot_tau_listwise"] = "hotspot_tau_listwise"
    top: Share = 0.1

    def measure(self, raw: ArrayLike, released: ArrayLike) -> float:
        """Return the rank correlation, between −1 and 1."""
        return hotspot_tau_listwise(raw, released, top=self.top)
