"""Check for hidden cells that follow from totals published with the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from clusterscale.contracts import Count, Values
from clusterscale.errors import InputError
from clusterscale.jit import kernel
from clusterscale.mechanisms.rounding import RoundToBase
from clusterscale.mechanisms.scaling import BottomCode, Expand, ShareOfTotal, TopCode
from clusterscale.release.checks.table import (
    Check,
    CheckResult,
    Flags,
    PublishedTable,
    Whole,
    agree,
    count_bounds,
    fill_suppressed,
    smallest_shown,
    steps_of,
    suppressed_up_to,
)
from clusterscale.validation_messages import plural

_ROUNDING = 1e-6  # of a visit: sums of floats
_CHANGE_TOTALS = (RoundToBase, Expand, ShareOfTotal, TopCode, BottomCode)


class Totals(Check):
    """Check whether redacted or suppressed cells follow from totals of ROIs and of epochs.

    The check computes exactly which cells are equal in all tables of whole numbers that match the
    published values and the totals (Gusfield 1988). It is inconsistent if a hidden cell is
    determined, other than a published 0 whose count is 0, or if no table has these totals.

    Totals are assumed to be those of the true counts. If each is the sum of the published cells,
    they add no information. A total of 0 next to suppressed cells may be suppressed itself and is
    ignored. For tables with noise the result is unknown, as no cell is determined exactly; and for
    values that are rounded, expanded, cut or relative, since totals may be changed likewise.

    Attributes
    ----------
    small
        Number of people below which a count discloses, e.g. ``5``; None: by the mechanism.
    """

    name: Literal["totals"] = "totals"
    compares: ClassVar[bool] = False
    small: Count | None = None

    def check(
        self, table: PublishedTable, others: Sequence[PublishedTable], *, rng: np.random.Generator
    ) -> CheckResult:
        """Return how many hidden cells are determined; ``others`` and ``rng`` are not used."""
        rois, epochs = _totals(table)
        n_totals = int(np.isfinite(rois).sum() + np.isfinite(epochs).sum())
        if not n_totals:
            return CheckResult.of_faults(self.name, 0, 0, f"{table.name} has no totals")
        if _are_sums(table, rois, epochs):
            text = (
                f"{plural(n_totals, 'total')}: only sums of published cells, which disclose nothing"
            )
            return CheckResult.of_faults(self.name, 0, table.values.size, text)
        if any(isinstance(step, _CHANGE_TOTALS) for step in steps_of(table.mechanism)):
            text = (
                f"under {table.mechanism.label} totals may be changed as values are, so the check "
                "cannot decide what they disclose"
            )
            return CheckResult.unknown(self.name, table.values.size, text)
        bounds = count_bounds(table)
        if bounds is None:
            text = (
                f"under {table.mechanism.label} a value does not determine its count, so the check "
                "cannot decide what totals disclose"
            )
            return CheckResult.unknown(self.name, table.values.size, text)
        return self._solved(table, *bounds, *_unsuppressed(table, rois, epochs))

    def _solved(
        self,
        table: PublishedTable,
        low: NDArray[np.int64],
        high: NDArray[np.int64],
        rois: Values,
        epochs: Values,
    ) -> CheckResult:
        hidden = low < high
        n_hidden = int(hidden.sum())
        whole = all(
            bool((np.isnan(totals) | (totals == np.rint(totals))).all())
            for totals in (rois, epochs)
        )
        solution = solve(low, high, rois, epochs) if whole else None
        if solution is None:
            text = f"no counts that match {table.name} have the published totals"
            return CheckResult(self.name, "inconsistent", 0.0, 0.0, table.values.size, text)
        known = hidden & solution.determined & (fill_suppressed(table) != solution.counts)
        small, counts = smallest_shown(self.small, table), solution.counts[known]
        n_small = int(np.count_nonzero((counts >= 1) & (counts < small)))
        n = len(counts)
        text = (
            f"{n:,} of {plural(n_hidden, 'hidden cell')} {agree(n, 'follow')} from the totals; "
            f"{n_small:,} of them {agree(n_small, 'count')} 1 to {small - 1} people"
        )
        return CheckResult.of_faults(self.name, n, table.values.size, text)


def _totals(table: PublishedTable) -> tuple[Values, Values]:
    """Return the totals, NaN where there are none, shapes (roi,) and (epoch,)."""
    published = (table.roi_totals, table.epoch_totals)
    rois, epochs = (
        np.full(n, np.nan) if totals is None else totals
        for n, totals in zip(table.values.shape, published, strict=True)
    )
    return rois, epochs


def _are_sums(table: PublishedTable, rois: Values, epochs: Values) -> bool:
    """Return whether each total is the sum of the published cells."""
    sums = (np.nansum(table.values, axis=1), np.nansum(table.values, axis=0))
    return all(
        bool((np.isnan(totals) | (np.abs(totals - total) < _ROUNDING)).all())
        for totals, total in zip((rois, epochs), sums, strict=True)
    )


def _unsuppressed(table: PublishedTable, rois: Values, epochs: Values) -> tuple[Values, Values]:
    """Return the totals, with NaN for those that may be suppressed."""
    if suppressed_up_to(table.mechanism) is None:
        return rois, epochs
    return np.where(rois == 0, np.nan, rois), np.where(epochs == 0, np.nan, epochs)


_SOURCE, _SINK, _HUB = 0, 1, 2
_MOST = int(np.iinfo(np.int32).max)  # SciPy's flows are 32-bit integers


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """One table with the totals, and the cells that are equal in all such tables.

    ``counts`` are int64 visits, ``determined`` includes cells with equal bounds; shapes (roi,
    epoch).
    """

    counts: Whole
    determined: Flags


def solve(
    low: Whole, high: Whole, roi_totals: NDArray[np.float64], epoch_totals: NDArray[np.float64]
) -> Solution | None:
    """Return which cells with known bounds are determined by the totals; None if no table has them.

    ``low`` and ``high`` are the smallest and largest count of each cell, int64, shape (roi, epoch),
    visits; totals are whole float64, NaN where unknown. Raises InputError if they need a flow of
    2³¹ or more.

    A table with the totals is a flow from ROIs to epochs, found as a maximum flow. Any other such
    table differs along cycles of cells that are raised and lowered in turn. A cell is therefore
    determined if it is on no such cycle: if its ends are not strongly connected in the residual
    graph, or if it is a bridge of a component (Gusfield 1988; Boesch and Tindell 1980). All ROIs
    and epochs without a total are one node, as their flow is unconstrained.
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
    counts, determined = low.copy(), room == 0
    counts[roi, epoch] += flow
    determined[roi, epoch] = ~edges.on_cycles(flow)
    return Solution(counts, determined)


