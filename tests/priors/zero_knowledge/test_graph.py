"""Neighbours of ROIs, told by circles that hold nobody else, in whole numbers where it matters."""

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from loops import for_each
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import Delaunay

from clusterscale.contracts import CellCoordinates
from clusterscale.errors import InputError
from clusterscale.priors.zero_knowledge import Graph, triangulate
from clusterscale.priors.zero_knowledge.synthesis import correlated_rois

FEW = st.integers(-6, 6)
POINTS = st.lists(st.tuples(FEW, FEW), min_size=1, max_size=11)
DIRECTIONS = [(1, 0), (0, 1), (1, 1), (2, -3), (-1e-3, 5e-4), (np.pi, np.e)]


def graph_of(points):
    """Triangulate ROIs at (longitude, latitude)."""
    lon, lat = np.reshape(np.asarray(points, float), (-1, 2)).T
    return triangulate(CellCoordinates(np.zeros(1, np.int64), lat, lon))


def edges_of(graph):
    """Every pair of neighbours once, after a look at how they are stored."""
    assert graph.offsets.dtype == graph.neighbours.dtype == np.int64
    assert graph.offsets[0] == 0
    assert graph.offsets[-1] == len(graph.neighbours)
    edges = set()
    for roi, (start, stop) in enumerate(pairwise(graph.offsets)):
        near = graph.neighbours[start:stop]
        assert (np.diff(near) > 0).all(), "neighbours increase, each once"
        assert roi not in near, "nobody is their own neighbour"
        edges |= {(roi, int(other)) for other in near}
    assert edges == {(b, a) for a, b in edges}, "neighbours of each other"
    return {(a, b) for a, b in edges if a < b}


def n_parts(graph):
    if not graph.n_rois:
        return 0
    ones = np.ones(len(graph.neighbours))
    shape = (graph.n_rois, graph.n_rois)
    return connected_components(csr_array((ones, graph.neighbours, graph.offsets), shape))[0]


def cross(a, b, c):
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def dot(a, b, c):
    return (b[0] - a[0]) * (c[0] - a[0]) + (b[1] - a[1]) * (c[1] - a[1])


def has_empty_circle(a, b, points):
    """Whether a circle through a and b has no point inside, in exact arithmetic.

    Its centre is the middle of a and b plus t times the normal of ab: p is not inside if
    t · 2 cross(a, b, p) ≤ (p − a)·(p − b).
    """
    low, high = -np.inf, np.inf
    for p in points:
        side, away = 2 * cross(a, b, p), dot(p, a, b)
        if side > 0:
            high = min(high, Fraction(away, side))
        elif side < 0:
            low = max(low, Fraction(away, side))
    return low <= high


def crosses(a, b, c, d):
    """Whether two segments meet inside both."""
    return (
        cross(a, b, c) * cross(a, b, d) < 0
        and cross(c, d, a) * cross(c, d, b) < 0
        and len({a, b, c, d}) == 4
    )


def is_between(a, b, p):
    return cross(a, b, p) == 0 and dot(p, a, b) < 0


def is_on_hull(a, b, points):
    sides = [cross(a, b, p) for p in points]
    return min(sides) >= 0 or max(sides) <= 0


def n_on_hull(points):
    """How many points lie on the border of the convex hull of some that are not on one line."""
    pairs = [pair for pair in combinations(points, 2) if is_on_hull(*pair, points)]
    return len({p for pair in pairs for p in points if cross(*pair, p) == 0})


def balanced(points):
    """Distinct points and one more, with which latitudes add up to 0: a degree is a degree."""
    points = sorted(set(points))
    return sorted(
        {*points, (0, -sum(y for _, y in points))} if sum(y for _, y in points) else points
    )


