"""Networks of counts: a flow that meets their sums, and which counts are the same in all flows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from clusterscale.contracts import Ints
from clusterscale.errors import InputError
from clusterscale.jit import kernel

Flags = NDArray[np.bool_]

HUB, FIRST = 2, 3
"""Node of counts with no other relation, and of the first relation."""

_SOURCE, _SINK = 0, 1
_MOST = int(np.iinfo(np.int32).max)  # SciPy's flows are 32-bit integers


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """Counts that are not fixed, as edges between the nodes of their relations.

    ``out``, ``into`` and the capacity ``room`` are int64, shape (edge,); ``n_nodes`` includes
    source, sink and hub, the node of counts with no other relation.
    """

    out: Ints
    into: Ints
    room: Ints
    n_nodes: int

    def flow(self, supply: Ints) -> tuple[Ints | None, int]:
        """Return a flow that meets the supply of each node, shape (edge,), and −1.

        If it is impossible, return None and a node of a relation that is in the way.
        """
        required = int(supply[supply > 0].sum())
        if required > _MOST:
            raise InputError(
                f"totals require a flow of {required:,} visits, but the solver's limit is {_MOST:,}"
            )
        nodes = np.arange(self.n_nodes)
        alone = (supply != 0) & (nodes >= FIRST) & ~np.isin(nodes, self._ends)
        if alone.any():
            return None, int(alone.argmax())  # a total without an adjustable cell
        sources, sinks = np.flatnonzero(supply > 0), np.flatnonzero(supply < 0)
        out = np.concatenate([self.out, np.full(len(sources), _SOURCE), sinks])
        into = np.concatenate([self.into, sources, np.full(len(sinks), _SINK)])
        room = np.concatenate([self.room, supply[sources], -supply[sinks]])
        keep = out != into
        graph = self._graph(room[keep], out[keep], into[keep])
        graph.data = np.minimum(graph.data, _MOST)
        result = scipy.sparse.csgraph.maximum_flow(graph.astype(np.int32), _SOURCE, _SINK)
        if result.flow_value < required:
            sent = result.flow[[_SOURCE]].toarray()[0]
            received = result.flow[:, [_SINK]].toarray()[:, 0]
            return None, int(np.flatnonzero(sent - received != supply).max())
        return self._shared(result.flow.tocoo()), -1

    def _graph(self, data: NDArray[Any], out: Ints, into: Ints) -> sparse.csr_array:
        """Return edges as a sparse matrix with int32 nodes, as SciPy's graph algorithms expect."""
        nodes = out.astype(np.int32), into.astype(np.int32)
        return sparse.coo_array((data, nodes), (self.n_nodes, self.n_nodes)).tocsr()

    @property
    def _ends(self) -> Ints:
        return np.unique(np.concatenate([self.out, self.into]))

    def _shared(self, flow: sparse.coo_array) -> Ints:
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

    def on_cycles(self, flow: Ints) -> Flags:
        """Return which edges can carry another flow, shape (edge,)."""
        up, down = flow < self.room, flow > 0
        out = np.concatenate([self.out[up], self.into[down]])
        into = np.concatenate([self.into[up], self.out[down]])
        graph = self._graph(np.ones(len(out), np.int8), out, into)
        _, component = scipy.sparse.csgraph.connected_components(graph, connection="strong")
        inside = component[self.out] == component[self.into]
        inside[inside] = ~bridges(np.array([self.out, self.into])[:, inside], self.n_nodes)
        return np.asarray(inside)


def _looked_up(matrix: sparse.coo_array, row: Ints, column: Ints) -> Ints:
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
def _search(offsets: Ints, other_end: Ints, edge: Ints, is_bridge: Flags) -> None:
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
