"""How often differences of noisy values look like people, if the noise is not reused."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import CellLaw, Mechanism, Values

Whole = NDArray[np.int64]

_MOST_PEOPLE = 20  # between two groups whose noise in whole numbers is compared
_CASES = (0, 1, 2, 3, 5, 10, 20, 50, 200)  # counts for which noise is compared
_WIDE = 200  # largest noise that is considered


@lru_cache(maxsize=64)
def chance_of_step(made: tuple[tuple[Mechanism, int], ...]) -> float:
    """Return the chance of a difference that people explain, given that there is one.

    The largest over cells that some number of others share, and over the number of people in the
    larger group only; 1 if an output distribution is not known. ``made``: the mechanism and the
    size of the larger and of the smaller group.
    """
    laws = [mechanism.law(size) for mechanism, size in made]
    (_, largest), (_, size) = made
    people = largest - size
    if people > _MOST_PEOPLE:
        return 1.0
    counts = np.array([count for count in _CASES if count <= size])
    values = np.arange(counts.max() + people + _WIDE, dtype=np.float64)
    if laws[0] is None or laws[1] is None:
        return 1.0
    smaller = _probabilities(laws[1], values, counts)
    chance = 0.0
    for more in range(1, people + 1):
        larger = _probabilities(laws[0], values, counts + more)
        steps = [(smaller[: len(values) - k] * larger[k:]).sum(axis=0) for k in range(people + 1)]
        chance = max(chance, float((sum(steps[1:]) / np.maximum(1 - steps[0], 1e-12)).max()))
    return min(chance, 1.0)


def _probabilities(law: CellLaw, values: Values, counts: Whole) -> Values:
    """Return the probability of each of ``values`` for each of ``counts``, (value, count)."""
    candidates = np.broadcast_to(counts, (len(values), len(counts)))
    return np.asarray(law.likelihood(values[None], candidates)[0])
