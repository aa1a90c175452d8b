"""Is a promise kept? The data that it hides, left out and put back, published many times over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clusterscale.audit.neighbours import Neighbours, Pair
from clusterscale.audit.privacy_units import kind_of
from clusterscale.contracts import (
    ConfigModel,
    Count,
    Counts,
    Even,
    Mechanism,
    Noise,
    NoiseScope,
    Probability,
    Scores,
    Values,
)
from clusterscale.metrics import claim_verdict, epsilon_lower_bound, largest_bound
from clusterscale.seeds import stream

__all__ = ["NOTHING_PROMISED", "DPTestResult", "VerdictPlan", "try_guarantee"]

NOTHING_PROMISED = "nothing promised"
"""The verdict on a mechanism without a guarantee."""

_MOST_VALUES = 20_000_000  # published of one side of a pair
_BLOCK = 1_000_000  # values that are published together: a few of 8 MB are held at once
_LEAST_TRIALS = 4  # two to choose a threshold, two to judge it
_DIGITS = 2

Score = Callable[[Values], Scores]


class VerdictPlan(ConfigModel):
    """How to try a promise: so many ``trials`` with and without each of so many ``units``.

    The first unit is the largest of the cube, where too little noise shows first; the others are
    drawn at random. A mechanism that keeps its promise is called broken with a chance of at most
    1 − ``confidence``, whatever the number of units and tests. Trials are fewer where what is
    published of a unit is large: at most 20 million values of one side.
    """

    trials: Even = 20_000
    units: Count = 2
    confidence: Probability = 0.999


@dataclass(frozen=True, slots=True)
class DPTestResult:
    """What was measured of a promise.

    Attributes
    ----------
    verdict
        ``broken``: more ε was seen than is promised. ``too few samples``: so many releases could
        not have shown it. ``consistent``: they could have, and did not. ``nothing promised``.
    epsilon_seen
        The largest lower bound on ε at the promised unit and δ; not a number if nothing is
        promised.
    trials
        Releases with the unit, and as many without; 0 if there were none.
    """

    verdict: str
    epsilon_seen: float = np.nan
    trials: int = 0


def try_guarantee(
    mechanism: Mechanism, neighbours: Neighbours, plan: VerdictPlan, *, key: str
) -> DPTestResult:
    """Publish neighbouring groups again and again, and compare the ε that is seen with the stated.

    Nothing needs to be trained: the projection on the difference and, where the law of the noise
    is stated, the likelihood ratio tell the two groups apart about as well as anything can. Both
    are rounded to a hundredth of the difference, for what is finer tells how floating-point
    numbers are spaced and not what the mechanism does to real ones (Mironov, CCS 2012). The
    largest of all bounds counts, each at a share of the plan's confidence (Bonferroni).

    Parameters
    ----------
    mechanism
        Bound to the cube, so that it has all that its noise is scaled to.
    neighbours
        Groups to publish, after the mechanism's trace steps.
    plan
        How often, of how many units, how sure.
    key
        Names the stream of the noise.
    """
    stated, kind = mechanism.guarantee, kind_of(mechanism.guarantee)
    if kind is None:
        return DPTestResult(NOTHING_PROMISED)
    pairs = [_reached(*pair, mechanism.reach) for pair in neighbours.pairs(kind)]
    if not pairs:
        return DPTestResult("too few samples", 0.0, 0)
    most = max(inside.size for inside, _ in pairs)
    n_trials = max(min(plan.trials, _MOST_VALUES // most), _LEAST_TRIALS)
    found: list[Scores] = []
    for i, pair in enumerate(pairs):
        tests = _tests(*pair, mechanism.noise)
        scores = [
            _publish(mechanism, counts, tests, n_trials, neighbours, (key, i, side))
            for side, counts in zip(("inside", "outside"), pair, strict=True)
        ]
        found += list(np.concatenate(scores, axis=1))
    seen, largest = _bounds(found, stated.delta, plan.confidence)
    return DPTestResult(claim_verdict(seen, stated.epsilon, largest=largest), seen, n_trials)


def _bounds(found: list[Scores], delta: float, confidence: float) -> tuple[float, float]:
    """Return the largest lower bound on ε over all tests, and the most that it could have been."""
    n_trials, tries = len(found[0]) // 2, len(found)
    labels = np.repeat([True, False], n_trials)
    seen = max(
        epsilon_lower_bound(labels, scores, delta=delta, confidence=confidence, tries=tries)
        for scores in found
    )
    most = largest_bound(n_trials, n_trials, delta=delta, confidence=confidence, tries=tries)
    return seen, most


def _reached(inside: Counts, outside: Counts, reach: NoiseScope) -> Pair:
    """Return the part of the counts that can be published otherwise when they differ."""
    changed = inside != outside
    if reach == "release":
        return inside, outside
    if reach == "series":
        rois = changed.any(axis=1)
        return inside[rois], outside[rois]
    return inside[changed][:, None], outside[changed][:, None]


def _tests(inside: Counts, outside: Counts, noise: Noise | None) -> list[Score]:
    """Return tests whose scores are the higher the more a release looks like *inside*."""
    change = (inside - outside).astype(np.float64).ravel()
    weights, middle = change / (change @ change), outside.ravel().astype(np.float64)

    def project(values: Values) -> Scores:
        """0 where *outside* is expected, 1 where *inside* is."""
        return np.asarray((values - middle) @ weights)

    def compare(values: Values) -> Scores:
        """Log-likelihood ratio under Laplace noise, the same under geometric noise."""
        nearer = np.abs(values - middle) - np.abs(values - middle - change)
        return np.asarray(nearer.sum(axis=1) / scale)

    if noise is None or noise.law not in ("laplace", "geometric"):  # under a normal law, the same
        return [project]
    scale = noise.scale
    return [project, compare]


def _publish(
    mechanism: Mechanism,
    counts: Counts,
    tests: list[Score],
    n_trials: int,
    neighbours: Neighbours,
    name: tuple[str | int, ...],
) -> NDArray[np.float64]:
    """Return the scores of ``n_trials`` releases of the same counts, shape (test, trial)."""
    rng = stream(neighbours.design.seed, "verdict noise", *neighbours.design.path, *name)
    scores = np.empty((len(tests), n_trials))
    step = max(1, _BLOCK // counts.size)
    for start in range(0, n_trials, step):
        n = min(step, n_trials - start)
        same = np.broadcast_to(counts, (n, *counts.shape))
        values = mechanism.release(same, group_size=neighbours.design.group_size, rng=rng)
        for test, found in zip(tests, scores, strict=True):
            found[start : start + n] = test(values.reshape(n, -1))
    return np.round(scores, _DIGITS, out=scores)