def _numbered(left: NDArray[np.float64], first: int) -> Whole:
    """Return the node of each ROI or epoch, the hub for those without a total."""
    return np.where(np.isnan(left), _HUB, np.arange(first, first + len(left)))


def _supplies(
    rois: NDArray[np.float64],
    epochs: NDArray[np.float64],
    roi_nodes: Whole,
    epoch_nodes: Whole,
    n_nodes: int,
) -> Whole:
    """Return the outflow minus the inflow of each node, shape (node,)."""
    supply = np.zeros(n_nodes, np.int64)
    np.add.at(supply, roi_nodes, np.nan_to_num(rois).astype(np.int64))
    np.subtract.at(supply, epoch_nodes, np.nan_to_num(epochs).astype(np.int64))
    supply[_HUB] = -supply[_HUB + 1 :].sum()
    return supply


@dataclass(frozen=True, slots=True, eq=False)
class _Edges:
    """Cells that are not fixed, as edges from the node of a ROI to that of an epoch.

    ``out``, ``into`` and the capacity ``room`` are int64, shape (edge,); ``n_nodes`` includes
    source, sink and hub.
    """

    out: Whole
    into: Whole
    room: Whole
    n_nodes: int

    def flow(self, supply: Whole) -> Whole | None:
        """Return a flow that meets the supply of each node, shape (edge,), None if impossible."""
        required = int(supply[supply > 0].sum())
        if required > _MOST:
            raise InputError(
                f"totals require a flow of {required:,} visits, but the solver's limit is {_MOST:,}"
            )
        if np.any(supply[~np.isin(np.arange(self.n_nodes), self._ends)]):
            return None  # a total without an adjustable cell
        sources, sinks = np.flatnonzero(supply > 0), np.flatnonzero(supply < 0)
        out = np.concatenate([self.out, np.full(len(sources), _SOURCE), sinks])
        into = np.concatenate([self.into, sources, np.full(len(sinks), _SINK)])
        room = np.concatenate([self.room, supply[sources], -supply[sinks]])
        keep = out != into
        graph = self._graph(room[keep], out[keep], into[keep])
        graph.data = np.minimum(graph.data, _MOST)
        result = scipy.sparse.csgraph.maximum_flow(graph.astype(np.int32), _SOURCE, _SINK)
        if result.flow_value < required:
            return None
        return self._shared(result.flow.tocoo())

    def _graph(self, data: NDArray[Any], out: Whole, into: Whole) -> sparse.csr_array:
        """Return edges as a sparse matrix with int32 nodes, as SciPy's graph algorithms expect."""
        nodes = out.astype(np.int32), into.astype(np.int32)
        return sparse.coo_array((data, nodes), (self.n_nodes, self.n_nodes)).tocsr()

    @property
    def _ends(self) -> Whole:
        return np.unique(np.concatenate([self.out, self.into]))

    def _shared(self, flow: sparse.coo_array) -> Whole:
        """Return the flow of each edge; parallel edges are filled one after another."""
        order = np.lexsort((self.into, self.out))
        out, into, room = self.out[order], self.into[order], self.room[order]
        total = np.where(out == into, 0, np.maximum(_looked_up(flow, out, into), 0))
        filled = np.cumsum(room) - room
        new = np.r_[True, (np.diff(out) != 0) | (np.diff(into) != 0)][: len(out)]
        filled -= filled[new][np.cumsum(new) - 1] if len(out) else 0
        edge_flow = np.empty_like(total)
        edge_flow[order] = np.clip(total - filled, 0, room)
        return edge_flow

    def on_cycles(self, flow: Whole) -> Flags:
        """Return which edges can carry another flow, shape (edge,)."""
        up, down = flow < self.room, flow > 0
        out = np.concatenate([self.out[up], self.into[down]])
        into = np.concatenate([self.into[up], self.out[down]])
        graph = self._graph(np.ones(len(out), np.int8), out, into)
        _, component = scipy.sparse.csgraph.connected_components(graph, connection="strong")
        inside = component[self.out] == component[self.into]
        inside[inside] = ~bridges(np.array([self.out, self.into])[:, inside], self.n_nodes)
        return np.asarray(inside)


