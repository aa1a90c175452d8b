"""Our regression is scikit-learn's, and our elimination keeps what its RFE keeps."""

import numpy as np
import pytest
from sklearn.feature_selection import RFE
from sklearn.linear_model import LogisticRegression

from clusterscale.attacks.linear import eliminate, fit_logistic


def draw(seed, n_rows=40, n_features=200):
    rng = np.random.default_rng(seed)
    labels = np.arange(n_rows) % 2 == 0
    inputs = rng.normal(size=(n_rows, n_features)) * rng.gamma(2.0, size=n_features)
    inputs[:, :10] += labels[:, None] * rng.normal(size=10)
    return inputs, labels


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_features", [20, 200])
def test_weights_are_those_of_scikit_learn(seed, n_features):
    inputs, labels = draw(seed, n_features=n_features)
    weights, intercept = fit_logistic(inputs, labels)
    model = LogisticRegression(solver="liblinear").fit(inputs, labels)
    np.testing.assert_allclose(weights, model.coef_[0], rtol=1e-6, atol=1e-9)
    assert intercept == pytest.approx(model.intercept_[0], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("step", [0.1, 0.04])
def test_elimination_keeps_what_rfe_keeps(seed, step):
    inputs, labels = draw(seed)
    kept = eliminate(inputs, labels, n_keep=40, step=step)
    model = LogisticRegression(solver="liblinear")
    peer = RFE(model, n_features_to_select=40, step=step).fit(inputs, labels)
    np.testing.assert_array_equal(kept, np.flatnonzero(peer.support_))


def test_nothing_to_eliminate():
    inputs, labels = draw(0, n_features=12)
    np.testing.assert_array_equal(eliminate(inputs, labels, n_keep=40, step=0.1), np.arange(12))


def test_rows_of_zeros_and_constant_features_do_no_harm():
    inputs, labels = draw(1)
    inputs[:, 50:] = 0
    inputs[3] = 0
    weights, _ = fit_logistic(inputs, labels)
    assert np.isfinite(weights).all()
    assert (weights[50:] == 0).all()
