"""Networks of counts: a flow that meets their sums, and what counts have in other such flows.

A count can change only together with others, along a cycle of edges on which flow can be moved.
Edges whose counts are shown could be part of such a cycle if they were hidden, at a price.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from clusterscale.contracts import Ints, Values
from clusterscale.errors import InputError
from clusterscale.jit import kernel
from clusterscale.release.relations import Flags, Relations

HUB, FIRST = 2, 3
"""Node of counts with no other relation, and of the first relation."""

_SOURCE, _SINK = 0, 1
_MOST = int(np.iinfo(np.int32).max)  # SciPy's flows are 32-bit integers


@dataclass(frozen=True, slots=True, eq=False)
class CountNetwork:
    """Open counts as flows: each leaves one of its relations and enters the other.

    Attributes
    ----------
    cells
        Cell of each edge, int64, shape (edge,).
    out, into
        Nodes that each edge leaves and enters: relations, or the hub where a count has no other
        one; int64, shape (edge,).
    room
        Capacity of each edge, int64, shape (edge,); its flow is what a count is above its bound.
    supply
        What the lower bounds lack at each node, int64, shape (node,); the first nodes are the
        source, the sink and the hub.
    fits
        Which components are networks, bool, shape (component,).
    """

    cells: Ints
    out: Ints
    into: Ints
    room: Ints
    supply: Ints
    fits: Flags

    @classmethod
    def of(
        cls,
        low: Ints,
        high: Ints,
        relations: Relations,
        component: Ints,
        chosen: Flags,
        *,
        without_rim: bool = False,
    ) -> Self:
        """Return the network of chosen cells, of those components that are one.

        In the others, trees on the rim may be left out.
        """
        relation, cell, sign = (
            each[relations.independent[relations.incidences[0]]] for each in relations.incidences
        )
        n, n_cells, here = len(relations.whole), len(low), chosen[cell]
        fits = np.empty(component.max(initial=0) + 1, np.bool_)
        for strips in (False, True)[: 1 + without_rim]:
            if strips:
                inner = _without_rim(relation, cell, here)
                here = np.where(fits[component[cell]], here, inner)
            flips, balanced = _orient(relation[here], cell[here], sign[here], n)
            n_times = np.bincount(cell[here], minlength=n_cells)
            unfit = here & ~(balanced & relations.adds)[relation]
            fits[:] = True
            fits[component[n_times > 2]] = fits[component[cell[unfit]]] = False
        cells = np.flatnonzero((n_times > 0) & fits[component])
        number = np.full(n_cells, -1)
        number[cells] = np.arange(len(cells))
        coefficient = sign * flips[relation]
        in_flow = np.zeros(n, np.bool_)
        in_flow[relation[here & (number[cell] >= 0)]] = True
        each = in_flow[relation]
        supply = np.zeros(FIRST + n, np.int64)
        np.add.at(supply, FIRST + relation[each], (coefficient * low[cell])[each])
        supply[HUB] = -supply[FIRST:].sum()
        out, into = np.full(len(cells), HUB), np.full(len(cells), HUB)
        each &= here & (number[cell] >= 0)
        node, edge, side = FIRST + relation[each], number[cell[each]], coefficient[each]
        into[edge[side > 0]] = node[side > 0]
        out[edge[side < 0]] = node[side < 0]
        return cls(cells, out, into, high[cells] - low[cells], supply, fits)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.supply)

    def flow(self) -> tuple[Ints | None, int]:
        """Return a flow that meets the supply of each node, shape (edge,), and −1.

        If it is impossible, return None and a node of a relation that is in the way.
        """
        supply = self.supply
        required = int(supply[supply > 0].sum())
        if required > _MOST:
            raise InputError(
                f"totals require a flow of {required:,} visits, but the solver's limit is {_MOST:,}"
            )
        nodes = np.arange(self.n_nodes)
        alone = (supply != 0) & (nodes >= FIRST) & ~np.isin(nodes, [self.out, self.into])
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
        return self._shared(result.flow), -1

    def _graph(self, data: NDArray[Any], out: Ints, into: Ints) -> sparse.csr_array:
        """Return edges as a sparse matrix with int32 nodes, as SciPy's graph algorithms expect."""
        nodes = out.astype(np.int32), into.astype(np.int32)
        return sparse.coo_array((data, nodes), (self.n_nodes, self.n_nodes)).tocsr()

    def _shared(self, flow: sparse.csr_array) -> Ints:
        """Return the flow of each edge; parallel edges are filled one after another."""
        order = np.lexsort((self.into, self.out))
        out, into, room = self.out[order], self.into[order], self.room[order]
        sent = flow[out[:, None], into[:, None]].toarray()[:, 0].astype(np.int64)
        total = np.where(out == into, 0, np.maximum(sent, 0))
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

    def ranges(self, flow: Ints, edges: Ints) -> tuple[Ints, Ints]:
        """Return the least and the largest flow of some edges, both of shape (edge,)."""
        moves = _Moves.of(self, flow, np.zeros(len(flow)))
        least, largest = flow.copy(), flow.copy()
        _find_ranges(moves, edges, least, largest)
        return least[edges], largest[edges]

    def hide(self, flow: Ints, price: Values, edges: Ints, need: Ints) -> tuple[Ints, Flags]:
        """Hide edges so that the flow of some others has ranges of the widths that they need.

        ``price`` is that of hiding each edge, 0 if it is hidden, shape (edge,). Return for each
        edge the number among ``edges`` of that for which it was hidden, −1 for none; and which of
        ``edges`` would need more than can be hidden.
        """
        moves = _Moves.of(self, flow, price)
        hidden_for = np.full(len(flow), -1)
        fails = np.zeros(len(edges), np.bool_)
        _hide(moves, edges, need, hidden_for, fails)
        return hidden_for, fails