@given(POINTS)
@example([(x, y) for x in range(-1, 2) for y in range(-1, 2)])
@example([(0, 5), (0, -5), (5, 0), (-5, 0), (3, 4), (-3, 4), (3, -4), (-3, -4)])
@example([(x, 0) for x in range(-5, 5)] + [(0, 1)])
@example([(0, 0), (4, -5), (5, -4), (6, -3)])
def test_edges_are_a_triangulation_with_empty_circles(points):
    points = balanced(points)
    lat = [y for _, y in points]
    if sum(lat):  # the balance fell on a point that was there
        return
    graph = graph_of(points)
    edges = [(points[a], points[b]) for a, b in edges_of(graph)]
    assert n_parts(graph) == 1
    over = [(a, b) for a, b in edges if any(is_between(a, b, p) for p in points)]
    assert all(is_on_hull(a, b, points) for a, b in over), "slivers that rounding leaves there"
    edges = [edge for edge in edges if edge not in over]
    assert all(has_empty_circle(a, b, points) for a, b in edges)
    assert not any(crosses(*one, *other) for one, other in combinations(edges, 2))
    if any(cross(points[0], points[1], p) for p in points[2:]):
        assert len(edges) == 3 * len(points) - 3 - n_on_hull(points)  # Euler
    else:
        assert len(edges) == len(points) - 1


@pytest.mark.parametrize("lat", [-33.9, 0.0, 45.5, 69.6])
def test_triples_whose_circle_is_empty_are_triangles(lat):
    """In a city, with degrees laid flat by hand."""
    rng = np.random.default_rng(3)
    points = np.array([9.2, lat]) + rng.normal(0, 0.1, (16, 2))
    flat = points * [np.cos(np.radians(points[:, 1].mean())), 1.0]
    expected = set()
    for corners in combinations(range(len(flat)), 3):
        a, b, c = flat[list(corners)]
        centre = np.linalg.solve(2 * np.array([b - a, c - a]), [b @ b - a @ a, c @ c - a @ a])
        others = np.delete(flat, corners, axis=0)
        if (np.linalg.norm(others - centre, axis=1) > np.linalg.norm(a - centre)).all():
            expected |= set(combinations(corners, 2))
    assert edges_of(graph_of(points)) == expected


@pytest.mark.parametrize("n", [4, 30, 500])
def test_many_rois_as_scipy_has_them(n):
    rng = np.random.default_rng(n)
    points = np.array([-73.6, 45.5]) + rng.normal(0, 0.05, (n, 2))
    found = Delaunay(points * [np.cos(np.radians(points[:, 1].mean())), 1.0])
    offsets, neighbours = found.vertex_neighbor_vertices
    graph = graph_of(points)
    np.testing.assert_array_equal(graph.offsets, offsets)
    for start, stop in pairwise(offsets):
        np.testing.assert_array_equal(graph.neighbours[start:stop], np.sort(neighbours[start:stop]))


def test_longitudes_shrink_towards_the_poles():
    """A lozenge's short diagonal is the other one at 60° north, where a degree is half as wide."""
    lozenge = np.array([[-0.15, 0.0], [0.15, 0.0], [0.0, 0.1], [0.0, -0.1]])
    assert (2, 3) in edges_of(graph_of(lozenge))
    assert (0, 1) not in edges_of(graph_of(lozenge))
    north = edges_of(graph_of(lozenge + np.array([0.0, 60.0])))
    assert (0, 1) in north
    assert (2, 3) not in north


@pytest.mark.parametrize(("n", "edges"), [(0, set()), (1, set()), (2, {(0, 1)})])
def test_hardly_any_rois(n, edges):
    graph = graph_of([(7.0 + i, 46.0) for i in range(n)])
    assert graph.n_rois == n
    assert edges_of(graph) == edges


@for_each("direction", DIRECTIONS)
@for_each("origin", [(0.0, 0.0), (179.0, -33.0), (-120.0, 89.0)])
@for_each("n", [3, 4, 20])
def test_rois_on_a_line_are_neighbours_in_their_order(direction, origin, n):
    rng = np.random.default_rng(n)
    place = rng.permutation(n)
    steps = np.cumsum(rng.integers(1, 9, n))[place] / 64
    points = np.array(origin) + steps[:, None] * np.array(direction)
    order = np.argsort(place)
    expected = {(min(a, b), max(a, b)) for a, b in pairwise(order.tolist())}
    assert edges_of(graph_of(points)) == expected


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), min_size=1, max_size=15))
@example([(0, 0)] * 5)
@example([(0, 0), (1, 1)] * 3)
def test_rois_at_one_place_hang_on_the_first_of_them(points):
    graph = graph_of(points)
    assert n_parts(graph) == 1
    edges = edges_of(graph)
    first = [points.index(point) for point in points]
    inside = {(a, b) for a, b in edges if first[a] == first[b]}
    assert inside == {(a, b) for b, a in enumerate(first) if a != b}
    assert all(first[a] == a and first[b] == b for a, b in edges - inside)


