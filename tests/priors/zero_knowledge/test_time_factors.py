"""A few rhythms that ROIs mix are told from a release better than one, and nothing else is."""

import numpy as np
import pytest
from loops import for_each

from clusterscale.priors.zero_knowledge import Constant, SyntheticPopulation, VisitCounts
from clusterscale.priors.zero_knowledge.occupancy import hours_of_day, mix_rhythms

N_ROIS, N_HOURS, N_DAYS = 20, 24, 10
DAYS = np.repeat(np.arange(N_DAYS), N_HOURS)


def as_is(sums, weights):
    return sums


def two_rhythms(seed, days=DAYS):
    """Space, and time of each ROI: homes at night and work by day, in any mixture."""
    rng = np.random.default_rng(seed)
    space = rng.dirichlet(np.full(N_ROIS, 2.0))
    hour = hours_of_day(days) * 2 * np.pi / N_HOURS
    night, day = (np.exp(1.5 * np.cos(hour - turn)) for turn in (0, np.pi))
    night, day = night / night.sum(), day / day.sum()
    share = rng.beta(0.4, 0.4, N_ROIS)[:, None]
    return space, share * night + (1 - share) * day


def common(space, time, mean=5.0):
    """What is left of it if all ROIs have one rhythm."""
    return SyntheticPopulation(space, space @ time, VisitCounts(mean, Constant()))


def released(space, time, mean, *, scale=0.0, m=400, seed=0):
    rng = np.random.default_rng(seed)
    return rng.poisson(m * mean * space[:, None] * time) + rng.laplace(0, scale, time.shape)


def distance(people, space, time):
    """Total variation distance of the laws of a visit."""
    return np.abs(people.space[:, None] * people.time - space[:, None] * time).sum() / 2


def mix(release, people, days=DAYS, rank=2, undo=as_is):
    return mix_rhythms(release, people, days, rank, undo=undo)


@for_each(
    ("scale", "mean", "left"), [(0.0, 5.0, 0.6), (0.0, 20.0, 0.3), (2.0, 20.0, 0.7), (2.0, 5.0, 1)]
)
@for_each("seed", range(3))
def test_two_planted_rhythms_are_found_under_noise(scale, mean, left, seed):
    """What is left of one rhythm's distance; in the last case an hour's noise is twice its sum."""
    space, time = two_rhythms(seed)
    people = common(space, time, mean)
    found = mix(released(space, time, mean, scale=scale, seed=seed), people)
    one, two = (distance(each, space, time) for each in (people, found))
    assert one > 0.15
    assert two < left * one


def test_noise_alone_is_taken_for_one_rhythm():
    """To within a few hundredths, where one that is believed is a tenth off and more."""
    for seed in range(5):
        space, time = two_rhythms(seed)
        people = common(space, time)
        same = np.tile(people.time, (N_ROIS, 1))
        found = mix(released(space, same, 5.0, scale=20.0, seed=seed), people, rank=3)
        assert distance(found, space, same) < 0.06


