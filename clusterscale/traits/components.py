"""Where and when an attack looks: its principal components and the cells of a release."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from clusterscale.attacks.blocked_linalg import Rows, blocks, centre, gram
from clusterscale.attacks.linear import solve
from clusterscale.contracts import Labels, Values
from clusterscale.errors import InputError

__all__ = ["loading"]

_LEAST = 1e-10  # of the variance of the largest component: below that it is rounding


def loading(rows: Rows, labels: Labels, *, components: int = 5) -> Values:
    """Return how strongly the components that decide go with each cell (POMACS20 §3.1, Figs 2, 3).

    Principal components of the releases are given to a logistic regression (liblinear, C = 1), as
    the attack ``spectral`` does. Of those with the largest weights, in absolute value, the Pearson
    correlation with the values of each cell is taken over the releases, without its sign. Neither
    takes more than the inner products of the releases and one pass over them.

    Parameters
    ----------
    rows
        Real, shape (group, cell): releases to train on.
    labels
        Bool, shape (group,): is the target inside?
    components
        How many count; all where there are no more. The paper takes 2 (TFL) and 5 (SFC).

    Returns
    -------
    float64, shape (cell,)
        The mean over these components, from 0 to 1; 0 for cells that are the same in all groups.

    Raises
    ------
    InputError
        If there is not one label for each release, or all are the same.
    """
    if rows.ndim != 2 or labels.shape != (len(rows),):
        raise InputError(f"{rows.shape} releases and {labels.shape} labels: give one for each row")
    if labels.all() or not labels.any():
        raise InputError(
            "a target is in some of the releases and not in others, or nothing is told"
        )
    chosen = _decisive(rows, labels, components)
    total = np.zeros(rows.shape[1])
    for columns, block in blocks(rows):
        total[columns] = _correlate(chosen, block)
    mean: Values = total / max(1, chosen.shape[1])
    return mean


def _decisive(rows: Rows, labels: Labels, components: int) -> Values:
    """Return the standardised scores of the components that decide, shape (group, component)."""
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
    apart = block - block.mean(axis=0)
    norm = np.where(varied, np.linalg.norm(apart, axis=0), 1.0)
    sizes: Values = np.abs(scores.T @ apart).sum(axis=0) / norm * varied
    return sizes
