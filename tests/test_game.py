"""A play is fair: same groups for all, fresh noise, answers out of reach."""

import numpy as np
import pytest

from clusterscale import attacks, mechanisms, priors
from clusterscale.game import play
from clusterscale.seeds import stream

PRIOR = priors.create("known_subset", alpha=0.5, training=40, challenges=20)
EXACT = mechanisms.create("exact")
NOISY = mechanisms.create("laplace", epsilon=1.0, unit="event")


@pytest.fixture
def game(cube):
    return PRIOR.set_up(cube.traces(), 5, group_size=6, rng=stream(0, "groups"))


class Spy:
    """Keeps what it was given."""

    name = label = "spy"

    def __init__(self):
        self.seen = []

    def fit(self, knowledge, *, rng):
        self.seen.append(knowledge)
        return attacks.create("projection").fit(knowledge, rng=rng)


def test_challenges_hold_only_strangers_and_the_target(cube, dense):
    game = PRIOR.set_up(cube.traces(), 5, group_size=6, rng=stream(0, "groups"))
    assert game.training.counts.any()
    places = game.whereabouts
    assert places.n_users == round(0.5 * cube.n_users)
    n_seen = places.mean_trace * places.n_users
    np.testing.assert_allclose(n_seen, np.round(n_seen), atol=1e-9)
    np.testing.assert_array_equal(places.trace, np.flatnonzero(dense[5]))


def test_noise_is_fresh_for_training_and_challenge_and_each_mechanism(game):
    spy = Spy()
    list(play(game, [EXACT, NOISY], [spy], seed=1, path=(), control=False))
    raw, noisy = (knowledge.training.release.values for knowledge in spy.seen)
    assert raw is game.training.counts, "counts that nothing is done to are not copied"
    assert (noisy != raw).mean() > 0.99
    assert spy.seen[1].training.release.mechanism == "laplace(epsilon=1.0, unit='event')"


def test_control_knowledge_says_nothing(game):
    spy = Spy()
    list(play(game, [EXACT], [spy], seed=1, path=()))
    knowledge, worthless = spy.seen
    for side in (True, False):
        assert worthless.training.labels[knowledge.training.labels == side].mean() == 0.5
    assert worthless.training.release is knowledge.training.release


def test_outcomes_do_not_depend_on_company(game):
    """One attack alone, or among others and in another order: the same bits."""
    logistic, projection = attacks.create("logistic"), attacks.create("projection")
    together = {
        (outcome.mechanism, outcome.attack): (outcome.auc, outcome.accuracy, outcome.control_auc)
        for outcome in play(game, [NOISY, EXACT], [projection, logistic], seed=4, path=("x", 1))
    }
    for mechanism in (EXACT, NOISY):
        for attack in (logistic, projection):
            (alone,) = play(game, [mechanism], [attack], seed=4, path=("x", 1))
            assert together[mechanism.label, attack.label] == (
                alone.auc,
                alone.accuracy,
                alone.control_auc,
            )


def test_without_control_there_is_none(game):
    (outcome,) = play(game, [EXACT], [attacks.create("projection")], seed=4, path=(), control=False)
    assert np.isnan(outcome.control_auc)
    assert outcome.auc > 0.9
    assert 0.5 < outcome.accuracy <= 1
