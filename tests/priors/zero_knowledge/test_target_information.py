"""What is known of the target's places, and which cells are guessed from that."""

import numpy as np
import pytest
from loops import for_each
from mechanisms.published import fits

from clusterscale.priors.zero_knowledge import Constant, SyntheticPopulation, VisitCounts
from clusterscale.priors.zero_knowledge.target_information import (
    KnownCells,
    KnownPlaces,
    join,
    most_visited_rois,
)

N_EPOCHS = 6
TRACE = np.array([1, 6, 8, 11, 13, 18, 19, 20, 25, 29, 31], np.int32)
# Visits: ROI 0 one, 1 three, 2 one, 3 three, 4 two, 5 one.


def population(mean=6.0, n_rois=8, time=None):
    space = np.full(n_rois, 1 / n_rois)
    time = np.array([0.5, 0.25, 0, 0.25, 0, 0]) if time is None else time
    return SyntheticPopulation(space, time, VisitCounts(mean, Constant()))


def assume(rois, times="greedy", people=None, seed=0):
    known = KnownPlaces(np.array(rois, np.int32), times)
    return known.assume_cells(people or population(), rng=np.random.default_rng(seed))


def test_the_most_visited_rois_come_first_and_equals_by_number():
    np.testing.assert_array_equal(most_visited_rois(TRACE, N_EPOCHS, 9, None), [1, 3, 4, 0, 2, 5])


@for_each("top", [1, 2, 4, 6, 50])
def test_only_the_top_rois_are_known(top):
    np.testing.assert_array_equal(
        most_visited_rois(TRACE, N_EPOCHS, 9, top), [1, 3, 4, 0, 2, 5][:top]
    )


def test_nowhere_is_no_haunt_however_often():
    """The null ROI, here 3, is not a place that anyone knows of."""
    np.testing.assert_array_equal(
        most_visited_rois(TRACE[TRACE < 24], N_EPOCHS, 3, None), [1, 0, 2]
    )


def test_of_a_target_without_a_trace_nothing_is_known():
    found = most_visited_rois(np.zeros(0, np.int32), N_EPOCHS, 5, 3)
    assert len(found) == 0
    for times in ("greedy", "random"):
        assert len(assume(found, times)) == 0


def test_the_greedy_guess_is_every_epoch_of_each_roi():
    cells = assume([4, 1])
    np.testing.assert_array_equal(cells, [*range(6, 12), *range(24, 30)])
    assert cells.dtype == np.int32


def test_the_greedy_guess_draws_nothing():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    KnownPlaces(np.array([3]), "greedy").assume_cells(population(), rng=rng)
    assert rng.bit_generator.state == before


def test_the_random_guess_is_one_epoch_for_each_visit_of_an_average_user():
    """With one epoch in which anyone moves, or so many that none is drawn twice."""
    still = population(mean=9.0, time=np.eye(N_EPOCHS)[3])
    np.testing.assert_array_equal(assume([5, 2, 0], "random", still), [3, 15, 33])
    wide = population(mean=9.0, time=np.full(10**7, 1e-7))
    for n_rois, each in ((3, 3), (2, 4), (4, 2), (8, 1)):
        cells = assume(range(n_rois), "random", wide)
        np.testing.assert_array_equal(cells // 10**7, np.repeat(np.arange(n_rois), each))


def test_a_roi_is_visited_once_at_least():
    cells = assume(range(7), "random", population(mean=0.3))
    np.testing.assert_array_equal(cells // N_EPOCHS, np.arange(7))


def test_the_random_guess_is_sorted_without_repeats():
    cells = assume([6, 0, 3], "random", population(mean=60.0))
    assert cells.dtype == np.int32
    assert (np.diff(cells) > 0).all()
    np.testing.assert_array_equal(np.unique(cells % N_EPOCHS), [0, 1, 3])


@pytest.mark.parametrize("by_roi", [False, True])
def test_epochs_are_guessed_when_people_move(by_roi):
    """Each of two chi-square tests fails for one seed in a thousand."""
    rng = np.random.default_rng(1)
    law = rng.dirichlet(np.ones(5), 3) if by_roi else np.tile(rng.dirichlet(np.ones(5)), (3, 1))
    people = population(mean=2.0, n_rois=3, time=law if by_roi else law[0])
    found = np.zeros((3, 5))
    known = KnownPlaces(np.array([2, 0]), "random")  # one visit to each
    for _ in range(4000):
        np.add.at(found, tuple(np.divmod(known.assume_cells(people, rng=rng), 5)), 1)
    assert found[1].sum() == 0
    for roi in (0, 2):
        assert fits(found[roi], 4000 * law[roi])


def test_cells_that_are_guessed_are_never_all_that_is_known():
    assert not KnownPlaces(TRACE, "greedy").complete
    assert not KnownPlaces(TRACE, "random").complete


@pytest.mark.parametrize("complete", [True, False])
def test_sightings_are_told_as_they_are(complete):
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    known = KnownCells(TRACE, complete)
    assert known.assume_cells(population(), rng=rng) is TRACE
    assert known.complete is complete
    assert rng.bit_generator.state == before


@pytest.mark.parametrize("known", [KnownCells(TRACE, True), KnownPlaces(TRACE, "random")])
def test_of_a_target_who_is_held_with_others_all_is_known(known):
    """Where its trace is not held, nothing is; together they know what is."""
    nothing = type(known)(TRACE[:0], getattr(known, "times", True))
    for one, other in ((known, nothing), (nothing, known)):
        both = join(one, other)
        np.testing.assert_array_equal(both.where, TRACE)
        assert both.where.dtype == TRACE.dtype
        assert both.complete == known.complete
