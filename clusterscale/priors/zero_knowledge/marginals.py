"""Where, when and how much people move, told from a release (POPETS24 §4.3, algorithms 2 to 4)."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import NO_NOISE, Counts, Mechanism, Values
from clusterscale.errors import InputError
from clusterscale.priors.zero_knowledge.activity import ActivityLaw, Exponential, VisitCounts
from clusterscale.priors.zero_knowledge.graph import Graph
from clusterscale.priors.zero_knowledge.moment_matching import match, normalise
from clusterscale.priors.zero_knowledge.synthesis import (
    NEIGHBOURHOOD,
    SyntheticPopulation,
    synthetic_traces,
)

__all__ = ["Correction", "compress", "estimate_marginals", "raise_power", "treatment"]

Floats = NDArray[np.float64]

Correction = Literal["paper", "matched", "none"]
"""What is done to the sums of rows and columns; see :func:`estimate_marginals`."""

_STEP, _MOST_POWER = 0.01, 100.0
_TOLERANCE = 0.01


def estimate_marginals(
    release: Values | Counts,
    m: int,
    mechanism: Mechanism,
    *,
    graph: Graph | None = None,
    law: ActivityLaw | None = None,
    correction: Correction = "paper",
    rng: np.random.Generator | None = None,
) -> SyntheticPopulation:
    """Tell from one release where, when and how much people move.

    ``correction`` says what is done about what the mechanism did:

    - ``paper`` (algorithm 2): shares of the sums of rows and columns; flattened by log compression
      where small counts are hidden, steepened by a power where noise was added; and the mean of
      visits that gives back the published total when made-up users are published likewise.
    - ``matched``: the marginals and the mean whose counts, if they are Poisson, are published with
      these sums on average (:func:`~clusterscale.priors.zero_knowledge.moment_matching.match`).
    - ``none``: shares of the sums, and the published total over m.

    Parameters
    ----------
    release
        What was published of one group, shape (roi, epoch), without a null ROI.
    m
        Its members.
    mechanism
        What published it, bound: all that its public description says.
    graph
        Neighbours of the ROIs, for the made-up users of the mean (algorithm 3).
    law
        The law of the number of visits, exponential where None.
    rng
        Source of draws; where None, of a seed of its own, the same in every call.

    Returns
    -------
    Population
        (space, time, activity).

    Raises
    ------
    InputError
        If the release is no matrix of numbers, or m is below 1.
    """
    values = _check(release, m)
    law, rng = law or Exponential(), rng or np.random.default_rng(0)
    if correction == "matched":
        space, time, mean = match(values, m, mechanism, rng=rng)
        return SyntheticPopulation(space, time, VisitCounts(mean, law))
    space, time = (normalise(values.sum(axis=axis)) for axis in (1, 0))
    mean = max(float(values.sum()) / m, 0.0)
    if correction == "none":
        return SyntheticPopulation(space, time, VisitCounts(mean, law))
    kind = treatment(mechanism, values.shape, m, rng=deepcopy(rng))
    if kind == "raw":
        return SyntheticPopulation(space, time, VisitCounts(mean, law))
    change = {"hidden": compress, "noisy": raise_power}.get(kind)
    if change is not None:
        space, time = change(space), change(time)
    total = partial(_publish_total, space, time, law, graph, m, mechanism, rng)
    most = float(min(len(space), NEIGHBOURHOOD) * len(time))
    return SyntheticPopulation(
        space, time, VisitCounts(_settle(total, float(values.sum()), mean, most), law)
    )


def treatment(
    mechanism: Mechanism, shape: tuple[int, ...], m: int, *, rng: np.random.Generator
) -> Literal["raw", "hidden", "noisy", "other"]:
    """Tell what a mechanism does to marginals, from its description alone.

    ``raw``: nothing; ``noisy``: it puts people where nobody was, as noise that is kept from falling
    below 0 does, or promises a finite ε; ``hidden``: single visits are mostly not seen; ``other``:
    none of these.
    """
    if mechanism.noise == NO_NOISE:
        return "raw"
    nobody, one = (
        mechanism.release(np.full((1, *shape), n, np.int32), group_size=m, rng=rng) for n in (0, 1)
    )
    if np.isfinite(mechanism.guarantee.epsilon) or nobody.any():
        return "noisy"
    return "hidden" if np.median(one) == 0 else "other"


def compress(shares: Floats) -> Floats:
    """Flatten shares that suppression made steep: log(1 + p / p_min), normalised (eqs 7 and 8).

    ``p_min`` is the least share above 0; what is 0 stays 0.
    """
    positive = shares[shares > 0]
    return normalise(np.log1p(shares / positive.min())) if len(positive) else shares


def raise_power(shares: Floats) -> Floats:
    """Steepen shares that noise made flat: p^γ, normalised (eq. 9, algorithm 4).

    γ is the least of 1, 1.01, 1.02, … at which the variance reaches that of as many uniform draws
    that are normalised: 1 / 3n² to leading order. Shares that are all equal stay so.
    """
    n = len(shares)
    wanted = 1 / (3 * n**2)
    logs = np.log(shares, out=np.full(n, -np.inf), where=shares > 0)
    logs -= logs.max()

    def powered(step: int) -> Floats:
        return normalise(np.exp((1 + _STEP * step) * logs))

    low, high = -1, round((_MOST_POWER - 1) / _STEP)  # the variance grows with the power
    if powered(high).var() < wanted:
        return shares
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if powered(middle).var() >= wanted else (middle, high)
    return powered(high)


def _check(release: Values | Counts, m: int) -> Values:
    values = np.asarray(release, np.float64)
    if values.ndim != 2 or not values.size:
        raise InputError(f"a release has shape (roi, epoch), this one {values.shape}")
    if not np.isfinite(values).all():
        raise InputError(f"{int((~np.isfinite(values)).sum())} published values are no numbers")
    if m < 1:
        raise InputError(f"a group of {m} is not a group")
    return values


def _publish_total(
    space: Floats,
    time: Floats,
    law: ActivityLaw,
    graph: Graph | None,
    m: int,
    mechanism: Mechanism,
    rng: np.random.Generator,
    mean: float,
) -> float:
    """Return the total of what is published of m made-up users; equal noise for every mean."""
    same = deepcopy(rng)
    noise = np.random.default_rng(same.integers(1 << 62))  # users take more draws as they move more
    population = SyntheticPopulation(space, time, VisitCounts(mean, law))
    traces = synthetic_traces(m, population, graph, rng=same)
    counts = np.bincount(traces.cells, minlength=traces.n_cells).astype(np.int32)
    shaped = counts.reshape(1, len(space), len(time))
    return float(mechanism.release(shaped, group_size=m, rng=noise).sum())


def _settle(total: Callable[[float], float], wanted: float, start: float, most: float) -> float:
    """Return the mean at which the published total is the one wanted: algorithm 3's fixed point.

    The paper adds what is missing, a member's share of it, until little is; where most is hidden
    that takes hundreds of rounds. The total grows with the mean, so it is bracketed and cut down
    instead. Where no mean gives so little, as when noise fell low, 0 is returned; where none gives
    so much, about ``most``, the cells that a user can visit.
    """
    low, high = 0.0, min(max(start, 1.0), most)
    if total(low) >= wanted:
        return low
    while high < most and total(high) < wanted:
        low, high = high, min(2 * high, most)
    while high - low > _TOLERANCE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if total(middle) >= wanted else (middle, high)
    return (low + high) / 2
