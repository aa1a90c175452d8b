"""Pareto fronts of candidates by score and exposure: whom to keep, and whom to attack next."""

from collections.abc import Sequence
from math import ceil

import numpy as np

from clusterscale.contracts import Floats, Ints


def layers(scores: Floats, exposures: Floats) -> Ints:
    """Return the Pareto layer of each candidate: 0 if nobody is better, 1 if only layer 0 is, ….

    One candidate is better than another if its score is at least as high and its exposure at most
    as high, and one of the two differs. Equal candidates share a layer.

    Parameters
    ----------
    scores, exposures
        float64, shape (candidate,); higher scores and lower exposures are better.

    Returns
    -------
    ndarray
        int64, shape (candidate,).
    """
    layer = np.full(len(scores), -1, np.int64)
    number = 0
    while (left := np.flatnonzero(layer < 0)).size:
        order = left[np.lexsort((exposures[left], -scores[left]))]
        least, best = np.inf, (np.nan, np.nan)
        for i in order:
            pair = float(scores[i]), float(exposures[i])
            if exposures[i] < least or pair == best:
                layer[i], least, best = number, exposures[i], pair
        number += 1
    return layer


def halve(scores: Floats, exposures: Floats, n_least: int) -> Ints:
    """Return the better half of the candidates, rounded up, but at least ``n_least`` of them.

    Whole Pareto layers are kept, the best first; of the last one, those with the highest scores.

    Parameters
    ----------
    scores, exposures
        float64, shape (candidate,).
    n_least
        Smallest number that is kept.

    Returns
    -------
    ndarray
        int64, indices of those that are kept, increasing.
    """
    n_kept = min(len(scores), max(n_least, ceil(len(scores) / 2)))
    order = np.lexsort((exposures, -scores, layers(scores, exposures)))
    return np.sort(order[:n_kept])


def front_of(scores: Floats, exposures: Floats) -> Ints:
    """Return the candidates that nobody dominates, the highest score first, int64."""
    front = np.flatnonzero(layers(scores, exposures) == 0)
    return front[np.lexsort((exposures[front], -scores[front]))]


def next_batch(passed: Sequence[bool | None], size: int) -> list[int]:
    """Return which candidates to attack next, to find the first one that passes.

    Candidates are in the order of preference, and on a front that exposure decreases along. So it
    is supposed that once one passes, those after it do, too. Candidates evenly spaced between the
    last one that failed before the first one that passed, and that one, are attacked together.

    Parameters
    ----------
    passed
        Whether each candidate passed, None if it was not attacked.
    size
        Largest number to attack together.

    Returns
    -------
    list of int
        Increasing indices; empty if the first that passes is known, or that none does.
    """
    first = next((i for i, one in enumerate(passed) if one), len(passed))
    failed = [i for i in range(first) if passed[i] is False]
    start = failed[-1] + 1 if failed else 0
    between = range(start, first)
    if len(between) <= size:
        return list(between)
    return sorted({start + int((i + 0.5) * len(between) / size) for i in range(size)})
