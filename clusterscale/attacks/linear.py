"""L2 logistic regression and recursive feature elimination, at the cost of the rows.

With more features than training releases the optimum lies in the span of the rows, and both the
penalty and liblinear's trust-region path are unchanged by a rotation. So the regression is solved
on the n × n principal coordinates of the rows instead of on n × p features, and its weights are
carried back: the same model, p/n times cheaper. Features × rows are only touched by two products.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from clusterscale.contracts import Labels

__all__ = ["eliminate", "fit_logistic"]

Floats = NDArray[np.float64]


def fit_logistic(inputs: Floats, labels: Labels) -> tuple[Floats, float]:
    """Return weights, shape (feature,), and intercept of scikit-learn's liblinear regression.

    Parameters
    ----------
    inputs
        float64, shape (row, feature), unscaled as in the papers.
    labels
        bool, shape (row,).
    """
    if inputs.shape[1] <= inputs.shape[0]:
        return _solve(inputs, labels)
    coordinates, back = _principal(inputs)
    weights, intercept = _solve(coordinates, labels)
    return inputs.T @ (back @ weights), intercept


def eliminate(inputs: Floats, labels: Labels, *, n_keep: int, step: float) -> NDArray[np.int64]:
    """Return the features, increasing, that recursive elimination keeps (Guyon et al. 2002).

    Each round drops ``step`` times the number of all features, those of least squared weight; the
    same features as scikit-learn's ``RFE`` with liblinear, up to rounding.

    Parameters
    ----------
    inputs, labels
        As for :func:`fit_logistic`.
    n_keep
        How many features to keep; all of them where there are no more.
    step
        Share of all features to drop in a round, at least one feature.
    """
    kept = np.arange(inputs.shape[1])
    n_step = max(1, int(step * len(kept)))
    while len(kept) > n_keep:
        weights, _ = fit_logistic(inputs[:, kept], labels)
        n_drop = min(n_step, len(kept) - n_keep)
        kept = np.sort(kept[np.argsort(weights**2)[n_drop:]])
    return kept


def _principal(inputs: Floats) -> tuple[Floats, Floats]:
    """Return the rows' principal coordinates, and what leads from their weights to the rows'."""
    scale, vectors = np.linalg.eigh(inputs @ inputs.T)
    useful = scale > scale[-1] * len(scale) * np.finfo(np.float64).eps
    root, vectors = np.sqrt(scale[useful]), vectors[:, useful]
    return vectors * root, vectors / root


def _solve(inputs: Floats, labels: Labels) -> tuple[Floats, float]:
    model: Any = LogisticRegression(solver="liblinear")
    # The papers train on unscaled features at default settings: accept where liblinear stops.
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        model.fit(inputs, labels)
    return model.coef_[0], float(model.intercept_[0])
