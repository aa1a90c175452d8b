"""Estimate population marginals from a release (POPETS24 §4.3, algorithms 2 to 4)."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import NO_NOISE, Counts, Mechanism, Values
from clusterscale.errors import InputError
from clusterscale.priors.zero_knowledge.moment_matching import match_moments, normalise
from clusterscale.priors.zero_knowledge.synthesis import (
    NEIGHBOURHOOD,
    ActivityLaw,
    Exponential,
    Graph,
    SyntheticPopulation,
    VisitCounts,
    synthetic_traces,
)

Floats = NDArray[np.float64]

Correction = Literal["paper", "matched", "none"]
"""How the effect of the mechanism on the sums of rows and columns is corrected:

- ``paper`` (algorithm 2): shares of the sums; flattened by :func:`compress` if small counts are
  suppressed, sharpened by :func:`raise_power` if noise was added; and the mean number of visits for
  which synthetic users, published likewise, give the published total.
- ``matched``: the marginals and the mean for which Poisson counts are published with these sums on
  average (:func:`~clusterscale.priors.zero_knowledge.moment_matching.match_moments`).
- ``none``: shares of the sums, and the published total over the group size.
"""

_STEP, _MOST_POWER = 0.01, 100.0


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
    """Estimate the marginals in space, time and activity from one release of a group of ``m``.

    ``release`` has shape (roi, epoch), without a null ROI; of the bound mechanism, only its
    public description is used. ``graph`` has the neighbours of the ROIs, for the synthetic
    users of the mean (algorithm 3); ``law`` is the distribution of the number of visits,
    exponential if None. Without ``rng``, a generator has a fixed seed. Raises InputError if the
    release is not a matrix of finite numbers, or m is below 1.
    """
    values = _check(release, m)
    law, rng = law or Exponential(), rng or np.random.default_rng(0)
    if correction == "matched":
        space, time, mean = match_moments(values, m, mechanism, rng=rng)
        return SyntheticPopulation(space, time, VisitCounts(mean, law))
    space, time = (normalise(values.sum(axis=axis)) for axis in (1, 0))
    mean = max(float(values.sum()) / m, 0.0)
    population = SyntheticPopulation(space, time, VisitCounts(mean, law))
    if correction == "none":
        return population
    kind = treatment(mechanism, values.shape, m, rng=deepcopy(rng))
    if kind == "raw":
        return population
    transform = {"hidden": compress, "noisy": raise_power}.get(kind)
    if transform is not None:
        population = population._replace(space=transform(space), time=transform(time))
    total = partial(_publish_total, population, graph, m, mechanism, rng)
    most = float(min(len(space), NEIGHBOURHOOD) * len(time))
    return population.with_mean(_solve_mean(total, float(values.sum()), mean, most))


def treatment(
    mechanism: Mechanism, shape: tuple[int, ...], m: int, *, rng: np.random.Generator
) -> Literal["raw", "hidden", "noisy", "other"]:
    """Classify the effect of a mechanism on marginals, from its description only.

    ``raw``: none; ``noisy``: it publishes nonzero values for counts of 0, as noise clipped at 0
    does, or guarantees a finite ε; ``hidden``: counts of 1 are mostly suppressed; ``other``: none
    of these.
    """
    if mechanism.noise == NO_NOISE:
        return "raw"
    zero, one = (
        mechanism.release(np.full((1, *shape), n, np.int32), group_size=m, rng=rng) for n in (0, 1)
    )
    if np.isfinite(mechanism.guarantee.epsilon) or zero.any():
        return "noisy"
    return "hidden" if np.median(one) == 0 else "other"


def compress(shares: Floats) -> Floats:
    """Flatten shares sharpened by suppression: log(1 + p / p_min), normalised (eqs 7 and 8).

    ``p_min`` is the smallest positive share; zeros stay 0.
    """
    positive = shares[shares > 0]
    return normalise(np.log1p(shares / positive.min())) if len(positive) else shares


def raise_power(shares: Floats) -> Floats:
    """Sharpen shares flattened by noise: p^γ, normalised (eq. 9, algorithm 4).

    γ is the smallest of 1, 1.01, 1.02, … for which the variance reaches that of n normalised
    uniform draws: 1 / 3n² to leading order. Equal shares are unchanged.
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
        n_bad = int((~np.isfinite(values)).sum())
        raise InputError(f"{n_bad} published values are not finite")
    if m < 1:
        raise InputError(f"the group size is {m}: it must be at least 1")
    return values


def _publish_total(
    population: SyntheticPopulation,
    graph: Graph | None,
    m: int,
    mechanism: Mechanism,
    rng: np.random.Generator,
    mean: float,
) -> float:
    """Return the published total of m synthetic users, with the same noise for every mean."""
    users_rng = deepcopy(rng)
    # A separate generator, because the number of draws for users depends on the mean.
    noise_rng = np.random.default_rng(users_rng.integers(1 << 62))
    traces = synthetic_traces(m, population.with_mean(mean), graph, rng=users_rng)
    counts = np.bincount(traces.cells, minlength=traces.n_cells).astype(np.int32)
    shaped = counts.reshape(1, traces.n_rois, traces.n_epochs)
    return float(mechanism.release(shaped, group_size=m, rng=noise_rng).sum())


def _solve_mean(total: Callable[[float], float], wanted: float, start: float, most: float) -> float:
    """Return the mean for which the published total is ``wanted``: algorithm 3's fixed point.

    The paper repeatedly adds the missing visits per member, which takes hundreds of rounds if most
    counts are suppressed. The total grows with the mean, so the mean is bracketed and bisected
    instead. If the total exceeds ``wanted`` for every mean, e.g. for negative noise in the release,
    0 is returned; if it is always below, about ``most``, the number of cells that a user can visit.
    """
    low, high = 0.0, min(max(start, 1.0), most)
    if total(low) >= wanted:
        return low
    while high < most and total(high) < wanted:
        low, high = high, min(2 * high, most)
    while high - low > 0.01 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if total(middle) >= wanted else (middle, high)
    return (low + high) / 2
