"""Cells that an attack uses: correlation of cells with the decisive principal components."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from clusterscale.attacks.blocked_linalg import Rows, blocks, centre, gram
from clusterscale.attacks.linear import solve
from clusterscale.contracts import Labels, Values
from clusterscale.errors import InputError

_LEAST = 1e-10  # of the largest component's variance: smaller ones are rounding errors


def loading(rows: Rows, labels: Labels, *, components: int = 5) -> Values:
    """Return the correlation of each cell with the decisive components (POMACS20 §3.1, Figs 2, 3).

    A logistic regression (liblinear, C = 1) is trained on the principal components of the releases,
    as in the attack ``spectral``. For the components with the largest absolute weights, the
    absolute Pearson correlation with the values of each cell is computed over the releases. This
    needs only the inner products of the releases and one pass over them.

    Parameters
    ----------
    rows
        Real, shape (group, cell): releases to train on.
    labels
        Bool, shape (group,): whether the target is a member.
    components
        Number of components to use, at most all. The paper takes 2 (TFL) and 5 (SFC).

    Returns
    -------
    float64, shape (cell,)
        Mean over these components, from 0 to 1; 0 for cells with the same value in all groups.

    Raises
    ------
    InputError
        If the number of labels is not that of the releases, or all labels are equal.
    """
    if rows.ndim != 2 or labels.shape != (len(rows),):
        raise InputError(f"{rows.shape} releases and {labels.shape} labels: give one for each row")
    if labels.all() or not labels.any():
        raise InputError("the labels are all equal: give releases with and without the target")
    scores = _decisive(rows, labels, components)
    total = np.zeros(rows.shape[1])
    for columns, block in blocks(rows):
        total[columns] = _correlate(scores, block)
    mean: Values = total / max(1, scores.shape[1])
    return mean


def _decisive(rows: Rows, labels: Labels, components: int) -> Values:
    """Return the standardised scores of the decisive components, shape (group, component)."""
    centred = centre(gram(rows))
    size, vectors = np.linalg.eigh((centred + centred.T) / 2)
    real = size > _LEAST * max(size[-1], 0.0)
    size, vectors = size[real], vectors[:, real]
    duals = solve((vectors * size) @ vectors.T, labels)
    weights = np.abs(np.sqrt(size) * (vectors.T @ duals))
    chosen = vectors[:, np.argsort(-weights, kind="stable")[:components]]
    chosen = chosen - chosen.mean(axis=0)
    scores: Values = chosen / np.linalg.norm(chosen, axis=0)
    return scores


def _correlate(scores: Values, block: NDArray[np.float64]) -> Values:
    """Return the sum over components of absolute correlations, shape (cell,)."""
    varied = block.min(axis=0) < block.max(axis=0)
    deviations = block - block.mean(axis=0)
    norm = np.where(varied, np.linalg.norm(deviations, axis=0), 1.0)
    sizes: Values = np.abs(scores.T @ deviations).sum(axis=0) / norm * varied
    return sizes