class _Moves(NamedTuple):
    """A flow of a network, from which parts are moved along cycles.

    The edges at a node ``n`` are ``at[first[n]]`` to ``at[first[n + 1] - 1]``. An edge is used if
    its ``price`` is not above a limit. ``cost`` is that of reaching a node, forwards and backwards,
    infinite between searches, and ``entry`` the edge by which; both of shape (2, node).
    """

    first: Ints
    at: Ints
    out: Ints
    into: Ints
    room: Ints
    flow: Ints
    price: Values
    cost: Values
    entry: Ints

    @classmethod
    def of(cls, network: CountNetwork, flow: Ints, price: Values) -> _Moves:
        """Return a flow in which nothing was moved; short paths are preferred among cheap ones."""
        nodes = np.concatenate([network.out, network.into])
        order = np.argsort(nodes, kind="stable")
        first = np.searchsorted(nodes[order], np.arange(network.n_nodes + 1))
        shape = (2, network.n_nodes)
        return cls(
            first.astype(np.int64), order % max(len(flow), 1), network.out, network.into,
            network.room, flow.copy(), np.maximum(price, _STEP), np.full(shape, np.inf),
            np.zeros(shape, np.int64),
        )  # fmt: skip


_STEP = 1e-6  # price of an edge that is hidden, so that paths are short


@kernel
def _spread(
    moves: _Moves, start: int, goal: int, avoid: int, most: float, back: bool, rest: float
) -> tuple[int, list[int]]:
    """Find the cheapest way to ``goal``, or ``back`` from it, over edges with room.

    Return the last node, −1 if that is not the goal, and those that were reached. The hub has too
    many edges to be passed: without ``rest`` the search ends there, and with the price of the
    ``rest`` of the way from there, it ends where no way is cheaper.
    """
    cost, entry, out, into = moves.cost[int(back)], moves.entry[int(back)], moves.out, moves.into
    heap, reached, bound = [(0.0, start)], [start], np.inf
    cost[start] = 0.0
    while len(heap):
        so_far, node = heapq.heappop(heap)
        if so_far > cost[node]:
            continue
        if so_far >= bound:
            break
        if node == goal or (node == HUB and rest < 0):
            return node, reached
        if node == HUB:
            bound = so_far + rest
            continue
        for i in range(moves.first[node], moves.first[node + 1]):
            edge = moves.at[i]
            if edge == avoid or moves.price[edge] > most:
                continue
            leaves = out[edge] == node
            left = moves.room[edge] - moves.flow[edge] if leaves != back else moves.flow[edge]
            other = into[edge] if leaves else out[edge]
            new = so_far + moves.price[edge]
            if left > 0 and new < cost[other]:
                if cost[other] == np.inf:
                    reached.append(other)
                cost[other], entry[other] = new, edge
                heapq.heappush(heap, (new, other))
    return -1, reached


