"""Cells are scikit-learn's L1 regression, with the threshold of the right groups."""

from dataclasses import replace

import numpy as np
import pytest
from oracles.plays import EXACT, deal
from sklearn.linear_model import LogisticRegression

from clusterscale.attacks import create
from clusterscale.attacks.threshold import youden
from clusterscale.contracts import Noise, Release

RNG = np.random.default_rng(0)  # nothing is drawn from it
NOISES = [EXACT, Noise("laplace", 1.0)]


def fit(knowledge, **settings):
    return create("cells", **settings).fit(knowledge, rng=RNG)


@pytest.mark.parametrize("noise", NOISES, ids=["exact", "laplace"])
@pytest.mark.parametrize("cost", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_scikit_learn(noise, cost, seed):
    """Solved by liblinear much further than it goes by itself."""
    play = deal(seed, noise=noise)
    training = play.knowledge.training
    model = LogisticRegression(
        l1_ratio=1, solver="liblinear", C=cost, tol=1e-10, max_iter=100_000, random_state=0
    )
    model.fit(training.release.flat.astype(float), training.labels)
    expected = model.decision_function(play.challenge.flat.astype(float))
    scores = fit(play.knowledge, cost=cost).score(play.challenge)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=5e-5 * np.abs(expected).max())


@pytest.mark.parametrize("noise", NOISES, ids=["exact", "laplace"])
def test_the_threshold_is_chosen_on_validation_groups(noise):
    knowledge = deal(4, noise=noise, size=15, validate=True).knowledge
    found = fit(knowledge)
    check = knowledge.validation
    assert found.threshold == youden(check.labels, found.score(check.release))
    training = knowledge.training
    assert found.threshold != youden(training.labels, found.score(training.release))


def test_without_validation_groups_it_is_chosen_on_the_training_ones():
    knowledge = deal(4, size=15, validate=True).knowledge
    training = knowledge.training
    found = fit(replace(knowledge, validation=None))
    assert found.threshold == youden(training.labels, found.score(training.release))
    both = fit(knowledge)
    np.testing.assert_array_equal(both.weights, found.weights)
    assert both.intercept == found.intercept


def test_cells_without_weight_do_not_count():
    play = deal(5)
    found = fit(play.knowledge)
    values = play.challenge.values.copy()
    rest = np.setdiff1d(np.arange(values[0].size), found.cells)
    assert 0 < len(found.cells) < len(rest)
    assert (found.weights != 0).all()
    values.reshape(len(values), -1)[:, rest] = 99
    other = Release(values, 8, "exact", EXACT)
    np.testing.assert_array_equal(found.score(other), found.score(play.challenge))


def test_at_little_cost_no_cell_is_used():
    play = deal(6)
    found = fit(play.knowledge, cost=1e-4)
    assert len(found.cells) == 0
    assert np.ptp(found.score(play.challenge)) == 0
    assert np.isfinite(found.threshold)


def test_whole_numbers_may_come_in_either_type():
    play = deal(7)
    training = play.knowledge.training
    values = training.release.values.astype(np.float64)
    same = replace(training, release=replace(training.release, values=values))
    scores = [fit(replace(play.knowledge, training=part)) for part in (training, same)]
    np.testing.assert_allclose(*(found.score(play.challenge) for found in scores), rtol=1e-9)
