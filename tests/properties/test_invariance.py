"""What must not matter does not: names and order of places, and how a cube was written."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.dense import traces_of

from clusterscale import attacks, mechanisms, priors
from clusterscale.contracts import GroupRequest
from clusterscale.cube import with_null_roi
from clusterscale.game import play
from clusterscale.seeds import stream

PRIOR = priors.create("known_subset", alpha=0.5, training=40, challenges=20)
EXACT = mechanisms.create("exact")


def aucs(traces, target, names=("projection",)):
    game = PRIOR.set_up(GroupRequest(traces, target, group_size=6, rng=stream(0, "groups", target)))
    chosen = [attacks.create(name) for name in names]
    return [outcome.auc for outcome in play(game, [EXACT], chosen, seed=0, path=())]


@given(st.integers(0, 10**6), st.integers(0, 59))
def test_order_of_places_and_hours(dense, seed, target):
    """Groups are drawn of users alone, so relabelling cells permutes sums and nothing else."""
    rng = np.random.default_rng(seed)
    shuffled = dense[:, rng.permutation(dense.shape[1])][:, :, rng.permutation(dense.shape[2])]
    assert aucs(traces_of(shuffled), target) == pytest.approx(
        aucs(traces_of(dense), target),
        abs=0.011,  # one pair of a hundred may swap by rounding
    )


@given(st.integers(0, 59))
def test_a_place_that_nobody_visits(dense, target):
    empty = np.zeros((len(dense), 1, dense.shape[2]), bool)
    wider = np.concatenate([dense, empty], axis=1)
    names = ("logistic", "projection")
    assert aucs(traces_of(wider), target, names) == pytest.approx(
        aucs(traces_of(dense), target, names), abs=0.05
    )


@given(st.integers(1, 59))
def test_everyone_is_somewhere_with_the_null_roi(dense, n_users):
    traces = with_null_roi(traces_of(dense[:n_users]))
    epochs = np.concatenate([np.unique(traces.trace(u) % 48) for u in range(n_users)])
    np.testing.assert_array_equal(np.bincount(epochs, minlength=48), n_users)


def test_a_target_alone_is_certain(dense):
    """Nobody else moves: any count at all betrays the target."""
    lonely = np.zeros_like(dense)
    lonely[5] = dense[5]
    assert aucs(traces_of(lonely), 5, ("logistic", "projection")) == [1.0, 1.0]
