"""Weights with which users are scored: a table of evidence is for one weight of the user.

If there are many weights, users are scored with the largest of a class of similar ones. That is
cautious, since a larger change is seen more easily.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints, Mechanism, Traces
from clusterscale.cube.blocks import Source, open_source

Floats = NDArray[np.float64]

_CLASSES = 16  # of weights that are scored separately


def users_by_weight(
    source: Source, mechanism: Mechanism, traces: Traces
) -> Iterator[tuple[float, Ints]]:
    """Yield each weight with which users are scored, and the positions of these users.

    Parameters
    ----------
    source, mechanism
        The cube, and the mechanism that may use its weights.
    traces
        The users.

    Yields
    ------
    tuple
        The weight, 1 if none are used; and int64, shape (user,).
    """
    everyone = np.arange(traces.n_users)
    if not mechanism.uses_weights or traces.weights is None:
        yield 1.0, everyone
        return
    tops = _class_tops(source)
    which = np.searchsorted(tops, traces.weights)
    for i in np.unique(which):
        yield float(tops[i]), everyone[which == i]


@lru_cache(maxsize=2)
def _class_tops(source: Source) -> Floats:
    """Return the largest weight of each class of similar ones, increasing, float64, (class,)."""
    weights = np.unique(np.asarray(open_source(source).weights))
    if len(weights) <= _CLASSES:
        return weights
    steps = np.geomspace(weights[0], weights[-1], _CLASSES + 1)[1:]
    steps[-1] = weights[-1]
    return np.asarray(weights[np.searchsorted(weights, steps, side="right") - 1])
