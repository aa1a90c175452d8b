"""Edges of a graph that lie on no cycle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import InputError
from clusterscale.jit import kernel

__all__ = ["bridges"]

Index = NDArray[np.int64]


def bridges(ends: NDArray[Any], n_nodes: int) -> NDArray[np.bool_]:
    """Return which edges are bridges: without them their ends are not connected (Tarjan 1974).

    Parameters
    ----------
    ends
        int64, shape (2, edge): the nodes that each edge connects, from 0 to ``n_nodes`` − 1, in
        either order. Several edges may connect the same nodes; none is then a bridge.
    n_nodes
        Nodes of the graph.

    Returns
    -------
    ndarray
        bool, shape (edge,). An edge from a node to itself is none.

    Raises
    ------
    InputError
        If ``ends`` has another shape, or names a node that does not exist.
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
    far = np.concatenate([ends[1], ends[0]])[order].astype(np.int64)
    found = np.zeros(n_edges, np.bool_)
    _search(offsets, far, edge.astype(np.int64), found)
    return found


@kernel
def _search(offsets: Index, far: Index, edge: Index, found: NDArray[np.bool_]) -> None:
    """Mark bridges, depth first with a stack: a table has too many cells to recurse into.

    ``low`` is the earliest node that a node's subtree reaches; if that is not above the edge that
    leads to it, nothing else leads there.
    """
    n_nodes = len(offsets) - 1
    seen, low = np.full(n_nodes, -1, np.int64), np.zeros(n_nodes, np.int64)
    at = offsets[:-1].copy()  # the next edge of each node
    stack, came_by = np.zeros(n_nodes, np.int64), np.full(n_nodes, -1, np.int64)
    n_seen = 0
    for root in range(n_nodes):
        if seen[root] >= 0:
            continue
        stack[0], depth = root, 0
        seen[root] = low[root] = n_seen
        n_seen += 1
        while depth >= 0:
            node = stack[depth]
            if at[node] < offsets[node + 1]:
                place = at[node]
                at[node] += 1
                other = far[place]
                if edge[place] == came_by[node]:
                    continue
                if seen[other] >= 0:
                    low[node] = min(low[node], seen[other])
                    continue
                seen[other] = low[other] = n_seen
                n_seen += 1
                came_by[other] = edge[place]
                depth += 1
                stack[depth] = other
                continue
            depth -= 1
            if depth >= 0:
                above = stack[depth]
                low[above] = min(low[above], low[node])
                found[came_by[node]] = low[node] > seen[above]
