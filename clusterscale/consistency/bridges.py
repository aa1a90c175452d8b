"""Bridges of a graph: edges that belong to no cycle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import InputError
from clusterscale.jit import kernel

__all__ = ["bridges"]

Index = NDArray[np.int64]


def bridges(ends: NDArray[Any], n_nodes: int) -> NDArray[np.bool_]:
    """Return which edges are bridges: removing one disconnects its ends (Tarjan 1974).

    Parameters
    ----------
    ends
        int64, shape (2, edge): the two nodes of each edge, from 0 to ``n_nodes`` − 1, in either
        order. Several edges may connect the same nodes; none of them is then a bridge.
    n_nodes
        Number of nodes in the graph.

    Returns
    -------
    ndarray
        bool, shape (edge,). An edge from a node to itself is never a bridge.

    Raises
    ------
    InputError
        If ``ends`` has another shape, or refers to a node that does not exist.
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
def _search(offsets: Index, other_end: Index, edge: Index, is_bridge: NDArray[np.bool_]) -> None:
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
