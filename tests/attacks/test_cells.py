"""Cells are scikit-learn's L1 regression, with the threshold of the right groups."""

from dataclasses import replace

import numpy as np
import pytest
from oracles.plays import EXACT, deal
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clusterscale.attacks import create
from clusterscale.attacks.cells import youden
from clusterscale.contracts import Examples, Knowledge, Release, hash_of
from clusterscale.mechanisms.noise import LaplaceNoise

RNG = np.random.default_rng(0)  # nothing is drawn from it
NOISES = [EXACT, LaplaceNoise(1.0)]


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
@pytest.mark.parametrize("seed", range(3))
def test_standardised_scores_are_those_of_scikit_learn(noise, seed):
    """To rounding. By default liblinear stops early, here within 0.2 of the exact scores."""
    play = deal(seed, noise=noise)
    training = play.knowledge.training
    settings = {"l1_ratio": 1, "solver": "liblinear", "C": 1.0, "random_state": 0}
    exact, usual = (
        make_pipeline(StandardScaler(), LogisticRegression(**settings, **stop))
        .fit(training.release.flat.astype(float), training.labels)
        .decision_function(play.challenge.flat.astype(float))
        for stop in ({"tol": 1e-13, "max_iter": 1_000_000}, {})
    )
    scores = fit(play.knowledge, standardize=True).score(play.challenge)
    np.testing.assert_allclose(scores, exact, rtol=0, atol=1e-9)
    np.testing.assert_allclose(scores, usual, rtol=0, atol=0.2)
    assert np.abs(scores - fit(play.knowledge).score(play.challenge)).max() > 0.1


@pytest.mark.parametrize("factor", [3.0, 0.7])
def test_standardised_cells_that_are_alike_share_their_weight(factor):
    """A multiple of another cell is that cell once standardised; a constant cell has no weight."""
    values = np.random.default_rng(0).random((20, 1, 3))
    values[:, 0, 1] = values[:, 0, 0] * factor + 0.1
    values[:, 0, 2] = factor
    training = Examples(Release(values, 5, "noisy"), values[:, 0, 0] > 0.5, np.arange(20))
    found = fit(Knowledge(training), standardize=True).distinguisher
    np.testing.assert_array_equal(found.cells, [0, 1])
    assert found.weights[0] == pytest.approx(found.weights[1] * factor)


def test_the_setting_is_part_of_the_label_only_where_it_is_set():
    assert create("cells").label == "cells"
    assert create("cells", standardize=True).label == "cells(standardize=True)"
    assert create("cells").id == "cells"
    assert create("cells").digest == hash_of({"name": "cells"}), (
        "a field added later changes nothing"
    )
    assert create("cells", standardize=True).digest != create("cells").digest
    for attack in (create("cells"), create("cells", standardize=True)):
        assert create(**attack.model_dump()) == attack


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
    np.testing.assert_array_equal(both.distinguisher.weights, found.distinguisher.weights)
    assert both.distinguisher.intercept == found.distinguisher.intercept


def test_cells_without_weight_do_not_count():
    play = deal(5)
    found = fit(play.knowledge)
    values = play.challenge.values.copy()
    rest = np.setdiff1d(np.arange(values[0].size), found.distinguisher.cells)
    assert 0 < len(found.distinguisher.cells) < len(rest)
    assert (found.distinguisher.weights != 0).all()
    values.reshape(len(values), -1)[:, rest] = 8
    other = Release(values, 8, "exact", EXACT)
    np.testing.assert_array_equal(found.score(other), found.score(play.challenge))


def test_at_little_cost_no_cell_is_used():
    play = deal(6)
    found = fit(play.knowledge, cost=1e-4)
    assert len(found.distinguisher.cells) == 0
    assert np.ptp(found.score(play.challenge)) == 0
    assert np.isfinite(found.threshold)


def test_whole_numbers_may_come_in_either_type():
    play = deal(7)
    training = play.knowledge.training
    values = training.release.values.astype(np.float64)
    same = replace(training, release=replace(training.release, values=values))
    scores = [fit(replace(play.knowledge, training=part)) for part in (training, same)]
    np.testing.assert_allclose(*(found.score(play.challenge) for found in scores), rtol=1e-9)
