"""Groups of nobody: counts of the law that is told, or made-up users and the target among them."""

import numpy as np
import pytest
from mechanisms.published import fits
from scipy import stats

from clusterscale.contracts import CellCoordinates
from clusterscale.cube import with_null_roi
from clusterscale.errors import PoolError
from clusterscale.groups import count_visits
from clusterscale.priors.zero_knowledge import (
    Constant,
    SyntheticPopulation,
    VisitCounts,
    triangulate,
)
from clusterscale.priors.zero_knowledge.prior import PoissonCounts, SyntheticUsers
from clusterscale.priors.zero_knowledge.synthesis import synthetic_traces

SIZE, N_ROIS, N_EPOCHS = 20, 5, 8
TRACE = np.array([3, 4, 12, 30], np.int32)
HERE = np.isin(np.arange(N_ROIS * N_EPOCHS), TRACE)
RARE = 0.001


def population(mean=4.0, seed=0):
    rng = np.random.default_rng(seed)
    space, time = rng.dirichlet(np.ones(N_ROIS)), rng.dirichlet(np.ones(N_EPOCHS))
    return SyntheticPopulation(space, time, VisitCounts(mean, Constant()))


def counts_crowd(people=None, size=SIZE):
    return PoissonCounts(people or population(), TRACE, size)


def users_crowd(trace=TRACE, *, people=None, n=30, size=SIZE, null_roi=False, seed=0):
    lat, lon = np.random.default_rng(0).random((2, N_ROIS))
    graph = triangulate(CellCoordinates(np.zeros(N_EPOCHS, np.int64), lat, lon))
    rng = np.random.default_rng(seed)
    return SyntheticUsers(
        n, people or population(), graph, trace, group_size=size, null_roi=null_roi, rng=rng
    )


CROWDS = {"users": users_crowd, "counts": counts_crowd}
EACH = pytest.mark.parametrize("crowd", CROWDS)


def drawn(crowd, n, *, paired=False, seed=1):
    return crowd.draw(n, rng=np.random.default_rng(seed), paired=paired)


