"""Sums of weights are those of dense arrays, exactly, in one piece or added up from parts."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.dense import traces_of

from clusterscale.contracts import GroupRequest, GroupSample, Traces
from clusterscale.cube import with_null_roi
from clusterscale.errors import InputError
from clusterscale.groups import Counter, Pool, count_visits, sum_weights
from clusterscale.groups.count import replace_member
from clusterscale.priors.known_subset import KnownSubset
from clusterscale.priors.past_groups import SameGroups
from clusterscale.priors.perfect import Perfect

SEEDS = st.integers(0, 2**32)
STEP = 2.0**-20  # weights are multiples, as those of a cube are, so that sums are exact


def crowd(seed, n_users=25, null_roi=False):
    """Return dense visits with those of the null ROI, weights, and the traces."""
    rng = np.random.default_rng(seed)
    dense = rng.random((n_users, 3, 7)) < 0.3
    weights = np.maximum(np.rint(rng.lognormal(1.5, 0.8, n_users) / STEP), 1) * STEP
    traces = replace(traces_of(dense), weights=weights)
    if null_roi:
        dense = np.concatenate([dense, ~dense.any(axis=1, keepdims=True)], axis=1)
        traces = with_null_roi(traces)
    return dense, weights, traces


def by_hand(dense, weights, members):
    """Sum the weights of those who were there, cell by cell and user by user."""
    sums = np.zeros((len(members), *dense.shape[1:]))
    for group, row in enumerate(members):
        for user in row:
            if user >= 0:
                sums[group][dense[user]] += weights[user]
    return sums


@given(SEEDS, st.booleans(), st.integers(1, 25))
def test_sums_are_those_of_every_member(seed, null_roi, size):
    dense, weights, traces = crowd(seed, null_roi=null_roi)
    rng = np.random.default_rng(seed)
    members = np.array([rng.choice(25, size, replace=False) for _ in range(6)])
    expected = by_hand(dense, weights, members)
    np.testing.assert_array_equal(sum_weights(traces, members), expected)
    sums = np.empty_like(expected)
    Counter(traces, size, np.arange(25)).sum(members, sums)  # by those left out, if they are fewer
    np.testing.assert_array_equal(sums, expected)


def parts_of(traces, cuts):
    """Cut traces into consecutive users of the same population."""
    edges = [0, *cuts, traces.n_users]
    for first, stop in pairwise(edges):
        at = traces.offsets[first : stop + 1]
        yield Traces(
            at - at[0],
            traces.cells[at[0] : at[-1]],
            traces.n_rois,
            traces.n_epochs,
            None if traces.idle is None else traces.idle[first:stop],
            first,
            traces.n_users,
            traces.weights[first:stop],
        )


@given(SEEDS, st.booleans(), st.integers(2, 20), st.lists(st.integers(1, 24), unique=True))
def test_parts_add_up_to_the_same_bits(seed, null_roi, size, cuts):
    _, _, traces = crowd(seed, null_roi=null_roi)

    def draw(part):
        rng = np.random.default_rng(seed)
        pool = Pool(part, np.arange(25), 3, size, "test")
        return pool.draw_challenges(4, rng=rng, control=np.random.default_rng(1))

    whole, absent = draw(traces)
    parts = [draw(part) for part in parts_of(traces, sorted(cuts))]
    for expected, found in (
        (whole, [one for one, _ in parts]),
        (absent, [two for _, two in parts]),
    ):
        total = found[0]
        for part in found[1:]:
            total = total.plus(part)
        np.testing.assert_array_equal(total.counts, expected.counts)
        np.testing.assert_array_equal(total.sums, expected.sums)


@given(SEEDS, st.booleans())
def test_a_substitute_brings_its_own_weight(seed, null_roi):
    dense, weights, traces = crowd(seed, null_roi=null_roi)
    members = np.array([[0, 1, 2, 3], [3, 4, 5, 6]])
    counts, sums = count_visits(traces, members), sum_weights(traces, members)
    replace_member(counts, traces, 3, np.array([7, -1]), sums)
    others = np.array([[0, 1, 2, 7], [-1, 4, 5, 6]])
    np.testing.assert_array_equal(sums, by_hand(dense, weights, others))
    np.testing.assert_array_equal(counts, by_hand(dense, np.ones(25), others))


PRIORS = [
    KnownSubset(alpha=0.5, training=8, challenges=8, validation=8),
    KnownSubset(alpha=0.5, training=8, challenges=8, sampling="paired", known_fraction=0.5),
    Perfect(groups=8),
    SameGroups(beta=8),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.label)
@pytest.mark.parametrize("null_roi", [False, True])
def test_weights_of_one_give_the_counts_in_every_sample_of_a_game(prior, null_roi):
    _, _, traces = crowd(5, null_roi=null_roi)
    games = []
    for weights in (None, np.ones(25)):
        users = replace(traces, weights=weights)
        rngs = [np.random.default_rng(i) for i in range(3)]
        games.append(
            prior.set_up(
                GroupRequest(
                    users,
                    4,
                    4,
                    rngs[0],
                    past=[users, users],
                    validate=True,
                    control=rngs[1],
                    more=rngs[2],
                )
            )
        )
    plain, weighed = games
    assert len(samples_of(plain)) == len(samples_of(weighed)) >= 2
    for one, other in zip(samples_of(plain), samples_of(weighed), strict=True):
        assert one.sums is None
        np.testing.assert_array_equal(one.counts, other.counts)
        np.testing.assert_array_equal(other.counts, other.sums)


def samples_of(game):
    """Return every sample of a game, and of the challenges that it draws later."""
    own = game.challenge, game.absent, game.adversary.training, game.adversary.validation
    more = () if game.more is None else (game.more(4),)
    return [sample for sample in (*own, *more) if sample is not None]


def test_samples_keep_their_sums():
    sample = GroupSample(
        np.ones((3, 1, 1), np.int32), np.ones(3, bool), np.arange(3), np.arange(3.0)[:, None, None]
    )
    assert sample.take(np.array([2, 0])).sums.ravel().tolist() == [2, 0]
    assert sample.plus(sample).sums.ravel().tolist() == [0, 2, 4]


def test_traces_without_weights_have_no_sums():
    traces = traces_of(np.ones((3, 1, 1), bool))
    assert sum_weights(traces, np.array([[0]])) is None
    with pytest.raises(InputError, match="these traces have no weights"):
        Counter(traces, 1).sum(np.array([[0]]), np.zeros((1, 1, 1)))
