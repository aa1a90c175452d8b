"""Neighbourhood graph of ROIs: the Delaunay triangulation of their positions (POPETS24 §4.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.contracts import CellCoordinates
from clusterscale.errors import InputError

Floats = NDArray[np.float64]
Edges = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Neighbours of every ROI, compressed by ROI.

    Attributes
    ----------
    offsets
        int64, shape (roi + 1,): the neighbours of ``s`` are
        ``neighbours[offsets[s]:offsets[s + 1]]``.
    neighbours
        int64, shape (2 · edge,): increasing within an ROI.

    Raises
    ------
    InputError
        If offsets or neighbours are out of range.
    """

    offsets: Edges
    neighbours: Edges

    def __post_init__(self) -> None:
        offsets, near = self.offsets, self.neighbours
        inside = not len(near) or 0 <= near.min() <= near.max() < self.n_rois
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(near) or not inside:
            raise InputError(
                f"{len(near)} neighbours do not fit {self.n_rois} ROIs: offsets run from 0 to the "
                "number of neighbours, each of which is a ROI"
            )
        if (np.diff(offsets) < 0).any():
            raise InputError("offsets decrease")

    @property
    def n_rois(self) -> int:
        """Number of ROIs."""
        return len(self.offsets) - 1

    @classmethod
    def of(cls, n_rois: int, edges: Edges) -> Graph:
        """Return the graph of undirected ``edges``, int64, shape (edge, 2), in any order."""
        both = np.unique(np.concatenate([edges, edges[:, ::-1]]), axis=0)
        both = both[both[:, 0] != both[:, 1]]
        offsets = np.searchsorted(both[:, 0], np.arange(n_rois + 1))
        return cls(offsets.astype(np.int64), np.ascontiguousarray(both[:, 1]))


def triangulate(frame: CellCoordinates) -> Graph:
    """Return the Delaunay triangulation of ROIs.

    Positions are projected to a plane at the mean latitude, which changes no neighbourhood within a
    city. Two ROIs are always neighbours; collinear ROIs are neighbours in their order; ROIs at one
    position are connected to the first of them, which has all other edges. A single ROI has no
    edges. For points on a common circle, such as the corners of grid squares, either diagonal is a
    triangulation; the choice is the same on every machine.

    Parameters
    ----------
    frame
        Positions of the ROIs.

    Returns
    -------
    Graph
        Neighbours of each ROI.

    Raises
    ------
    InputError
        If a position is unknown.
    """
    lat, lon = np.asarray(frame.lat, np.float64), np.asarray(frame.lon, np.float64)
    if unknown := int((~np.isfinite(lat + lon)).sum()):
        raise InputError(
            f"{unknown} of {len(lat)} ROIs have no position, which is needed to find their "
            "neighbours: give lat and lon of each ROI when creating the cube"
        )
    if not len(lat):
        return Graph.of(0, np.zeros((0, 2), np.int64))
    lon = lon - 360 * np.rint((lon - lon[0]) / 360)  # ROIs across the antimeridian are near
    flat = np.column_stack([lon * np.cos(np.radians(lat.mean())), lat])
    points, first, same = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    coincident = np.column_stack([first[same.ravel()], np.arange(len(flat))])
    return Graph.of(len(flat), np.concatenate([first[_edges(points)], coincident]))


def _edges(places: Floats) -> Edges:
    """Return the edges between distinct positions, int64, shape (edge, 2)."""
    middle = places - places.mean(axis=0)
    size = np.abs(middle).max(initial=0.0)
    if len(places) > 2 and size > 0:
        _, spread, directions = np.linalg.svd(middle / size, full_matrices=False)
        if spread[1] > 1e-9 * spread[0]:
            return _triangles(middle / size)
        order = np.argsort(middle @ directions[0], kind="stable")
    else:
        order = np.arange(len(places))
    return np.column_stack([order[:-1], order[1:]]).astype(np.int64)


def _triangles(places: Floats) -> Edges:
    triangulation = scipy.spatial.Delaunay(places)
    corners = triangulation.simplices.astype(np.int64)
    edges = [corners[:, [i, j]] for i, j in ((0, 1), (1, 2), (2, 0))]
    left_out = np.setdiff1d(np.arange(len(places)), corners)
    if len(left_out):  # too close to other points for the precision of the triangulation
        others = np.unique(corners)
        _, nearest = scipy.spatial.KDTree(places[others]).query(places[left_out])
        edges.append(np.column_stack([left_out, others[nearest]]))
    return np.concatenate(edges)