def test_zero_has_no_sign():
    assert edges_of(graph_of([(0.0, -0.0), (-0.0, 0.0), (1.0, 0.0)])) == {(0, 1), (0, 2)}


@pytest.mark.parametrize("corner", [(0.0, 0.0), (9.0, 45.4), (-0.015, -0.015)])
def test_squares_of_a_grid_have_their_sides_and_one_diagonal(corner):
    n_rows, n_columns = 7, 5
    row, column = np.divmod(np.arange(n_rows * n_columns), n_columns)
    edges = edges_of(graph_of(np.array(corner) + np.column_stack([column, row]) * 0.01))
    expected = sum(row[a] == row[b] or column[a] == column[b] for a, b in edges)
    assert expected == n_rows * (n_columns - 1) + n_columns * (n_rows - 1)
    squares = set()
    for a, b in edges:
        steps = abs(row[a] - row[b]), abs(column[a] - column[b])
        assert max(steps) == 1
        if min(steps):
            squares.add((min(row[a], row[b]), min(column[a], column[b])))
    assert len(squares) == (n_rows - 1) * (n_columns - 1)
    assert len(edges) == expected + len(squares)


@given(
    st.integers(3, 40),
    st.integers(-16, 0),
    st.sampled_from([(0.0, 0.0), (9.2, 45.5), (179.9, -89.9), (-180.0, 90.0), (1e6, 1e6)]),
    st.integers(0, 2**32 - 1),
)
def test_nearly_a_line_is_one_part(n, thin, origin, seed):
    rng = np.random.default_rng(seed)
    along, across = rng.random(n), rng.normal(0, 10.0**thin, n)
    angle = rng.random() * np.pi
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    graph = graph_of(np.array(origin) + np.column_stack([along, across]) @ turn)
    edges_of(graph)
    assert graph.n_rois == n
    assert n_parts(graph) == 1


@given(st.integers(-12, 2), st.integers(2, 30), st.integers(0, 2**32 - 1))
def test_crowds_of_any_size_are_one_part(scale, n, seed):
    """Far apart or so near that differences are the last bits of the degrees."""
    rng = np.random.default_rng(seed)
    near = np.array([11.0, 46.0]) + rng.normal(0, 10.0**scale, (n, 2))
    far = np.array([9.0, 45.0]) + rng.normal(0, 0.1, (3, 2))
    for points in (near, np.concatenate([near, far])):
        graph = graph_of(points)
        assert n_parts(graph) == 1
        edges_of(graph)


@pytest.mark.parametrize("pole", [-90.0, 90.0])
def test_at_a_pole_rois_follow_their_longitudes(pole):
    assert edges_of(graph_of([(30.0, pole), (-90.0, pole), (120.0, pole)])) == {(0, 1), (0, 2)}


def test_order_of_rois_and_a_shift_along_a_parallel_change_nothing():
    rng = np.random.default_rng(8)
    points = np.array([5.0, 52.0]) + rng.normal(0, 0.1, (40, 2))
    edges = edges_of(graph_of(points))
    order = rng.permutation(40)
    back = {
        (min(order[a], order[b]), max(order[a], order[b]))
        for a, b in edges_of(graph_of(points[order]))
    }
    assert back == edges
    assert edges_of(graph_of(points + np.array([100.0, 0.0]))) == edges


