"""The four classifiers are scikit-learn's, on features that are selected once for all of them."""

import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from oracles.plays import EXACT, crowd, deal
from scipy.special import expit, logit
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from clusterscale.attacks import create, learned
from clusterscale.attacks.linear import eliminate
from clusterscale.attacks.statistics import features
from clusterscale.contracts import Examples, Knowledge, Release
from clusterscale.mechanisms.noise import LaplaceNoise

# liblinear stops early; where, is a matter of rounding, as the order of its features shows.
ROUNDING = 2e-3

NAMES = ["logistic", "least_squares", "nearest", "forest", "perceptron"]
NOISES = [EXACT, LaplaceNoise(1.0)]


def rng():
    return np.random.default_rng(11)


def small(seed, **settings):
    """Deal a play of 140 features and 30 training releases."""
    dense = crowd(np.random.default_rng(seed), 60, 20, 8)
    return deal(seed, dense=dense, training=30, **settings)


def fit(name, knowledge, **settings):
    return create(name, **settings).fit(knowledge, rng=rng())


def pipeline(model, play, step=0.1):
    """Train scikit-learn's ``model`` on the kept features; return it and the challenges' ones."""
    training = play.knowledge.training
    inputs = features(training.release)
    kept = eliminate(inputs, training.labels, n_keep=len(inputs), step=step)
    assert len(kept) == len(inputs) < inputs.shape[1]
    return model.fit(inputs[:, kept], training.labels), features(play.challenge)[:, kept]


@pytest.fixture(params=NOISES, ids=["exact", "laplace"])
def play(request):
    return small(3, noise=request.param)


@pytest.mark.parametrize("cost", [1.0, 1e-3])
def test_logistic(play, cost):
    model, asked = pipeline(LogisticRegression(C=cost, solver="liblinear"), play)
    found = fit("logistic", play.knowledge, cost=cost)
    expected = model.decision_function(asked)
    atol = ROUNDING * np.abs(expected).max()
    np.testing.assert_allclose(found.score(play.challenge), expected, rtol=0, atol=atol)
    assert found.threshold == 0.0


def test_least_squares(play):
    """Of as many features as releases, the fit of smallest weights is scikit-learn's."""
    model, asked = pipeline(LinearRegression(), play)
    found = fit("least_squares", play.knowledge)
    np.testing.assert_allclose(found.score(play.challenge), model.predict(asked), atol=1e-6)
    assert found.threshold == 0.5


@pytest.mark.parametrize("neighbours", [5, 1, 100])
def test_nearest(play, neighbours):
    """Where there are fewer releases than neighbours, all of them are asked."""
    model, asked = pipeline(KNeighborsClassifier(min(neighbours, 30)), play)
    found = fit("nearest", play.knowledge, neighbours=neighbours)
    np.testing.assert_array_equal(found.score(play.challenge), model.predict_proba(asked)[:, 1])
    assert found.threshold == 0.5


@pytest.mark.parametrize(("trees", "depth"), [(30, None), (7, None), (30, 1)])
def test_forest(play, trees, depth):
    seed = int(rng().integers(2**31))
    forest = RandomForestClassifier(trees, max_depth=depth, max_features=None, random_state=seed)
    model, asked = pipeline(forest, play)
    found = fit("forest", play.knowledge, trees=trees, depth=depth)
    np.testing.assert_array_equal(found.score(play.challenge), model.predict_proba(asked)[:, 1])
    assert found.threshold == 0.5


@pytest.mark.parametrize("hidden", [200, 10])
def test_perceptron(play, hidden):
    single = FunctionTransformer(lambda inputs: inputs.astype(np.float32))
    network = MLPClassifier((hidden,), random_state=int(rng().integers(2**31)))
    whole = make_pipeline(StandardScaler(), single, network)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        model, asked = pipeline(whole, play)
    found = fit("perceptron", play.knowledge, hidden=hidden)
    scores, peer = found.score(play.challenge), model.predict_proba(asked)[:, 1].astype(float)
    np.testing.assert_allclose(expit(scores), peer, atol=1e-5)
    sure = np.abs(scores) < 5  # beyond, a probability in single precision tells little
    assert sure.mean() > 0.2
    np.testing.assert_allclose(scores[sure], logit(peer[sure]), rtol=1e-3, atol=1e-3)
    assert found.threshold == 0.0