@EACH
@pytest.mark.parametrize("paired", [False, True])
def test_every_second_group_has_the_target_and_counts_are_those_of_a_group(crowd, paired):
    sample = drawn(CROWDS[crowd](), 40, paired=paired)
    assert sample.counts.dtype == np.int32
    assert sample.counts.shape == (40, N_ROIS, N_EPOCHS)
    assert 0 <= sample.counts.min() <= sample.counts.max() <= SIZE
    np.testing.assert_array_equal(sample.labels, np.arange(40) % 2 == 0)
    np.testing.assert_array_equal(sample.blocks, np.arange(40) // (1 + paired))
    assert (sample.counts.reshape(40, -1)[0::2][:, TRACE] >= 1).all()


@EACH
def test_pairs_have_all_but_one_member_in_common(crowd):
    """What the target adds, less what the other one does, who is in a cell at most once."""
    flat = drawn(CROWDS[crowd](), 400, paired=True).counts.reshape(400, -1)
    change = flat[0::2] - flat[1::2]
    assert np.isin(change[:, HERE], [0, 1]).all()
    assert np.isin(change[:, ~HERE], [0, -1]).all()
    assert (change[:, ~HERE] == -1).any()
    apart = drawn(CROWDS[crowd](), 400).counts.reshape(400, -1)
    assert np.abs(apart[0::2] - apart[1::2])[:, ~HERE].max() > 1


@EACH
def test_draws_are_those_of_the_generator(crowd):
    one, again, other = (drawn(CROWDS[crowd](), 20, seed=seed).counts for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


@pytest.mark.parametrize("paired", [False, True])
def test_counts_are_of_the_means_and_variances_of_the_model(paired):
    """Poisson others, the target, and without it another: at most 160 tests at 1e-3 / 160 each.

    Of cells where somebody is often enough for the mean of so many squares to be normal.
    """
    n, people = 20_000, population(mean=2.0)
    chance = people.occupancy_probabilities.ravel()
    flat = drawn(counts_crowd(people, size=60), 2 * n, paired=paired).counts.reshape(2 * n, -1)
    far, others = stats.norm.isf(RARE / 160 / 2), 59 * chance
    often = others * n > 1000
    assert often.sum() > 20
    for side, own in ((flat[0::2], HERE * 1.0), (flat[1::2], chance)):
        mean, one = others + own, own * (1 - own)
        squares = (side - mean) ** 2
        fourth = others + 3 * others**2 + 6 * others * one + one * (1 - 3 * one)
        error = np.sqrt((others + one) / n), np.sqrt((fourth - (others + one) ** 2) / n)
        assert (np.abs(side.mean(axis=0) - mean) < far * error[0])[often].all()
        assert (np.abs(squares.mean(axis=0) - others - one) < far * error[1])[often].all()


def test_cells_are_independent_but_for_the_pair():
    """Of 780 correlations none beyond what one sound draw in 1,000 has."""
    people = SyntheticPopulation(np.full(5, 0.2), np.full(8, 0.125), VisitCounts(8.0, Constant()))
    flat = drawn(counts_crowd(people), 8000, paired=True).counts.reshape(8000, -1)
    far = stats.norm.isf(RARE / 780 / 2) / np.sqrt(4000)
    for side in (flat[0::2], flat[1::2]):
        between = np.corrcoef(side.T)[np.triu_indices(40, 1)]
        assert np.abs(between).max() < far
    paired = np.array([np.corrcoef(flat[0::2, i], flat[1::2, i])[0, 1] for i in range(40)])
    assert paired.min() > 0.9


def test_a_cell_is_poisson():
    """Chi-square, which fails one seed in a thousand."""
    people = population(mean=3.0)
    cell = np.flatnonzero(~HERE)[np.argmax(people.occupancy_probabilities.ravel()[~HERE])]
    found = drawn(counts_crowd(people, size=400), 20_000).counts.reshape(20_000, -1)[0::2, cell]
    law = stats.poisson(399 * people.occupancy_probabilities.ravel()[cell])
    values = np.arange(law.ppf(1e-9), law.ppf(1 - 1e-9) + 1)
    assert fits([(found == value).sum() for value in values], law.pmf(values) * len(found))


def test_counts_are_never_more_than_the_members():
    """Where everyone is nearly always, and the target too."""
    sample = drawn(counts_crowd(population(mean=10**4), size=4), 200)
    assert sample.counts.max() == 4
    assert (sample.counts == 4).mean() > 0.2
    assert drawn(counts_crowd(population(mean=10**4), size=1), 40).counts.max() == 1


def test_of_counts_only_the_chances_are_known():
    """Never of the cells where the target was not, whatever is known of the target."""
    people = population()
    for complete in (True, False):
        places = counts_crowd(people).whereabouts(complete=complete)
        assert places.complete is False
        np.testing.assert_array_equal(places.trace, TRACE)
        np.testing.assert_allclose(places.mean_trace, people.occupancy_probabilities, rtol=1e-12)


@pytest.mark.parametrize("null_roi", [False, True])
def test_the_reference_is_the_made_up_users_without_the_target(null_roi):
    people, graph = population(), None
    lat, lon = np.random.default_rng(0).random((2, N_ROIS))
    graph = triangulate(CellCoordinates(np.zeros(N_EPOCHS, np.int64), lat, lon))
    rng = np.random.default_rng(4)
    made_up = synthetic_traces(30, people, graph, rng=rng)
    made_up = with_null_roi(made_up) if null_roi else made_up
    expected = count_visits(made_up, np.arange(30)[None])[0]
    for complete in (True, False):
        places = users_crowd(null_roi=null_roi, seed=4).whereabouts(complete=complete)
        assert places.complete is complete
        assert places.n_users == 30
        np.testing.assert_array_equal(places.occupancy, expected)
        np.testing.assert_array_equal(places.trace, TRACE)


def test_the_target_is_in_half_the_groups_and_nowhere_else():
    """It alone is where nobody of the population ever goes."""
    people = SyntheticPopulation(
        np.array([0.5, 0.5, 0, 0, 0]), np.full(8, 0.125), VisitCounts(6.0, Constant())
    )
    for paired in (False, True):
        sample = drawn(users_crowd(np.array([3, 17, 39]), people=people), 30, paired=paired)
        flat = sample.counts.reshape(30, -1)
        np.testing.assert_array_equal(flat[:, [17, 39]], np.tile(sample.labels[:, None], 2))
        assert flat[:, 16:].sum() == 2 * sample.labels.sum()


def test_the_target_is_nowhere_where_its_trace_says_so():
    """Others are out and about in every epoch, so that nobody else is counted there."""
    n_seen = N_ROIS * N_EPOCHS
    idle = np.setdiff1d(np.arange(N_EPOCHS), TRACE % N_EPOCHS)
    trace = np.concatenate([TRACE, n_seen + idle])
    people = SyntheticPopulation(
        np.full(5, 0.2), np.full(8, 0.125), VisitCounts(10.0**3, Constant())
    )
    crowd = users_crowd(trace, people=people, null_roi=True)
    sample = drawn(crowd, 20)
    nowhere = np.isin(np.arange(N_EPOCHS), idle)
    np.testing.assert_array_equal(sample.counts[:, -1], sample.labels[:, None] & nowhere)
    np.testing.assert_array_equal(crowd.whereabouts(complete=True).trace, trace)


@pytest.mark.parametrize("size", [2, 20])
def test_who_is_nowhere_is_counted_there(size):
    """With one visit each, every epoch's counts sum to the members."""
    people = SyntheticPopulation(np.full(5, 0.2), np.full(8, 0.125), VisitCounts(1.0, Constant()))
    sample = drawn(users_crowd(TRACE[:1], people=people, size=size, null_roi=True), 20)
    np.testing.assert_array_equal(sample.counts.sum(axis=1), size)


def test_groups_to_check_on_are_none_of_those_to_learn_from():
    """Of four users in pairs there are few groups: none comes twice, and then there are no more."""
    crowd = users_crowd(n=4, size=2, people=population(mean=12.0))
    rng = np.random.default_rng(0)
    first, second = (crowd.draw(4, rng=rng).counts.reshape(4, -1) for _ in range(2))
    outside = np.concatenate([first[1::2], second[1::2]])
    assert len(np.unique(outside, axis=0)) == 4
    with pytest.raises(PoolError, match="zero_knowledge reference"):
        crowd.draw(4, rng=rng)
