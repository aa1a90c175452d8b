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
    shown = np.unique(game.training_counts.sum(axis=0) > 0)
    assert shown.any()
    known = round(0.5 * cube.n_users)
    assert game.mean_trace.max() <= 1
    assert (game.mean_trace * known).sum() == pytest.approx(
        round((game.mean_trace * known).sum())
    ), "the mean trace is over the known users"
    np.testing.assert_array_equal(game.trace, np.flatnonzero(dense[5]))


def test_noise_is_fresh_for_training_and_challenge_and_each_mechanism(game):
    spy = Spy()
    list(play(game, [EXACT, NOISY], [spy], seed=1, path=(), control=False))
    raw, noisy = (knowledge.training.values for knowledge in spy.seen)
    np.testing.assert_array_equal(raw, game.training_counts)
    assert (noisy != raw).mean() > 0.99
    assert spy.seen[1].training.mechanism == "laplace(epsilon=1.0, unit='event')"


def test_control_knowledge_says_nothing(game):
    spy = Spy()
    list(play(game, [EXACT], [spy], seed=1, path=()))
    knowledge, worthless = spy.seen
    for side in (True, False):
        assert worthless.labels[knowledge.labels == side].mean() == 0.5
    assert worthless.training is knowledge.training


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
