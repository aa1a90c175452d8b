"""Sparse logistic regression on every cell of a release (POPETS24 §5.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.attacks.lasso import fit_lasso
from clusterscale.attacks.threshold import youden
from clusterscale.contracts import Component, Knowledge, Positive, Release, Scores

__all__ = ["Cells"]


class Cells(Component):
    """L1 logistic regression (liblinear's, cost C) on the flattened release.

    The threshold is the one of greatest Youden's J on the validation groups, or on the training
    groups where the prior has no others. Scores are log-odds; nothing is drawn from ``rng``.
    """

    name: Literal["cells"] = "cells"
    cost: Positive = 1.0

    needs_whereabouts: ClassVar[bool] = False
    validates: ClassVar[bool] = True

    def fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> _FewCells:
        """Train, then choose the threshold."""
        training = knowledge.training
        flat: Any = np.ascontiguousarray(training.release.flat)
        model = _FewCells(*fit_lasso(flat, training.labels, cost=self.cost))
        check = knowledge.validation or training
        return replace(model, threshold=youden(check.labels, model.score(check.release)))


@dataclass(frozen=True, slots=True)
class _FewCells:
    """Weights on the cells that matter; all others have none."""

    cells: NDArray[np.int64]
    weights: NDArray[np.float64]
    intercept: float
    threshold: float = 0.0

    def score(self, release: Release) -> Scores:
        """Return the log-odds of *inside* for each group."""
        return np.asarray(release.flat[:, self.cells] @ self.weights + self.intercept)