@kernel
def _trace(moves: _Moves, node: int, end: int, back: bool, path: list[tuple[int, int]]) -> None:
    """Add the edges from ``node`` to the ``end`` of a search, with the sign of their change."""
    while node != end:
        edge = moves.entry[int(back), node]
        leaves = moves.out[edge] == node
        path.append((edge, 1 if leaves == back else -1))
        node = moves.into[edge] if leaves else moves.out[edge]


@kernel
def _find_cycle(
    moves: _Moves, edge: int, up: bool, most: float
) -> tuple[float, list[tuple[int, int]]]:
    """Return the price of the cheapest cycle on which an edge can have more flow, or less.

    And its other edges, with the sign of their change. The price is infinite if there is none.
    """
    start, goal = moves.into[edge], moves.out[edge]
    if not up:
        start, goal = goal, start
    path, price = [(edge, 0)][:0], np.inf
    last, reached = -1, [start]
    if goal != HUB:
        last, reached = _spread(moves, goal, start, edge, most, True, -1.0)
        if last == start:
            price = moves.cost[1, start]
            _trace(moves, start, goal, True, path)
    if goal == HUB or (last == HUB and start != HUB):
        rest = moves.cost[1, HUB] if goal != HUB else 0.0
        last, others = _spread(moves, start, goal, edge, most, False, rest)
        if last == goal:
            price = moves.cost[0, goal]
            _trace(moves, goal, start, False, path)
        elif moves.cost[0, HUB] < np.inf:
            price = moves.cost[0, HUB] + rest
            _trace(moves, HUB, start, False, path)
            _trace(moves, HUB, goal, True, path)
        for node in others:
            moves.cost[0, node] = np.inf
    for node in reached:
        moves.cost[1, node] = np.inf
    return price, path


@kernel
def _move(
    moves: _Moves, edge: int, up: bool, need: int, least: Ints, largest: Ints
) -> tuple[int, list[tuple[int, int]]]:
    """Move up to ``need`` along cycles of hidden edges, so that an edge has more flow, or less.

    Return how much, and the changes of other edges. ``least`` and ``largest`` flows are updated.
    """
    changes, moved = [(edge, 0)], 0
    need = min(need, moves.room[edge] - moves.flow[edge] if up else moves.flow[edge])
    while moved < need:
        price, path = _find_cycle(moves, edge, up, _STEP)
        if price == np.inf:
            break
        amount = need - moved
        for one, sign in path:
            left = moves.room[one] - moves.flow[one] if sign > 0 else moves.flow[one]
            amount = min(amount, left)
        for one, sign in path:
            moves.flow[one] += sign * amount
            least[one] = min(least[one], moves.flow[one])
            largest[one] = max(largest[one], moves.flow[one])
            changes.append((one, sign * amount))
        moved += amount
    return moved, changes


@kernel
def _find_ranges(moves: _Moves, edges: Ints, least: Ints, largest: Ints) -> None:
    """Find the least and the largest flow of edges."""
    for edge in edges:
        for up in (True, False):
            if (largest[edge] == moves.room[edge]) if up else (least[edge] == 0):
                continue
            moved, changes = _move(moves, edge, up, moves.room[edge], least, largest)
            for one, change in changes:
                moves.flow[one] -= change
            if up:
                largest[edge] = moves.flow[edge] + moved
            else:
                least[edge] = moves.flow[edge] - moved


@kernel
def _hide(moves: _Moves, edges: Ints, need: Ints, hidden_for: Ints, fails: Flags) -> None:
    """Hide the cheapest cycles through edges, until these have ranges as wide as they need."""
    least, largest = moves.flow.copy(), moves.flow.copy()
    for i, edge in enumerate(edges):
        while largest[edge] - least[edge] < need[i]:
            found, best, cheapest = 0, np.inf, [(edge, 0)]
            for up in (True, False):
                moved, changes = _move(moves, edge, up, need[i] - found, least, largest)
                found += moved
                left = moves.room[edge] - moves.flow[edge] if up else moves.flow[edge]
                if found < need[i] and moved < left:
                    price, path = _find_cycle(moves, edge, up, np.inf)
                    if price < best:
                        best, cheapest = price, path
                for one, change in changes:
                    moves.flow[one] -= change
            if found >= need[i]:
                break
            if best == np.inf:
                fails[i] = True
                break
            for one, _ in cheapest:
                if moves.price[one] > _STEP:
                    moves.price[one], hidden_for[one] = _STEP, i


