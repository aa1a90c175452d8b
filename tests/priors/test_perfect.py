"""An adversary who knows the released groups learns them, unless noise comes between."""

import numpy as np
import pytest
from oracles.dense import traces_of

from clusterscale import attacks, mechanisms, priors
from clusterscale.contracts import GroupRequest, publish
from clusterscale.game import play
from clusterscale.seeds import stream

EXACT = mechanisms.create("exact")
NOISY = mechanisms.create("laplace", epsilon=0.2, unit="event")


def set_up(dense, adversary):
    prior = priors.create("perfect", groups=60, adversary=adversary)
    return prior.set_up(GroupRequest(traces_of(dense), 5, group_size=30, rng=stream(0, "groups")))


@pytest.mark.parametrize("adversary", ["strategic", "passive"])
def test_challenges_are_the_training_groups(dense, adversary):
    game = set_up(dense, adversary)
    assert game.adversary.training is game.challenge
    places = game.adversary.whereabouts
    assert places.n_users == len(dense)
    np.testing.assert_array_equal(places.mean_trace, dense.mean(axis=0))


def test_a_strategic_adversary_trains_on_noise_of_its_own(dense):
    game = set_up(dense, "strategic")
    noise = stream(0, "noise", "challenge")
    asked = publish(game.challenge.counts, NOISY, group_size=30, rng=noise)
    own = game.adversary.study(asked, NOISY, rng=stream(0, "noise", "training")).training.release
    assert own.mechanism == asked.mechanism == NOISY.label
    assert (own.values != asked.values).all()


def test_a_passive_adversary_trains_on_counts(dense):
    game = set_up(dense, "passive")
    release = game.adversary.study(None, NOISY, rng=stream(0, "noise", "training")).training.release
    assert release.mechanism == "exact"
    assert release.values is game.adversary.training.counts


@pytest.mark.parametrize("adversary", ["strategic", "passive"])
def test_without_noise_the_answer_is_certain(dense, adversary):
    """NDSS18 §VII-B: a classifier trained on raw counts always guesses right: AUC 1."""
    outcomes = play(
        set_up(dense, adversary), [EXACT], [attacks.create(name) for name in ("spectral", "cells")],
        seed=0, path=(), control=False,
    )  # fmt: skip
    assert [outcome.auc for outcome in outcomes] == [1.0, 1.0]
