"""Made-up users against algorithm 1 in plain words, and against its law where that is exact."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from mechanisms.published import RARE, alike, fits
from oracles.popets24 import border_of, make_up, near_of, neighbourhoods, pairs_of_visits
from scipy import stats

from clusterscale.contracts import CellCoordinates
from clusterscale.errors import InputError
from clusterscale.priors.zero_knowledge import (
    Constant,
    Graph,
    SyntheticPopulation,
    VisitCounts,
    triangulate,
)
from clusterscale.priors.zero_knowledge.synthesis import synthetic_traces


def city(n_rois, n_epochs, seed=0):
    """Popularity of ROIs and epochs, one of each never visited, and the ROIs' neighbours."""
    rng = np.random.default_rng(seed)
    space, time = rng.dirichlet(np.full(n_rois, 0.7)), rng.dirichlet(np.full(n_epochs, 1.0))
    space[n_rois // 2] = time[n_epochs // 2] = 0.0
    frame = CellCoordinates(np.zeros(1, np.int64), rng.random(n_rois), rng.random(n_rois))
    return space / space.sum(), time / time.sum(), triangulate(frame)


def draw(n, population, graph=None, seed=1):
    return synthetic_traces(n, population, graph, rng=np.random.default_rng(seed))


def densify(traces):
    """Whether each user was in each cell, bool (user, roi, epoch)."""
    seen = np.zeros((traces.n_users, traces.n_cells), bool)
    seen[np.repeat(np.arange(traces.n_users), np.diff(traces.offsets)), traces.cells] = True
    return seen.reshape(-1, traces.n_rois, traces.n_epochs)


def made_up(n, space, time, mean, graph, **fault):
    near, rng = near_of(graph), random.Random(5)
    seen = np.zeros((n, len(space), len(time)), bool)
    for user in range(n):
        for roi, epoch in make_up(space.tolist(), time.tolist(), mean, near, rng, **fault):
            seen[user, roi, epoch] = True
    return seen


def furthest(one, other):
    """The largest difference of means over users, in its standard errors."""
    one, other = (part.reshape(len(part), -1).astype(float) for part in (one, other))
    error = np.sqrt(one.var(axis=0) / len(one) + other.var(axis=0) / len(other))
    apart = np.abs(one.mean(axis=0) - other.mean(axis=0))
    assert (apart[error == 0] == 0).all()
    return (apart[error > 0] / error[error > 0]).max()


def is_far(n_compared):
    """Standard errors that the largest of so many differences seldom reaches."""
    return stats.norm.isf(RARE / 2 / n_compared)


def together(seen):
    """Whether each user was in both ROIs of each pair, bool (user, roi, roi)."""
    there = seen.any(axis=2)
    return there[:, :, None] & there[:, None, :]


@pytest.fixture(scope="module")
def both():
    """Users of algorithm 1 in plain words, and the package's, of one city."""
    space, time, graph = city(24, 4)
    traces = draw(20_000, SyntheticPopulation(space, time, VisitCounts(5.0)), graph)
    return made_up(5_000, space, time, 5.0, graph), densify(traces)


def test_cells_are_visited_as_often(both):
    assert furthest(*both) < is_far(both[0][0].size)


def test_rois_are_visited_by_the_same_people_as_often(both):
    one, other = map(together, both)
    assert furthest(one, other) < is_far(one[0].size)


def test_as_many_cells_and_rois_a_user(both):
    one, other = both
    assert alike(one.sum(axis=(1, 2)), other.sum(axis=(1, 2)))
    rois = [part.any(axis=2).sum(axis=1) for part in both]
    assert alike(*rois)
    assert max(map(np.max, rois)) == 10


def test_what_the_comparison_can_see(both):
    """Where origins are drawn as in the original of the algorithm, all alike, it tells."""
    space, time, graph = city(24, 4)
    other = made_up(5_000, space, time, 5.0, graph, origin_by=[1] * 24)
    assert furthest(other, both[1]) > 3 * is_far(other[0].size)


@pytest.mark.parametrize("seed", [1, 2])
def test_where_two_visits_are_has_the_exact_law(seed):
    """Summed over all sets that can be grown; sets that grow by edges have another law."""
    space, _, graph = city(14, 3, seed)
    near = near_of(graph)
    n, n_epochs = 200_000, 40
    population = SyntheticPopulation(
        space, np.full(n_epochs, 1 / n_epochs), VisitCounts(2.0, Constant())
    )
    traces = draw(n, population, graph, seed)
    first, last = (
        traces.cells[at] // n_epochs for at in (traces.offsets[:-1], traces.offsets[1:] - 1)
    )
    drawn = Counter(zip(first.tolist(), last.tolist(), strict=True))
    for by_edge in (False, True):
        expected = pairs_of_visits(space, neighbourhoods(space, near, by_edge=by_edge))
        assert sum(expected.values()) == pytest.approx(1)
        keys = [key for key in expected if expected[key] > 0]
        assert set(drawn) <= set(keys)
        observed = [drawn[key] for key in keys]
        assert fits(observed, [n * expected[key] for key in keys]) is not by_edge


@given(st.integers(1, 25), st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_neighbourhoods_are_connected_and_full(n_rois, n_edges, seed):
    """Who visits a lot is seen wherever it may go: 10 connected ROIs, or all within reach."""
    rng = np.random.default_rng(seed)
    graph = Graph.of(n_rois, rng.integers(0, n_rois, (n_edges, 2)))
    space = np.full(n_rois, 1 / n_rois)
    population = SyntheticPopulation(space, np.ones(1), VisitCounts(2_000.0, Constant()))
    near = near_of(graph)
    for there in densify(draw(6, population, graph, seed)).any(axis=2):
        visited = set(map(int, np.flatnonzero(there)))
        reached, within = {min(visited)}, {min(visited)}
        while more := set(border_of(reached, near)) & visited:
            reached |= more
        while more := border_of(within, near):
            within |= set(more)
        assert reached == visited
        assert len(visited) == min(10, len(within))


@pytest.mark.parametrize("graph", [None, "all within reach"])
def test_visits_add_up_to_the_marginals(graph):
    """One visit a user, so that none collapse."""
    space, time, near = city(9, 6)
    population = SyntheticPopulation(space, time, VisitCounts(1.0, Constant()))
    traces = draw(50_000, population, near if graph else None)
    np.testing.assert_array_equal(traces.offsets, np.arange(50_001))
    drawn = np.bincount(traces.cells, minlength=54)
    expected = 50_000 * np.outer(space, time).ravel()
    assert not drawn[expected == 0].any()
    assert fits(drawn[expected > 0], expected[expected > 0])


def test_epochs_keep_to_their_law_whatever_the_neighbourhood():
    space, time, graph = city(60, 30)
    traces = draw(50_000, SyntheticPopulation(space, time, VisitCounts(1.0, Constant())), graph)
    drawn = np.bincount(traces.cells % 30, minlength=30)
    assert not drawn[time == 0].any()
    assert fits(drawn[time > 0], 50_000 * time[time > 0])


def test_without_a_graph_anyone_goes_anywhere():
    population = SyntheticPopulation(
        np.full(40, 1 / 40), np.ones(1), VisitCounts(2_000.0, Constant())
    )
    assert densify(draw(5, population)).all()


@pytest.mark.parametrize("with_graph", [False, True])
def test_every_roi_can_have_hours_of_its_own(with_graph):
    space, _, graph = city(12, 3)
    time = np.random.default_rng(3).dirichlet(np.full(7, 0.5), 12)
    time[2], time[5, :4] = np.eye(7)[3], 0.0
    time /= time.sum(axis=1, keepdims=True)
    visits = VisitCounts(1.0, Constant())
    traces = draw(80_000, SyntheticPopulation(space, time, visits), graph if with_graph else None)
    drawn = np.bincount(traces.cells, minlength=84).reshape(12, 7)
    expected = drawn.sum(axis=1, keepdims=True) * time
    assert not drawn[expected == 0].any()
    assert fits(drawn[expected > 0], expected[expected > 0])


def test_equal_hours_are_one_law():
    """A row for every ROI says what one row says for all."""
    space, time, graph = city(15, 6)
    one, other = (
        densify(draw(20_000, SyntheticPopulation(space, law, VisitCounts(6.0)), graph, seed))
        for seed, law in enumerate([time, np.tile(time, (15, 1))])
    )
    assert furthest(one, other) < is_far(one[0].size)
    assert alike(*(part.sum(axis=(1, 2)) for part in (one, other)))


SIZES = {"n": st.integers(1, 30), "n_rois": st.integers(2, 30), "n_epochs": st.integers(2, 12)}


@given(
    **SIZES,
    mean=st.floats(0, 40),
    kind=st.sampled_from(["none", "graph", "no edges"]),
    by_roi=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_traces_of_any_size_are_sound(n, n_rois, n_epochs, mean, kind, by_roi, seed):
    space, time, graph = city(n_rois, n_epochs, seed)
    graph = {"none": None, "graph": graph, "no edges": Graph.of(n_rois, np.zeros((0, 2), int))}[
        kind
    ]
    hours = np.tile(time, (n_rois, 1)) if by_roi else time
    population = SyntheticPopulation(space, hours, VisitCounts(mean))
    plain, again = (draw(n, population, graph, seed) for _ in range(2))
    assert (plain.n_users, plain.n_rois, plain.n_epochs) == (n, n_rois, n_epochs)
    np.testing.assert_array_equal(again.offsets, plain.offsets)
    np.testing.assert_array_equal(again.cells, plain.cells)
    assert plain.idle is None
    assert (np.diff(plain.offsets) > 0).all(), "everyone makes a visit"
    for user in range(n):
        cells = plain.trace(user)
        assert (np.diff(cells) > 0).all()
        roi, epoch = np.divmod(cells, n_epochs)
        assert (space[roi] > 0).all()
        assert (time[epoch] > 0).all()
        assert kind != "no edges" or len(set(roi)) == 1


def test_another_seed_is_another_population():
    population = SyntheticPopulation(*city(12, 6)[:2], VisitCounts(5.0))
    one, other = (draw(50, population, seed=seed).cells for seed in (1, 2))
    assert not np.array_equal(one, other)


def _spoil(which, value):
    laws = dict(zip(("space", "time"), city(6, 4)[:2], strict=True))
    laws[which] = np.append(laws[which][:-1], value)
    return SyntheticPopulation(**laws, activity=VisitCounts(3.0))


@for_each("which", ["space", "time"])
@for_each("value", [np.nan, np.inf, -0.1, 1.5])
def test_what_is_no_law_is_refused(which, value):
    with pytest.raises(InputError, match=f"^{which} is not a distribution: values from "):
        draw(5, _spoil(which, value))


def test_a_law_without_any_mass_is_refused():
    _, time, _ = city(6, 4)
    population = SyntheticPopulation(np.zeros(6), time, VisitCounts(3.0))
    with pytest.raises(InputError, match=r"^space is not a distribution"):
        draw(5, population)
