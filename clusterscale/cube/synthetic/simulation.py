"""Parts of the simulations: synthetic cities, and diaries of users.

A diary holds the reports of a user in chronological order. It is one int32 array of shape
(report + 1, 2): row 0 holds the number of reports, each further row a place and an epoch. It is one
array rather than a tuple of arrays because passing arrays between kernels is costly.
"""

import numpy as np
from numpy.typing import NDArray

from clusterscale import seeds
from clusterscale.contracts import Ints
from clusterscale.cube.regions import Regions
from clusterscale.jit import kernel

Floats = NDArray[np.float64]

KM_PER_DEGREE = 111.2  # of latitude, and of longitude at the equator


def scatter(
    name: str, label: str, n_rois: int, *, lat: float, lon: float, radius: float, spacing: float
) -> Regions:
    """Scatter regions around a centre, dense in the middle, none closer than ``spacing``.

    The layout depends on ``name`` and not on the seed of a cube: cubes of different seeds have
    different users in the same city. ``label`` is the prefix of region names, ``lat`` and ``lon``
    the centre in degrees; about half of the regions are within ``radius`` km of it.
    """
    rng = seeds.stream(0, "synthetic", name, "layout")
    points = np.empty((n_rois, 2))
    n = 0
    while n < n_rois:
        angle = 2 * np.pi * rng.random()
        # The median of Gamma(2, 1) is 1.678: density decreases from the centre outwards.
        point = radius / 1.678 * rng.gamma(2.0) * np.array([np.sin(angle), np.cos(angle)])
        if n == 0 or np.hypot(*(points[:n] - point).T).min() >= spacing:
            points[n] = point
            n += 1
    width = len(str(n_rois))
    names = tuple(f"{label}-{i:0{width}d}" for i in range(n_rois))
    north, east = points.T / KM_PER_DEGREE
    return Regions(names, lat + north, lon + east / np.cos(np.radians(lat)))


def from_centre(regions: Regions) -> Floats:
    """Return the distance in km of each region from their mean, shape (roi,), flat-earth."""
    north = regions.lat - regions.lat.mean()
    east = np.cos(np.radians(regions.lat.mean())) * (regions.lon - regions.lon.mean())
    return np.asarray(KM_PER_DEGREE * np.hypot(north, east))


def distances(regions: Regions) -> Floats:
    """Return the distance in km between any two regions, shape (roi, roi), flat-earth."""
    north, east = regions.lat, np.cos(np.radians(regions.lat.mean())) * regions.lon
    return np.asarray(KM_PER_DEGREE * np.hypot(north[:, None] - north, east[:, None] - east))


def heavy_tailed(name: str, n_rois: int, *, sigma: float, cap: float) -> Floats:
    """Return popularities exp(sigma · normal), none above ``cap`` medians, shape (roi,)."""
    rng = seeds.stream(0, "synthetic", name, "popularity")
    return np.minimum(np.exp(sigma * rng.standard_normal(n_rois)), cap)


def cumulative(weights: Floats) -> Floats:
    """Return the cumulative share of ``weights``, ready for a binary search; the last is 1."""
    total = np.cumsum(weights)
    total /= total[-1]
    total[-1] = 1.0
    return total


def choose(shares: Floats, uniform: Floats) -> NDArray[np.int32]:
    """Return the region for each number in [0, 1), given :func:`cumulative` shares."""
    return np.searchsorted(shares, uniform, side="right").astype(np.int32)


Cells = NDArray[np.int32]
Diary = NDArray[np.int32]

PLACE, EPOCH = 0, 1


@kernel
def blank_diary(n_reports: int) -> Diary:
    """Return a diary with room for ``n_reports``; further reports are dropped."""
    return np.zeros((n_reports + 1, 2), np.int32)


@kernel
def start_over(diary: Diary) -> None:
    """Delete all reports."""
    diary[0, 0] = 0


@kernel
def note(diary: Diary, place: int, epoch: int) -> None:
    """Report one of the user's places in ``epoch``, not earlier than the last report."""
    n = diary[0, 0] + 1
    if n < len(diary):
        diary[n, PLACE] = place
        diary[n, EPOCH] = epoch
        diary[0, 0] = n


@kernel
def add_place(rois: Ints, n: int, roi: int) -> int:
    """Append a region to the ``n`` places of a user, unless it is one; return their number."""
    for i in range(n):
        if rois[i] == roi:
            return n
    rois[n] = roi
    return n + 1


@kernel
def collect(diary: Diary, rois: Ints, n_epochs: int, cells: Cells, start: int) -> int:
    """Write the reports from ``cells[start]`` on as increasing cells; return the end index.

    ``rois`` are the ROIs of the user's places, all different. A place that is reported more than
    once in an epoch counts once; reports after the last epoch are ignored. Reports are in
    chronological order, so one counting sort by place suffices.
    """
    n = diary[0, 0]
    while n > 0 and diary[n, EPOCH] >= n_epochs:
        n -= 1
    ends = np.zeros(len(rois), np.int64)  # first the cells per place, then their end index
    latest = np.full(len(rois), -1, np.int32)
    for i in range(1, n + 1):
        place, epoch = diary[i, PLACE], diary[i, EPOCH]
        if latest[place] == epoch:
            diary[i, PLACE] = -1
        else:
            latest[place] = epoch
            ends[place] += 1
    end = start
    for place in np.argsort(rois):
        size = ends[place]
        ends[place] = end
        end += size
    for i in range(1, n + 1):
        place, epoch = diary[i, PLACE], diary[i, EPOCH]
        if place >= 0:
            cells[ends[place]] = rois[place] * n_epochs + epoch
            ends[place] += 1
    return end