def test_a_city_on_the_antimeridian_is_one_city():
    points = np.array([0.0, -16.8]) + np.random.default_rng(2).normal(0, 0.1, (40, 2))
    moved = points + np.array([180.0, 0.0])
    moved[:, 0] -= 360 * (moved[:, 0] > 180)
    assert 0 < (moved[:, 0] < 0).sum() < 40
    assert edges_of(graph_of(moved)) == edges_of(graph_of(points))


@for_each("bad", [np.nan, np.inf, -np.inf])
@for_each("which", [0, 1])
def test_rois_without_a_position_are_refused(bad, which):
    points = np.arange(12.0).reshape(6, 2)
    points[[1, 4], which] = bad
    with pytest.raises(InputError) as caught:
        graph_of(points)
    assert str(caught.value).startswith("2 of 6 ROIs have no position")


def test_a_graph_of_edges_in_any_order():
    edges = np.array([[3, 1], [1, 3], [0, 3], [2, 2], [3, 1]])
    graph = Graph.of(5, edges)
    assert edges_of(graph) == {(1, 3), (0, 3)}
    np.testing.assert_array_equal(graph.offsets, [0, 1, 2, 2, 4, 4])
    np.testing.assert_array_equal(graph.neighbours, [3, 3, 0, 1])


N_DAYS, PER_DAY = 14, 24
EACH_DAY = np.repeat(np.arange(N_DAYS), PER_DAY)
RHYTHM = 1 + np.sin(2 * np.pi * np.arange(N_DAYS * PER_DAY) / PER_DAY)


def district(rng, members, mean=30.0):
    """Return counts of ROIs that share the busy hours of their district."""
    hours = np.tile(rng.gamma(1.0, 1.0, PER_DAY), N_DAYS)
    return rng.poisson(mean * hours, (members, len(EACH_DAY)))


def near_of(graph):
    return [graph.neighbours[a:b].tolist() for a, b in pairwise(graph.offsets)]


def test_rois_of_a_district_are_neighbours_and_a_roi_of_its_own_is_near_all():
    rng = np.random.default_rng(3)
    values = np.concatenate([district(rng, 4), district(rng, 3), district(rng, 1)]).astype(float)
    order = rng.permutation(8)
    expected = [{0, 1, 2, 3}] * 4 + [{4, 5, 6}] * 3 + [set(range(8))]
    for shown in (np.arange(8), order):
        found = near_of(correlated_rois(values[shown], EACH_DAY))
        for row, roi in enumerate(shown):
            assert {int(shown[near]) for near in found[row]} == expected[roi] - {int(roi)}


def test_independent_rois_have_no_neighbours_however_busy():
    """Of 300 releases, all with one rhythm: a pair is wrong once in 10⁶ at the worst."""
    rng = np.random.default_rng(5)
    for i in range(300):
        busy = rng.lognormal(0, 1.5, 25)
        values = rng.poisson((0.05, 0.5, 5)[i % 3] * np.outer(busy, RHYTHM)).astype(float)
        noise = rng.laplace(0, 2.0, values.shape) if i % 2 else 0.0
        assert correlated_rois(values + noise, EACH_DAY) is None


def test_series_must_correlate_on_odd_and_on_even_days():
    rng = np.random.default_rng(7)
    values = rng.poisson(30 * np.outer(np.ones(6), RHYTHM)).astype(float)
    once = values.copy()
    once[1] = once[0]
    assert near_of(correlated_rois(once, EACH_DAY))[:2] == [[1], [0]]
    once[1, EACH_DAY % 2 == 0] = values[1, EACH_DAY % 2 == 0]
    assert correlated_rois(once, EACH_DAY) is None


def test_a_few_coincidences_are_no_correlation():
    values = np.zeros((5, len(EACH_DAY)))
    values[:2, ::150] = 1
    assert correlated_rois(values, EACH_DAY) is None


@for_each("shape", [(1, 48), (3, 1), (4, 30), (10_001, 2)])
def test_where_series_say_nothing_there_are_no_neighbours(shape):
    days = np.arange(shape[1]) // PER_DAY
    assert correlated_rois(np.zeros(shape), days) is None
    assert correlated_rois(np.ones(shape), days) is None
