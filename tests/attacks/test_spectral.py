"""Components by inner products are scikit-learn's, and so is the regression on them."""

import gc
import weakref

import numpy as np
import pytest
from loops import mostly_slow
from oracles.plays import EXACT, deal
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clusterscale.attacks import create, spectral
from clusterscale.attacks.blocked_linalg import gram
from clusterscale.contracts import Examples, Knowledge, Release
from clusterscale.errors import ConfigError
from clusterscale.mechanisms.noise import LaplaceNoise

RNG = np.random.default_rng(0)  # nothing is drawn from it
NOISES = [EXACT, LaplaceNoise(1.0)]
RULES = [{}, {"components": 5}, {"components": 1000}, {"variance": 0.9}, {"variance": 1.0}]
RULES += [{**rule, "standardize": True} for rule in RULES]


def peer(play, kept, *, standardize=False):
    pca = PCA(n_components=kept, svd_solver="full")
    scaler = [StandardScaler()] if standardize else []
    model = make_pipeline(*scaler, pca, LogisticRegression(solver="liblinear"))
    training = play.knowledge.training
    model.fit(training.release.flat.astype(float), training.labels)
    return model.decision_function(play.challenge.flat.astype(float))


@mostly_slow("noise", NOISES, ids=["exact", "laplace"])
@mostly_slow("rule", RULES, ids=str)
@mostly_slow("seed", range(3), n_quick=16)
def test_scores_are_those_of_scikit_learn(noise, rule, seed):
    play = deal(seed, noise=noise, size=15)
    kept = rule.get("components", rule.get("variance"))
    kept = None if kept in (1000, 1.0) else kept
    expected = peer(play, kept, standardize="standardize" in rule)
    found = create("spectral", **rule).fit(play.knowledge, rng=RNG)
    scores = found.score(play.challenge)
    atol = 1e-4 * np.abs(expected).max()
    np.testing.assert_allclose(scores, expected, rtol=0, atol=atol)
    areas = [roc_auc_score(play.labels, decisions) for decisions in (scores, expected)]
    assert areas[0] == pytest.approx(areas[1], abs=0.005)
    assert found.threshold == 0.0


def test_fewer_cells_than_releases():
    dense = np.random.default_rng(1).random((60, 2, 6)) < 0.3
    play = deal(1, dense=dense)
    found = create("spectral").fit(play.knowledge, rng=RNG).score(play.challenge)
    np.testing.assert_allclose(found, peer(play, None), rtol=1e-4, atol=1e-6)


def test_the_share_of_variance_is_held_by_the_fewest_components():
    """Four groups along two axes, nine tenths of the variance along the first."""
    values = np.array([[3.0, 0], [-3, 0], [0, 1], [0, -1]]).reshape(4, 1, 2)
    training = Examples(Release(values, 5, "noisy"), np.arange(4) % 2 == 0, np.arange(4))
    asked = Release(np.array([[[1.0, 7.0]], [[2.0, -5.0]]]), 5, "noisy")

    def scores(**rule):
        return create("spectral", **rule).fit(Knowledge(training), rng=RNG).score(asked)

    assert not np.allclose(scores(components=1), scores(components=2))
    for share, n_kept in [(0.5, 1), (0.9, 1), (0.9001, 2), (1.0, 2)]:
        np.testing.assert_allclose(scores(variance=share), scores(components=n_kept))


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_whole_numbers_may_come_in_either_type(rule):
    play = deal(2)
    training = play.knowledge.training
    attack = create("spectral", **rule)
    scores = []
    for dtype in (np.int32, np.float64):
        release, asked = (
            Release(part.values.astype(dtype), 8, "exact", EXACT)
            for part in (training.release, play.challenge)
        )
        knowledge = Knowledge(Examples(release, training.labels, training.blocks))
        scores.append(attack.fit(knowledge, rng=RNG).score(asked))
    np.testing.assert_array_equal(*scores)


def test_releases_that_are_all_the_same():
    training = Examples(Release(np.ones((4, 2, 3)), 5, "same"), np.arange(4) < 2, np.arange(4))
    for rule in RULES:
        scores = create("spectral", **rule).fit(Knowledge(training), rng=RNG)
        np.testing.assert_allclose(scores.score(training.release), 0, atol=1e-9)


@pytest.mark.parametrize("value", [3, 0.1])
def test_what_no_release_varies_is_left_out(value):
    """Of .1 a few times the mean is not .1, and the deviation from it not quite 0."""
    values = np.random.default_rng(0).random((20, 2, 3))
    values[:, 1, 2] = value
    training = Examples(Release(values, 5, "noisy"), np.arange(20) % 2 == 0, np.arange(20))
    found = create("spectral", standardize=True).fit(Knowledge(training), rng=RNG)
    np.testing.assert_array_equal(found.distinguisher.weights == 0, np.arange(6) == 5)


def test_inner_products_are_worked_out_once_a_release_and_then_forgotten(monkeypatch):
    calls = []
    monkeypatch.setattr(spectral, "gram", lambda *rows: (calls.append(1), gram(*rows))[1])
    play = deal(3)
    for rule in RULES:
        attack = create("spectral", **rule)
        attack.fit(play.knowledge, rng=RNG)
        attack.fit(play.knowledge.shuffled(np.random.default_rng(0)), rng=RNG)
    assert len(calls) == 2, "as they are and standardized; the control trains on the same release"
    create("spectral").fit(deal(3).knowledge, rng=RNG)
    assert len(calls) == 3, "an equal release is another one"
    held = weakref.ref(play.knowledge.training.release)
    assert held() in spectral._GRAMS
    del play
    gc.collect()
    assert held() is None


def test_one_rule_at_most():
    with pytest.raises(ConfigError, match="components or variance, not both"):
        create("spectral", components=5, variance=0.9)