def bridges(ends: Ints, n_nodes: int) -> Flags:
    """Return which edges are bridges, whose removal disconnects their ends, bool, shape (edge,).

    ``ends`` are the nodes of each edge, int64, shape (2, edge). Several edges may connect the same
    nodes, and one may lead to its own node; none of these is a bridge. Each edge that is not in a
    spanning tree carries a random number around a cycle of tree edges. A tree edge is a bridge if
    those that it carries sum to 0, as otherwise happens with probability 2⁻⁶⁴.
    """
    (out, into), root, n_edges = ends, n_nodes, ends.shape[1]
    _, one_each = np.unique(joined((out, into), n_nodes), return_index=True)
    links = np.append(out, np.full(len(one_each), root)), np.append(into, one_each)
    graph = sparse.coo_array((np.ones(len(links[0])), links), (n_nodes + 1, n_nodes + 1)).tocsr()
    order, above = scipy.sparse.csgraph.breadth_first_order(graph, root, directed=False)
    below = np.where(above[into] == out, into, np.where(above[out] == into, out, root))
    tree_edge = np.full(n_nodes + 1, -1)
    tree_edge[below] = np.arange(n_edges)
    tree_edge[root] = -1
    nodes = np.flatnonzero(tree_edge >= 0)
    span = np.iinfo(np.int64)
    carried = np.random.default_rng(0).integers(span.min, span.max, (n_edges,))
    carried[tree_edge[nodes]] = 0
    sums = np.zeros(n_nodes + 1, np.int64)
    np.add.at(sums, out, carried)
    np.subtract.at(sums, into, carried)
    _add_up(sums, order, above)
    is_bridge = np.zeros(n_edges, np.bool_)
    is_bridge[tree_edge[nodes]] = sums[nodes] == 0
    return is_bridge


@kernel
def _add_up(sums: Ints, order: Ints, above: Ints) -> None:
    """Add the sum of each node to that above it, the farthest from the root first."""
    for node in order[:0:-1]:
        sums[above[node]] += sums[node]


def _without_rim(relation: Ints, cell: Ints, kept: Flags) -> Flags:
    """Return which places of cells are left without the trees on the rim of their components.

    A relation, of whose cells at most one is in others, only bounds that one. If that count is not
    determined, the relation's other counts are determined only where bounds are equal.
    """
    while True:
        inner = kept & (np.bincount(cell[kept], minlength=cell.max() + 1) > 1)[cell]
        rim = kept & (np.bincount(relation[inner], minlength=relation.max() + 1) <= 1)[relation]
        if not rim.any():
            return kept
        kept = kept & ~rim


def _orient(relation: Ints, cell: Ints, sign: Ints, n: int) -> tuple[Ints, Flags]:
    """Return a sign for each relation, so that each count enters one and leaves another.

    And whether there is one: both signs of a relation are nodes, joined with those of others that
    share a count, and they are in different components if the relation can be oriented.
    """
    order = np.lexsort((relation, cell))
    relation, cell, sign = relation[order], cell[order], sign[order]
    twice = np.flatnonzero(cell[1:] == cell[:-1])
    one, two = relation[twice], relation[twice + 1]
    same = sign[twice] != sign[twice + 1]
    ends = (
        np.concatenate([one, one + n]),
        np.concatenate([np.where(same, two, two + n), np.where(same, two + n, two)]),
    )
    label = joined(ends, 2 * n)
    return np.where(label[:n] < label[n:], 1, -1), np.asarray(label[:n] != label[n:])


def joined(ends: tuple[Ints, Ints], n: int) -> Ints:
    """Return the component of each of ``n`` nodes that are joined by edges."""
    graph = sparse.coo_array((np.ones(len(ends[0]), np.int8), ends), (n, n))
    return np.asarray(scipy.sparse.csgraph.connected_components(graph, directed=False)[1])