@for_each("rank", [1, 2, 5, 100])
@for_each("scale", [0.0, 30.0])
def test_what_is_said_of_rois_and_of_epochs_stays(rank, scale):
    space, time = two_rhythms(3)
    people = common(space, time)
    found = mix(released(space, time, 5.0, scale=scale), people, rank=rank)
    assert found.time.shape == time.shape
    assert found.time.min() >= 0
    np.testing.assert_array_equal(found.space, space)
    assert found.activity == people.activity
    np.testing.assert_allclose(found.time.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(space @ found.time, people.time, rtol=1e-4)
    assert found.occupancy_probabilities.sum() == pytest.approx(
        people.occupancy_probabilities.sum()
    )


def test_of_rank_one_it_is_one_rhythm():
    space, time = two_rhythms(1)
    people = common(space, time)
    found = mix(released(space, time, 20.0), people, rank=1)
    np.testing.assert_allclose(found.time, np.tile(people.time, (N_ROIS, 1)), rtol=1e-3)


def test_days_differ_as_the_marginal_says_and_not_by_roi():
    """A quiet Sunday is quiet everywhere: within an hour of the day, days keep their shares."""
    space, time = two_rhythms(2)
    day = 1 - 0.9 * (DAYS == 6)
    time = time * day / (time * day).sum(axis=1, keepdims=True)
    people = common(space, time)
    found = mix(released(space, time, 20.0), people)
    hours = hours_of_day(DAYS)
    for hour in range(N_HOURS):
        mine, all_rois = found.time[:, hours == hour], people.time[hours == hour]
        np.testing.assert_allclose(
            mine / mine.sum(axis=1, keepdims=True),
            np.tile(all_rois / all_rois.sum(), (N_ROIS, 1)),
        )


def test_a_published_sum_is_undone_with_the_shares_of_its_cells():
    """Each hour's, of all days together and of some of them; what falls below 0 is nothing."""
    space, time = two_rhythms(4)
    people = common(space, time)
    release, asked = released(space, time, 5.0), []

    def halve(sums, weights):
        asked.append((sums.copy(), weights))
        return sums / 2 - 3

    mix(release, people, undo=halve)
    hours, whole = hours_of_day(DAYS), 0
    for sums, weights in asked:
        assert sums.shape == (N_ROIS,)
        assert weights.sum() == pytest.approx(1)
        for hour in range(N_HOURS):
            cells = hours == hour
            if len(weights) == N_DAYS and np.allclose(sums, release[:, cells].sum(axis=1)):
                np.testing.assert_allclose(weights, people.time[cells] / people.time[cells].sum())
                whole += 1
    assert whole == N_HOURS


def test_hours_are_counted_from_the_day_that_begins():
    days = np.array([4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7])
    np.testing.assert_array_equal(hours_of_day(days), [0, 1, 2, 3] * 3 + [0, 1])
    assert hours_of_day(days).dtype == np.int64


def test_a_first_day_that_is_cut_off_has_its_last_hours():
    np.testing.assert_array_equal(
        hours_of_day(np.array([0, 1, 1, 1, 2, 2, 2])), [2] + [0, 1, 2] * 2
    )
    np.testing.assert_array_equal(hours_of_day(np.zeros(3, np.int64)), [0, 1, 2])


@pytest.mark.parametrize(("before", "after"), [(6, 0), (0, 5), (6, 5), (23, 23)])
def test_days_that_are_cut_off_are_in_step_with_the_others(before, after):
    """The planted rhythms are found though the period begins or ends within a day."""
    days = np.concatenate([np.full(before, -1), DAYS, np.full(after, N_DAYS)])
    hour = np.concatenate(
        [np.arange(24 - before, 24), np.tile(np.arange(24), 10), np.arange(after)]
    )
    np.testing.assert_array_equal(hours_of_day(days), hour)
    space, time = two_rhythms(0, days)
    people = common(space, time)
    found = mix(released(space, time, 20.0), people, days)
    assert distance(found, space, time) < 0.6 * distance(people, space, time)
    np.testing.assert_allclose(space @ found.time, people.time, rtol=1e-4)


@pytest.mark.parametrize(
    ("n_rois", "days"),
    [
        (1, DAYS), (5, np.zeros(1, np.int64)), (5, np.zeros(24, np.int64)), (1, np.zeros(1, int)),
        (5, np.arange(7)), (3, np.array([0, 1])), (4, np.array([0, 0, 0, 1])),
    ],
    ids=["one ROI", "one epoch", "one day", "one cell", "an epoch a day", "two epochs", "uneven"],
)  # fmt: skip
@pytest.mark.parametrize("nothing", [False, True])
def test_small_releases_keep_their_marginals(n_rois, days, nothing):
    """Where there is nothing but one of a kind to be told apart by, one rhythm is what is left."""
    rng = np.random.default_rng(0)
    space, time = rng.dirichlet(np.ones(n_rois)), rng.dirichlet(np.ones(len(days)))
    release = rng.poisson(30.0, (n_rois, len(days))) * (0.0 if nothing else 1.0)
    people = SyntheticPopulation(space, time, VisitCounts(3.0, Constant()))
    found = mix(release, people, days, rank=3)
    np.testing.assert_allclose(found.time.sum(axis=1), 1, rtol=1e-9)
    np.testing.assert_allclose(space @ found.time, time, rtol=1e-4)
    if nothing or n_rois == 1 or len(np.unique(days)) in (1, len(days)):
        np.testing.assert_allclose(found.time, np.tile(time, (n_rois, 1)), rtol=1e-4)


def test_where_nobody_is_and_when_nobody_moves():
    space, time = two_rhythms(5)
    space[3], time[:, hours_of_day(DAYS) == 4] = 0, 0
    space, time = space / space.sum(), time / time.sum(axis=1, keepdims=True)
    people = common(space, time)
    found = mix(released(space, time, 20.0), people)
    np.testing.assert_array_equal(found.time[3], people.time)
    np.testing.assert_array_equal(found.time[:, hours_of_day(DAYS) == 4], 0)
    assert distance(found, space, time) < 0.6 * distance(people, space, time)


def test_the_same_twice_and_a_release_left_alone():
    space, time = two_rhythms(6)
    release, people = released(space, time, 5.0), common(space, time)
    release.flags.writeable = False
    one, again = (mix(release, people).time for _ in range(2))
    np.testing.assert_array_equal(one, again)
