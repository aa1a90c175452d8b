"""Sparse logistic regression on every cell of a release (POPETS24 §5.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.attacks.base import BaseAttack
from clusterscale.attacks.blocked_linalg import column_variances, combine
from clusterscale.attacks.lasso import fit_lasso
from clusterscale.attacks.threshold import youden
from clusterscale.contracts import Knowledge, Labels, Positive, Release, Scores

__all__ = ["Cells"]

_TOLERANCE = 1e-10  # for standardised cells, where it costs little


class Cells(BaseAttack):
    """L1 logistic regression (liblinear's, cost C) on the flattened release.

    ``standardize`` first subtracts from every cell its mean over the training releases and divides
    it by its standard deviation (ddof 0), as the published code does; a cell that is the same in
    all of them has no weight. Without it, the penalty favours cells whose counts vary most.

    The threshold maximises Youden's J on the validation groups, or on the training groups if the
    prior has no validation groups. Scores are log-odds; ``rng`` is not used.
    """

    name: Literal["cells"] = "cells"
    cost: Positive = 1.0
    standardize: bool = False

    needs_whereabouts: ClassVar[bool] = False
    validates: ClassVar[bool] = True

    def _fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> _FewCells:
        """Train, then choose the threshold."""
        training = knowledge.training
        flat: Any = np.ascontiguousarray(training.release.flat)
        if self.standardize:
            model = _fit_standardized(flat, training.labels, self.cost)
        else:
            model = _FewCells(*fit_lasso(flat, training.labels, cost=self.cost))
        check = knowledge.validation or training
        return replace(model, threshold=youden(check.labels, model.score(check.release)))


def _fit_standardized(flat: Any, labels: Labels, cost: float) -> _FewCells:
    """Train on standardised cells, and convert weights and intercept to unscaled cells.

    Constant cells keep their scale.
    """
    centre = combine(flat, np.full(len(flat), 1 / len(flat)))
    spread = np.sqrt(column_variances(flat))
    scale = np.divide(1.0, spread, out=np.ones_like(spread), where=spread > 0)
    cells, weights, intercept = fit_lasso(
        flat, labels, cost=cost, tolerance=_TOLERANCE, centre=centre, scale=scale
    )
    weights = weights * scale[cells]
    return _FewCells(cells, weights, intercept - float(weights @ centre[cells]))


@dataclass(frozen=True, slots=True)
class _FewCells:
    """Weights of selected cells; all others have weight 0."""

    cells: NDArray[np.int64]
    weights: NDArray[np.float64]
    intercept: float
    threshold: float = 0.0

    def score(self, release: Release) -> Scores:
        """Return the log-odds of *inside* for each group."""
        return np.asarray(release.flat[:, self.cells] @ self.weights + self.intercept)
