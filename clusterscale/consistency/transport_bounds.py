"""Cells of a table that follow from its totals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from clusterscale.consistency.bridges import bridges
from clusterscale.errors import InputError

__all__ = ["Solution", "solve"]

Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

_SOURCE, _SINK, _HUB = 0, 1, 2
_MOST = int(np.iinfo(np.int32).max)  # a flow is counted in 32 bits


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """One table that has the totals, and where every other one is the same.

    Attributes
    ----------
    counts
        int64, shape (roi, epoch), visits.
    sure
        bool, shape (roi, epoch): cells that are the same in every table with these totals and
        bounds, those whose bounds leave no choice too.
    """

    counts: Whole
    sure: Flags


def solve(
    low: Whole, high: Whole, roi_totals: NDArray[np.float64], epoch_totals: NDArray[np.float64]
) -> Solution | None:
    """Return what totals tell of cells that are known to lie between bounds.

    A table with the totals is a flow from ROIs to epochs, and is found as one. Another one is
    reached along a cycle of cells that can be raised and lowered in turn, so a cell is sure if it
    lies on no such cycle: if its ends are not strongly connected by what can still change, or if
    it is a bridge of what is (Gusfield 1988; Boesch and Tindell 1980). ROIs and epochs without a
    total are one node, for what flows there is free.

    Parameters
    ----------
    low, high
        int64, shape (roi, epoch): the least and largest count of each cell, visits.
    roi_totals, epoch_totals
        float64, shapes (roi,) and (epoch,): whole numbers, NaN = not known.

    Returns
    -------
    Solution or None
        None where no table has these totals.

    Raises
    ------
    InputError
        If totals are too large for a flow, from 2³¹ on.
    """
    room = high - low
    rois, epochs = roi_totals - low.sum(axis=1), epoch_totals - low.sum(axis=0)
    for left, most in ((rois, room.sum(axis=1)), (epochs, room.sum(axis=0))):
        if (left < 0).any() or (left > most).any():
            return None
    roi_nodes, epoch_nodes = _numbered(rois, _HUB + 1), _numbered(epochs, _HUB + 1 + len(rois))
    roi, epoch = np.nonzero(room)
    edges = _Edges(roi_nodes[roi], epoch_nodes[epoch], room[roi, epoch], _HUB + 1 + sum(low.shape))
    flow = edges.flow(_supplies(rois, epochs, roi_nodes, epoch_nodes, edges.n_nodes))
    if flow is None:
        return None
    counts, sure = low.copy(), room == 0
    counts[roi, epoch] += flow
    sure[roi, epoch] = ~edges.on_cycles(flow)
    return Solution(counts, sure)


def _numbered(left: NDArray[np.float64], first: int) -> Whole:
    """Return the node of each ROI or epoch, the hub where there is no total."""
    return np.where(np.isnan(left), _HUB, np.arange(first, first + len(left)))


def _supplies(
    rois: NDArray[np.float64],
    epochs: NDArray[np.float64],
    roi_nodes: Whole,
    epoch_nodes: Whole,
    n_nodes: int,
) -> Whole:
    """Return what comes out of each node, less what goes in, shape (node,)."""
    supply = np.zeros(n_nodes, np.int64)
    np.add.at(supply, roi_nodes, np.nan_to_num(rois).astype(np.int64))
    np.subtract.at(supply, epoch_nodes, np.nan_to_num(epochs).astype(np.int64))
    supply[_HUB] = -supply[_HUB + 1 :].sum()
    return supply


@dataclass(frozen=True, slots=True, eq=False)
class _Edges:
    """Cells with a choice, as edges from the node of a ROI to that of an epoch.

    Attributes
    ----------
    out, into
        int64, shape (edge,): nodes.
    room
        int64, shape (edge,): the most that can flow.
    n_nodes
        Nodes, with source, sink and hub.
    """

    out: Whole
    into: Whole
    room: Whole
    n_nodes: int

    def flow(self, supply: Whole) -> Whole | None:
        """Return a flow that meets the supply of each node, shape (edge,), None if none does."""
        due = int(supply[supply > 0].sum())
        if due > _MOST:
            raise InputError(f"totals leave {due:,} visits open: more than can be solved for")
        if np.any(supply[~np.isin(np.arange(self.n_nodes), self._ends)]):
            return None  # a total that no cell can make up
        givers, takers = np.flatnonzero(supply > 0), np.flatnonzero(supply < 0)
        out = np.concatenate([self.out, np.full(len(givers), _SOURCE), takers])
        into = np.concatenate([self.into, givers, np.full(len(takers), _SINK)])
        room = np.concatenate([self.room, supply[givers], -supply[takers]])
        keep = out != into
        graph = self._graph(room[keep], out[keep], into[keep])
        graph.data = np.minimum(graph.data, _MOST)
        found = scipy.sparse.csgraph.maximum_flow(graph.astype(np.int32), _SOURCE, _SINK)
        if found.flow_value < due:
            return None
        return self._shared(found.flow.tocoo())

    def _graph(self, data: NDArray[Any], out: Whole, into: Whole) -> sparse.csr_array:
        """Return edges as SciPy's graph algorithms take them: nodes are int32."""
        nodes = out.astype(np.int32), into.astype(np.int32)
        return sparse.coo_array((data, nodes), (self.n_nodes, self.n_nodes)).tocsr()

    @property
    def _ends(self) -> Whole:
        return np.unique(np.concatenate([self.out, self.into]))

    def _shared(self, flow: sparse.coo_array) -> Whole:
        """Return the flow of each edge, where edges between the same nodes are filled in turn."""
        order = np.lexsort((self.into, self.out))
        out, into, room = self.out[order], self.into[order], self.room[order]
        total = np.where(out == into, 0, np.maximum(_looked_up(flow, out, into), 0))
        filled = np.cumsum(room) - room
        new = np.r_[True, (np.diff(out) != 0) | (np.diff(into) != 0)][: len(out)]
        filled -= filled[new][np.cumsum(new) - 1] if len(out) else 0
        found = np.empty_like(total)
        found[order] = np.clip(total - filled, 0, room)
        return found

    def on_cycles(self, flow: Whole) -> Flags:
        """Return which edges can carry another flow, shape (edge,)."""
        up, down = flow < self.room, flow > 0
        out = np.concatenate([self.out[up], self.into[down]])
        into = np.concatenate([self.into[up], self.out[down]])
        graph = self._graph(np.ones(len(out), np.int8), out, into)
        _, part = scipy.sparse.csgraph.connected_components(graph, connection="strong")
        inside = part[self.out] == part[self.into]
        inside[inside] = ~bridges(np.array([self.out, self.into])[:, inside], self.n_nodes)
        return np.asarray(inside)


def _looked_up(matrix: sparse.coo_array, row: Whole, column: Whole) -> Whole:
    """Return entries of a sparse matrix, 0 where it has none, shape (entry,)."""
    keys = matrix.row * np.int64(matrix.shape[1]) + matrix.col
    order = np.argsort(keys)
    wanted = row * matrix.shape[1] + column
    at = np.minimum(np.searchsorted(keys, wanted, sorter=order), max(len(keys) - 1, 0))
    found = np.zeros(len(wanted), np.int64)
    if len(keys):
        at = order[at]
        found = np.where(keys[at] == wanted, matrix.data[at].astype(np.int64), 0)
    return found
