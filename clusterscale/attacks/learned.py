"""Classifiers trained on the statistics of labelled releases (NDSS18 §V-B, Appendix A)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.attacks.linear import eliminate, fit_logistic
from clusterscale.attacks.statistics import features
from clusterscale.contracts import Component, Knowledge, Release, Scores, Share

__all__ = ["Logistic"]


class Logistic(Component):
    """L2 logistic regression (liblinear) on the statistics of every ROI.

    ``elimination_step`` is the share of all features that each round of recursive feature
    elimination drops, until as many are left as there are training releases.
    """

    name: Literal["logistic"] = "logistic"
    elimination_step: Share = 0.1

    def fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> _LogOdds:
        """Eliminate features, then train; liblinear's primal solver draws nothing from ``rng``."""
        inputs, labels = features(knowledge.training), knowledge.labels
        kept = eliminate(inputs, labels, n_keep=len(inputs), step=self.elimination_step)
        return _LogOdds(kept, *fit_logistic(inputs[:, kept], labels))


@dataclass(frozen=True, slots=True)
class _LogOdds:
    """Weights on the kept statistics; from 0 on the answer is *inside*."""

    kept: NDArray[np.int64]
    weights: NDArray[np.float64]
    intercept: float
    threshold: float = 0.0

    def score(self, release: Release) -> Scores:
        """Return the log-odds of *inside* for each group."""
        return np.asarray(features(release)[:, self.kept] @ self.weights + self.intercept)