def test_elimination_is_shared_by_all_that_train_on_the_same_examples(monkeypatch):
    calls = []

    def counted(inputs, labels, **settings):
        calls.append(settings["step"])
        return eliminate(inputs, labels, **settings)

    monkeypatch.setattr(learned, "eliminate", counted)
    knowledge = deal(4).knowledge
    kept = [fit(name, knowledge).distinguisher.kept for name in NAMES * 2]
    assert calls == [0.1]
    assert all(other is kept[0] for other in kept)
    fit("logistic", knowledge, elimination_step=0.2)
    fit("nearest", replace(knowledge, validation=None), elimination_step=0.2)
    assert calls == [0.1, 0.2], "once for every step, for the same examples in other knowledge"
    fit("logistic", knowledge.shuffled(rng()))
    assert calls == [0.1, 0.2, 0.1], "other labels are other examples"


@pytest.mark.parametrize("step", [0.04, 0.5])
def test_the_step_changes_what_is_kept(step):
    play = small(5)
    model, asked = pipeline(KNeighborsClassifier(), play, step=step)
    usual = fit("nearest", play.knowledge)
    found = fit("nearest", play.knowledge, elimination_step=step)
    assert not np.array_equal(found.distinguisher.kept, usual.distinguisher.kept)
    np.testing.assert_array_equal(found.score(play.challenge), model.predict_proba(asked)[:, 1])


@pytest.mark.parametrize("name", NAMES)
def test_no_more_features_than_releases_are_all_kept(name):
    dense = np.random.default_rng(6).random((60, 2, 12)) < 0.3
    found = fit(name, deal(6, dense=dense).knowledge)
    np.testing.assert_array_equal(found.distinguisher.kept, np.arange(14))


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9 / 3])
def test_constant_features_do_not_upset_the_perceptron(constant):
    values = np.random.default_rng(7).normal(size=(20, 2, 9))
    values[:, 1] = constant
    release = Release(values, 5, "noisy")
    training = Examples(release, np.arange(20) % 2 == 0, np.arange(20))
    found = fit("perceptron", Knowledge(training))
    assert (found.distinguisher.kept >= 7).any(), "the constant ones are among the kept"
    scores = found.score(release)
    assert np.isfinite(scores).all()
    assert np.ptp(scores) > 0
    assert np.abs(scores).max() < 100


@pytest.mark.parametrize("name", NAMES)
def test_variants_are_the_attack_as_given_and_every_other_point_of_its_grid(name):
    given = create(name, elimination_step=0.2)
    first, *others = variants = given.variants()
    assert first == given
    assert len({variant.label for variant in variants}) == len(variants)
    points = {tuple(getattr(variant, key) for key in given.grid) for variant in variants}
    assert points == set(product(*given.grid.values())), "the defaults are on the grid"
    assert all(variant.elimination_step == 0.2 for variant in others)
    assert create(name).label == name, "values that were fixed before are not told"


def test_an_attack_off_its_grid_is_one_more_variant():
    variants = create("nearest", neighbours=7).variants()
    assert [variant.neighbours for variant in variants] == [
        7,
        *create("nearest").grid["neighbours"],
    ]


@pytest.mark.parametrize("name", ["logistic", "perceptron", "spectral"])
def test_scores_may_be_the_probabilities_of_the_log_odds(name):
    play = small(3)
    odds, chances = (
        fit(name, play.knowledge, **settings) for settings in ({}, {"scores": "probabilities"})
    )
    np.testing.assert_array_equal(chances.score(play.challenge), expit(odds.score(play.challenge)))
    assert (odds.threshold, chances.threshold) == (0.0, 0.5)
