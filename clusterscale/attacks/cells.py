"""Sparse logistic regression on every cell of a release (POPETS24 §5.2)."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.attacks.base import BaseAttack
from clusterscale.attacks.blocked_linalg import column_variances, combine
from clusterscale.attacks.lasso import fit_lasso
from clusterscale.contracts import AttackSeconds, Knowledge, Labels, Positive, Release, Scores


class Cells(BaseAttack):
    """L1 logistic regression (liblinear's, cost C) on the flattened release.

    ``standardize`` first subtracts from every cell its mean over the training releases and divides
    it by its standard deviation (ddof 0), as the published code does; a cell that is the same in
    all of them has no weight. Without it, the penalty favours cells whose counts vary most.

    The threshold maximises Youden's J on the validation groups, or on the training groups if the
    prior has no validation groups. Scores are log-odds; ``rng`` is not used.

    Attributes
    ----------
    cost
        Inverse strength of the penalty, C, without a unit.
    standardize
        Whether cells are scaled to mean 0 and variance 1.
    """

    name: Literal["cells"] = "cells"
    seconds = AttackSeconds(train=1.4e-9, score=1.4e-9)
    usual_against = ("zero_knowledge",)
    cost: Positive = 1.0
    standardize: bool = False

    validates: ClassVar[bool] = True

    def _fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> "_FewCells":
        training = knowledge.training
        flat: Any = np.ascontiguousarray(training.release.flat)
        if self.standardize:
            model = _fit_standardized(flat, training.labels, self.cost)
        else:
            model = _FewCells(*fit_lasso(flat, training.labels, cost=self.cost))
        check = knowledge.validation or training
        return replace(model, threshold=youden(check.labels, model.score(check.release)))


def _fit_standardized(flat: Any, labels: Labels, cost: float) -> "_FewCells":
    """Train on standardised cells, and convert weights and intercept to unscaled cells.

    Constant cells keep their scale.
    """
    centre = combine(flat, np.full(len(flat), 1 / len(flat)))
    spread = np.sqrt(column_variances(flat))
    scale = np.divide(1.0, spread, out=np.ones_like(spread), where=spread > 0)
    # 1e-10: for standardised cells, where it costs little
    cells, weights, intercept = fit_lasso(
        flat, labels, cost=cost, tolerance=1e-10, centre=centre, scale=scale
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


def youden(labels: Labels, scores: Scores) -> float:
    """Return the threshold that maximises Youden's J, true minus false positive rate (Youden 1950).

    It is midway between two scores, or the lowest score if calling everything *inside* is no
    worse; the lowest of equally good thresholds. ``labels`` are bool, shape (group,), of both
    classes, ``scores`` float64, the same shape, finite.
    """
    order = np.argsort(scores, kind="stable")
    ranked, inside = scores[order], labels[order]
    # J of calling scores from the i-th on inside, where that score differs from the one before.
    false_negatives, true_negatives = (
        np.concatenate([[0], np.cumsum(side)]) for side in (inside, ~inside)
    )
    # J, scaled to integers: ties are exact
    gain = true_negatives * inside.sum() - false_negatives * (~inside).sum()
    cut = np.concatenate([[0], np.flatnonzero(np.diff(ranked) > 0) + 1])
    best = cut[np.argmax(gain[cut])]
    if best == 0:
        return float(ranked[0])
    below, above = float(ranked[best - 1]), float(ranked[best])
    middle = below / 2 + above / 2
    return middle if middle > below else above  # no float is between adjacent floats
