"""Bridges are the edges without which more parts are left."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse import csgraph

from clusterscale.release.network import bridges

EDGES = st.integers(1, 8).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=14),
    )
)


def n_parts(ends, n_nodes):
    graph = sparse.coo_array((np.ones(ends.shape[1]), (ends[0], ends[1])), (n_nodes, n_nodes))
    return csgraph.connected_components(graph, directed=False)[0]


@given(EDGES)
def test_by_leaving_out_each_edge(drawn):
    n_nodes, edges = drawn
    ends = np.array(edges, np.int64).reshape(-1, 2).T
    whole = n_parts(ends, n_nodes)
    due = [n_parts(np.delete(ends, i, axis=1), n_nodes) > whole for i in range(ends.shape[1])]
    np.testing.assert_array_equal(bridges(ends, n_nodes), np.array(due, bool))


def test_a_path_that_is_too_long_to_recurse_into():
    n = 300_000
    path = np.array([np.arange(n - 1), np.arange(1, n)])
    assert bridges(path, n).all()
    ring = np.concatenate([path, [[n - 1], [0]]], axis=1)
    assert not bridges(ring, n).any()


def test_two_edges_between_two_nodes_are_none():
    np.testing.assert_array_equal(
        bridges(np.array([[0, 1, 1, 2], [1, 0, 2, 2]]), 3), [False, False, True, False]
    )
