"""A population of known marginals, and what is published of it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import CellCoordinates
from clusterscale.mechanisms import create
from clusterscale.priors.zero_knowledge import Graph, triangulate

EXACT = create("exact")
HIDDEN = create("suppress_small", up_to=1)
EVENT = create("laplace", epsilon=1.0, unit="event")
CLIPPED = create("laplace", epsilon=1.0, unit="event", clip=True, integers="round")
USER_DAY = create("laplace", epsilon=1.0, sensitivity=10.0, unit="user_day")
BOTH = create(
    "chain",
    steps=[
        {"name": "laplace", "epsilon": 1.0, "unit": "event"},
        {"name": "suppress_small", "up_to": 1},
    ],
)


class Crowd(NamedTuple):
    """Counts of a group whose visits are independent, and what they are drawn from."""

    space: NDArray[np.float64]
    time: NDArray[np.float64]
    mean: float
    counts: NDArray[np.int32]
    graph: Graph


def crowd(shape=(12, 24), m=400, mean=6.0, seed=0):
    """Draw counts that are Poisson with mean m · mean · space · time."""
    rng = np.random.default_rng(seed)
    space, time = (rng.dirichlet(np.full(n, 0.8)) for n in shape)
    counts = np.minimum(rng.poisson(m * mean * np.outer(space, time)), m).astype(np.int32)
    graph = triangulate(CellCoordinates(np.zeros(1, np.int64), *rng.random((2, shape[0]))))
    return Crowd(space, time, mean, counts, graph)


def published(mechanism, counts, m=400, seed=1):
    return mechanism.release(counts, group_size=m, rng=np.random.default_rng(seed))