def _looked_up(matrix: sparse.coo_array, row: Whole, column: Whole) -> Whole:
    """Return entries of a sparse matrix, 0 where it has none, shape (entry,)."""
    keys = matrix.row * np.int64(matrix.shape[1]) + matrix.col
    order = np.argsort(keys)
    wanted = row * matrix.shape[1] + column
    position = np.minimum(np.searchsorted(keys, wanted, sorter=order), max(len(keys) - 1, 0))
    entries = np.zeros(len(wanted), np.int64)
    if len(keys):
        position = order[position]
        entries = np.where(keys[position] == wanted, matrix.data[position].astype(np.int64), 0)
    return entries


def bridges(ends: NDArray[Any], n_nodes: int) -> Flags:
    """Return which edges are bridges, whose removal disconnects their ends (Tarjan 1974); bool.

    ``ends`` are the nodes of each edge, int64, shape (2, edge). Several edges may connect the same
    nodes, and one may lead to its own node; none of these is a bridge. Raises InputError if
    ``ends`` has another shape, or a node that does not exist.
    """
    if ends.ndim != 2 or len(ends) != 2:
        raise InputError(f"ends have shape {ends.shape}, not (2, edge)")
    if ends.size and not (ends.min() >= 0 and ends.max() < n_nodes):
        raise InputError(
            f"nodes from {ends.min()} to {ends.max()} are not within 0 to {n_nodes - 1}"
        )
    n_edges = ends.shape[1]
    nodes = np.concatenate([ends[0], ends[1]])
    order = np.argsort(nodes, kind="stable")
    offsets = np.searchsorted(nodes[order], np.arange(n_nodes + 1)).astype(np.int64)
    edge = order % max(n_edges, 1)
    other_end = np.concatenate([ends[1], ends[0]])[order].astype(np.int64)
    is_bridge = np.zeros(n_edges, np.bool_)
    _search(offsets, other_end, edge.astype(np.int64), is_bridge)
    return is_bridge


@kernel
def _search(offsets: Whole, other_end: Whole, edge: Whole, is_bridge: Flags) -> None:
    """Mark bridges by depth-first search, with a stack because tables are too large for recursion.

    ``low`` is the earliest visit order that a node's subtree reaches. The edge into a node is a
    bridge if its subtree reaches no node visited earlier than the node itself.
    """
    n_nodes = len(offsets) - 1
    visit_order, low = np.full(n_nodes, -1, np.int64), np.zeros(n_nodes, np.int64)
    next_edge = offsets[:-1].copy()  # per node, the next edge to follow
    stack, entry_edge = np.zeros(n_nodes, np.int64), np.full(n_nodes, -1, np.int64)
    n_visited = 0
    for root in range(n_nodes):
        if visit_order[root] >= 0:
            continue
        stack[0], depth = root, 0
        visit_order[root] = low[root] = n_visited
        n_visited += 1
        while depth >= 0:
            node = stack[depth]
            if next_edge[node] < offsets[node + 1]:
                position = next_edge[node]
                next_edge[node] += 1
                other = other_end[position]
                if edge[position] == entry_edge[node]:
                    continue
                if visit_order[other] >= 0:
                    low[node] = min(low[node], visit_order[other])
                    continue
                visit_order[other] = low[other] = n_visited
                n_visited += 1
                entry_edge[other] = edge[position]
                depth += 1
                stack[depth] = other
                continue
            depth -= 1
            if depth >= 0:
                parent = stack[depth]
                low[parent] = min(low[parent], low[node])
                is_bridge[entry_edge[node]] = low[node] > visit_order[parent]
