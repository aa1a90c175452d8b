"""Past releases: the same people in every window, other people asked about, or the same."""

import numpy as np
import pytest
from oracles.dense import traces_of

from clusterscale import attacks, mechanisms, priors
from clusterscale.contracts import GroupRequest
from clusterscale.errors import InputError, PoolError
from clusterscale.game import play
from clusterscale.seeds import stream

N_USERS = 40
TARGET = 5


def weeks(n):
    """User u alone visits ROI u, in week w only in hour w: counts tell members and week."""
    windows = []
    for week in range(n):
        dense = np.zeros((N_USERS, N_USERS, n), bool)
        dense[np.arange(N_USERS), np.arange(N_USERS), week] = True
        windows.append(traces_of(dense))
    return windows


def set_up(name, n_past=3, group_size=8, **fields):
    *past, now = weeks(n_past + 1)
    prior = priors.create(name, **fields)
    rng = stream(0, "groups")
    return prior.set_up(GroupRequest(now, TARGET, past=past, group_size=group_size, rng=rng))


def test_same_groups_are_seen_every_week_and_asked_about():
    game = set_up("same_groups", beta=20)
    asked = game.challenge.counts[:, :, 3].astype(bool)
    assert (asked.sum(axis=1) == 8).all()
    np.testing.assert_array_equal(asked[:, TARGET], game.challenge.labels)
    seen = game.adversary.training.counts.reshape(3, 20, N_USERS, 4)
    for week in range(3):
        np.testing.assert_array_equal(seen[week, :, :, week], asked)
        assert not np.delete(seen[week], week, axis=2).any()
    np.testing.assert_array_equal(game.adversary.training.labels, np.tile(game.challenge.labels, 3))
    np.testing.assert_array_equal(game.adversary.training.blocks, np.tile(np.arange(20), 3))
    assert game.adversary.whereabouts is None


def test_different_groups_are_split_three_to_one_with_labels_in_balance():
    game = set_up("different_groups", beta=32)
    asked = game.challenge.counts[:, :, 3].astype(bool)
    seen = game.adversary.training.counts[:24, :, :].any(axis=2)
    assert len(asked) == 8
    assert len(game.adversary.training) == 24 * 3
    assert game.challenge.labels.sum() == 4
    assert game.adversary.training.labels.sum() == 12 * 3
    groups = np.concatenate([seen, asked])
    assert len(np.unique(groups, axis=0)) == 32, "no group is both seen and asked about"
    np.testing.assert_array_equal(game.adversary.training.blocks, np.tile(np.arange(24), 3))


def test_groups_may_hold_almost_everyone():
    """Counted as all less those left out; each is right."""
    game = set_up("same_groups", beta=20, group_size=N_USERS - 2)
    asked = game.challenge.counts[:, :, 3]
    assert (asked.sum(axis=1) == N_USERS - 2).all()
    np.testing.assert_array_equal(asked[:, TARGET] == 1, game.challenge.labels)


@pytest.mark.parametrize("name", ["same_groups", "different_groups"])
def test_without_a_past_there_is_nothing_to_learn(name):
    with pytest.raises(InputError, match="trains on releases of past periods, but there are none"):
        set_up(name, n_past=0)


def test_too_large_groups_are_refused_by_name():
    with pytest.raises(PoolError, match="the same_groups pool has 40 users including the target"):
        set_up("same_groups", group_size=40)


def test_regular_people_in_stable_groups_are_found_and_in_new_ones_less():
    """Everyone repeats each week: the same groups give the same counts, so memory suffices."""
    rng = np.random.default_rng(3)
    traces = traces_of(rng.random((N_USERS, 6, 24)) < 0.2)
    found = {}
    for name, beta in (("same_groups", 40), ("different_groups", 80)):
        game = priors.create(name, beta=beta).set_up(
            GroupRequest(
                traces, TARGET, past=[traces, traces], group_size=20, rng=stream(0, "groups")
            )
        )
        (outcome,) = play(
            game, [mechanisms.create("exact")], [attacks.create("nearest", neighbours=1)],
            seed=0, path=(name,), control=False,
        )  # fmt: skip
        found[name] = outcome.auc
    assert found["same_groups"] == 1.0
    assert found["different_groups"] < 0.8
