"""Projection is the inner product it claims to be."""

import numpy as np

from clusterscale.attacks import create
from clusterscale.contracts import Knowledge, Release


def test_scores_and_threshold_by_hand():
    mean = np.array([[0.5, 0.0], [0.25, 0.25]])
    trace = np.array([0, 3])  # in ROI 0 at epoch 0 and in ROI 1 at epoch 1
    training = np.array([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [2.0, 0.0]]])
    knowledge = Knowledge(Release(training, 3, "exact"), np.array([True, False]), trace, mean)
    distinguisher = create("projection").fit(knowledge, rng=np.random.default_rng(0))
    direction = np.array([0.5, 0.0, -0.25, 0.75])
    np.testing.assert_allclose(
        distinguisher.score(knowledge.training), training.reshape(2, 4) @ direction
    )
    assert distinguisher.threshold == (1.75 - 0.5) / 2
    assert mean[0, 0] == 0.5, "the knowledge must not be written to"
