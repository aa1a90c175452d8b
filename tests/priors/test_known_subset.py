"""Who is in which group of a known subset, told from the counts alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from oracles.dense import traces_of

from clusterscale import mechanisms, priors
from clusterscale.contracts import NO_NOISE, GroupRequest, publish
from clusterscale.cube import with_null_roi
from clusterscale.errors import ConfigError
from clusterscale.groups import subsample_trace
from clusterscale.priors.known_subset import PlacesAdversary
from clusterscale.priors.zero_knowledge import SyntheticPopulation, VisitCounts
from clusterscale.priors.zero_knowledge.target_information import KnownPlaces
from clusterscale.seeds import stream

N_USERS = 40
TARGET = 5
EXACT = mechanisms.create("exact")
NOISY = mechanisms.create("laplace", epsilon=0.5, unit="event")


def roll_call():
    """A crowd in which user u alone visits ROI u, always: counts are the list of members."""
    return traces_of(np.eye(N_USERS, dtype=bool)[:, :, None].repeat(3, axis=2))


def members(sample):
    """Who is in each group of the roll call, bool (group, user)."""
    assert np.isin(sample.counts, [0, 1]).all()
    return sample.counts[:, :, 0].astype(bool)


def play(group_size=8, **fields):
    prior = priors.create(
        "known_subset", alpha=0.5, training=20, challenges=12, validation=8, **fields
    )
    rng = stream(0, "groups")
    return prior.set_up(
        GroupRequest(roll_call(), TARGET, group_size=group_size, validate=True, rng=rng)
    )


@pytest.mark.parametrize("sampling", ["independent", "paired"])
def test_training_and_challenges_share_no_one_but_the_target(sampling):
    game = play(sampling=sampling)
    own = game.adversary
    samples = (own.training, game.challenge, own.validation)
    training, challenge, validation = map(members, samples)
    for rows, sample in zip((training, challenge, validation), samples, strict=True):
        assert (rows.sum(axis=1) == 8).all()
        np.testing.assert_array_equal(rows[:, TARGET], sample.labels)
        assert len(np.unique(rows, axis=0)) == len(rows)
    known, asked = training.any(axis=0), challenge.any(axis=0)
    np.testing.assert_array_equal(np.flatnonzero(known & asked), [TARGET])
    places = own.whereabouts
    assert not (validation.any(axis=0) & ~known & (places.mean_trace[:, 0] == 0)).any()
    np.testing.assert_array_equal(places.mean_trace[:, 0] > 0, known)
    assert places.n_users == N_USERS // 2


def test_pairs_differ_in_the_target_and_one_other():
    game = play(sampling="paired")
    rows = members(game.adversary.training)
    inside, outside = rows[0::2], rows[1::2]
    assert ((inside != outside).sum(axis=1) == 2).all()
    np.testing.assert_array_equal(game.adversary.training.blocks, np.repeat(np.arange(10), 2))
    assert (members(game.challenge)[0::2] != members(game.challenge)[1::2]).sum(axis=1).max() > 2


def test_pairs_share_their_noise_and_only_in_training():
    own = play(sampling="paired").adversary
    knowledge = own.study(None, NOISY, rng=stream(0, "noise"))

    def noise(release, sample):
        return release.values - sample.counts

    shared = noise(knowledge.training.release, own.training)
    np.testing.assert_allclose(shared[0::2], shared[1::2], atol=1e-12)
    assert len(np.unique(shared[0::2].round(9))) == shared[0::2].size, "pairs differ from pairs"
    checked = noise(knowledge.validation.release, own.validation)
    assert (checked[0::2] != checked[1::2]).all()


def test_independent_groups_have_noise_of_their_own():
    own = play().adversary
    release = own.study(None, NOISY, rng=stream(0, "noise")).training.release
    shared = release.values - own.training.counts
    assert (shared[0::2] != shared[1::2]).all()
    np.testing.assert_array_equal(own.training.blocks, np.arange(20))


def test_no_validation_groups_unless_wanted():
    prior = priors.create("known_subset", alpha=0.5, training=20, challenges=12)
    game, more = (
        prior.set_up(
            GroupRequest(
                roll_call(), TARGET, group_size=8, validate=wanted, rng=stream(0, "groups")
            )
        )
        for wanted in (False, True)
    )
    assert game.adversary.validation is None
    assert len(more.adversary.validation) == 100
    np.testing.assert_array_equal(game.adversary.training.counts, more.adversary.training.counts)
    np.testing.assert_array_equal(game.challenge.counts, more.challenge.counts)


@given(st.floats(0.01, 0.99), st.integers(0, 10**6), st.booleans())
def test_forgetting_keeps_the_right_number_of_visits(dense, share, seed, null_roi):
    traces = traces_of(dense)
    full = traces.trace(TARGET)
    if null_roi:
        traces = with_null_roi(traces)
    rng = np.random.default_rng(seed)
    kept = subsample_trace(traces.trace(TARGET), traces, share, rng=rng)
    n_places = traces.n_cells - traces.n_epochs * null_roi
    visits = kept[kept < n_places]
    assert len(visits) == np.ceil(round(share * len(full), 9))
    assert np.isin(visits, full).all()
    assert (np.diff(kept) > 0).all()
    if null_roi:
        idle = np.setdiff1d(np.arange(traces.n_epochs), visits % traces.n_epochs)
        np.testing.assert_array_equal(kept[kept >= n_places] - n_places, idle)


@pytest.mark.parametrize("null_roi", [False, True])
def test_only_the_adversarys_copy_of_the_trace_is_partial(dense, null_roi):
    traces = traces_of(dense)
    traces = with_null_roi(traces) if null_roi else traces
    games = [
        priors.create(
            "known_subset", alpha=0.5, training=20, challenges=12, known_fraction=fraction
        ).set_up(GroupRequest(traces, TARGET, group_size=8, rng=stream(0, "groups")))
        for fraction in (1.0, 0.3)
    ]
    whole, part = games
    np.testing.assert_array_equal(whole.challenge.counts, part.challenge.counts)
    all_places, some_places = (game.adversary.whereabouts for game in games)
    assert all_places.complete
    assert not some_places.complete
    full, known = (
        np.bincount(places.trace, minlength=traces.n_cells) for places in (all_places, some_places)
    )
    all_groups, some_groups = (game.adversary.training for game in games)
    difference = (all_groups.counts - some_groups.counts).reshape(20, -1)
    inside = all_groups.labels
    assert (difference[~inside] == 0).all()
    np.testing.assert_array_equal(difference[inside], np.tile(full - known, (10, 1)))


PLACES = [{}, {"top_rois": 1}, {"times": "random"}, {"times": "random", "top_rois": 2}]


def knowing(traces, **fields):
    """Return the game of an adversary who knows half of these users."""
    prior = priors.create("known_subset", alpha=0.5, training=20, challenges=12, **fields)
    return prior.set_up(GroupRequest(traces, TARGET, group_size=8, rng=stream(0, "groups")))


def learn(game):
    return game.adversary.study(None, EXACT, rng=stream(0, "study"))


def places_of(traces, top):
    """Return the most visited ROIs of the target, ties in order of index, by counting."""
    visits = densify(traces)[TARGET].sum(axis=1)
    return sorted(np.flatnonzero(visits), key=lambda roi: (-visits[roi], roi))[:top]


def densify(traces):
    rows = [
        np.bincount(traces.trace(user), minlength=traces.n_cells) for user in range(traces.n_users)
    ]
    return np.reshape(rows, (traces.n_users, traces.n_rois, traces.n_epochs))


@pytest.mark.parametrize("null_roi", [False, True])
@for_each("fields", PLACES)
def test_of_the_target_only_places_are_known_and_times_are_guessed(dense, null_roi, fields):
    """Guesses are as those of zero knowledge, from the visits of the other known users."""
    seen = traces_of(dense)
    traces = with_null_roi(seen) if null_roi else seen
    whole, game = knowing(traces), knowing(traces, knows="rois", **fields)
    np.testing.assert_array_equal(whole.challenge.counts, game.challenge.counts)
    assert isinstance(game.adversary, PlacesAdversary)
    before, learnt = learn(whole), learn(game)
    real, true = densify(seen), traces.trace(TARGET)
    known = before.whereabouts.occupancy[: seen.n_rois] - real[TARGET]
    mean = known.sum() / (before.whereabouts.n_users - 1)
    people = SyntheticPopulation(
        np.full(seen.n_rois, 1 / seen.n_rois), known.sum(axis=(0)) / known.sum(), VisitCounts(mean)
    )
    rois = np.array(places_of(seen, fields.get("top_rois")), traces.cells.dtype)
    guess = KnownPlaces(rois, fields.get("times", "greedy"))
    cells = guess.assume_cells(people, rng=stream(0, "study"))
    if null_roi:
        idle = np.setdiff1d(np.arange(seen.n_epochs), cells % seen.n_epochs)
        cells = np.concatenate([cells, seen.n_cells + idle])
    change = np.zeros(traces.n_cells, int)
    change[cells] += 1
    change[true] -= 1
    inside = before.training.labels
    for one, other, expected in (
        (before.training.release.flat, learnt.training.release.flat, np.outer(inside, change)),
        (before.whereabouts.occupancy, learnt.whereabouts.occupancy, change),
    ):
        np.testing.assert_array_equal(other - one, np.reshape(expected, one.shape))
    np.testing.assert_array_equal(learnt.whereabouts.trace, cells)
    assert not learnt.whereabouts.complete


def test_a_second_study_learns_the_same_and_times_at_random_are_drawn_again(dense):
    game = knowing(traces_of(dense), knows="rois", times="random")
    first, second, other = (
        game.adversary.study(None, EXACT, rng=stream(0, name)).training.release.values
        for name in ("study", "study", "another")
    )
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


@for_each("fields", PLACES)
def test_parts_of_the_users_know_together_the_places_that_all_do(dense, fields):
    traces = with_null_roi(traces_of(dense))
    at, n = traces.offsets[20], traces.n_users
    parts = [
        replace(
            traces,
            offsets=traces.offsets[rows] - start,
            cells=traces.cells[cells],
            idle=traces.idle[held],
            first=first,
            population=n,
        )
        for rows, start, cells, held, first in (
            (slice(21), 0, slice(at), slice(20), 0),
            (slice(20, None), at, slice(at, None), slice(20, None), 20),
        )
    ]
    whole = knowing(traces, knows="rois", **fields)
    one, other = (knowing(part, knows="rois", **fields) for part in parts)
    for both in (one.plus(other), other.plus(one)):
        found, expected = learn(both), learn(whole)
        np.testing.assert_array_equal(found.whereabouts.trace, expected.whereabouts.trace)
        np.testing.assert_array_equal(found.whereabouts.occupancy, expected.whereabouts.occupancy)
        np.testing.assert_array_equal(
            found.training.release.values, expected.training.release.values
        )


@for_each(
    ("fields", "words"),
    [
        ({"top_rois": 3}, "set knows to rois"),
        ({"knows": "rois", "known_fraction": 0.5}, "known_fraction is a share of the trace"),
    ],
)
def test_contradictory_knowledge_of_the_target_is_refused(fields, words):
    with pytest.raises(ConfigError, match=words):
        priors.create("known_subset", alpha=0.5, **fields)


def test_known_fraction_is_rounded_up_and_exact():
    """A tenth of ten visits is one, although 0.1 · 10 · 3 is not 3 in floating point."""
    traces = traces_of(np.ones((1, 1, 30), bool))
    rng = np.random.default_rng(0)
    sizes = [
        len(subsample_trace(traces.trace(0), traces, share, rng=rng)) for share in (0.1, 0.11, 0.01)
    ]
    assert sizes == [3, 4, 1]


def test_counts_are_published_untouched_and_uncopied():
    game = play()
    noise = stream(0, "noise")
    release = publish(game.challenge.counts, EXACT, group_size=8, rng=noise)
    assert release.values is game.challenge.counts
    assert release.noise == NO_NOISE
