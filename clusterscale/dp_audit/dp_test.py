"""Test a guarantee on many releases of groups with and without the data that it protects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
from clusterscale.dp_audit.neighbours import Neighbours, Pair
from clusterscale.dp_audit.privacy_units import kind_of
from clusterscale.metrics import claim_verdict, epsilon_lower_bound, largest_bound
from clusterscale.phrases import NOTHING_PROMISED, TOO_FEW_SAMPLES
from clusterscale.seeds import stream

__all__ = ["DPTestResult", "VerdictPlan", "try_guarantee"]

_MOST_VALUES = 20_000_000  # published values per side of a pair
_BLOCK = 1_000_000  # values that are published together: a few arrays of 8 MB
_LEAST_TRIALS = 4  # two to choose a threshold, two to evaluate it
_DIGITS = 2

Score = Callable[[Values], Scores]


class VerdictPlan(ConfigModel):
    """How to test a guarantee: ``trials`` releases with and without each of several ``units``.

    The first unit is the largest of the cube, where too little noise shows first; the others are
    drawn at random. A mechanism that keeps its guarantee is called broken with probability at most
    1 − ``confidence``, for any number of units and tests. There are fewer trials if releases are
    large: at most 20 million values on one side.

    Attributes
    ----------
    trials
        Number of releases with each unit, and without it.
    units
        Number of units.
    confidence
        Confidence of the verdict *broken*, a probability.
    """

    trials: Even = 20_000
    units: Count = 2
    confidence: Probability = 0.999


@dataclass(frozen=True, slots=True)
class DPTestResult:
    """Result of testing a guarantee.

    Attributes
    ----------
    verdict
        ``broken``: the observed ε is larger than the declared one. ``too few samples``: this number
        of releases could not have shown that. ``consistent``: it could have, and did not.
        ``nothing promised``: the mechanism has no guarantee.
    epsilon_seen
        Largest lower bound on ε for the declared unit and δ; NaN without a guarantee.
    trials
        Number of releases with the unit, and of those without it.
    """

    verdict: str
    epsilon_seen: float = np.nan
    trials: int = 0


def try_guarantee(
    mechanism: Mechanism, neighbours: Neighbours, plan: VerdictPlan, *, key: str
) -> DPTestResult:
    """Publish neighbouring groups many times, and compare the observed ε with the declared one.

    Nothing is trained: the projection on the difference and, if the noise distribution is known,
    the likelihood ratio distinguish the two groups about as well as any test. Both are rounded to
    a hundredth of the difference, because finer digits show the spacing of floating-point numbers,
    not what the mechanism does to real numbers (Mironov, CCS 2012). The result is the largest of
    all bounds, each at its share of the plan's error probability (Bonferroni).

    Parameters
    ----------
    mechanism
        Bound to the cube, so that the scale of its noise is known.
    neighbours
        Groups to publish, after the mechanism's trace steps.
    plan
        Number of trials and units, and the confidence.
    key
        Name of the random stream of the noise.
    """
    stated, kind = mechanism.guarantee, kind_of(mechanism.guarantee)
    if kind is None:
        return DPTestResult(NOTHING_PROMISED)
    pairs = [_reached(*pair, mechanism.noise_scope) for pair in neighbours.pairs(kind)]
    if not pairs:
        return DPTestResult(TOO_FEW_SAMPLES, 0.0, 0)
    most = max(inside.size for inside, _ in pairs)
    n_trials = max(min(plan.trials, _MOST_VALUES // most), _LEAST_TRIALS)
    scores_by_test: list[Scores] = []
    for i, pair in enumerate(pairs):
        tests = _tests(*pair, mechanism.noise)
        scores = [
            _publish(mechanism, counts, tests, n_trials, neighbours, (key, i, side))
            for side, counts in zip(("inside", "outside"), pair, strict=True)
        ]
        scores_by_test += list(np.concatenate(scores, axis=1))
    observed, largest = _bounds(scores_by_test, stated.delta, plan.confidence)
    verdict = claim_verdict(observed, stated.epsilon, largest=largest)
    return DPTestResult(verdict, observed, n_trials)


def _bounds(scores_by_test: list[Scores], delta: float, confidence: float) -> tuple[float, float]:
    """Return the largest lower bound on ε over all tests, and the largest possible one."""
    n_trials, tries = len(scores_by_test[0]) // 2, len(scores_by_test)
    labels = np.repeat([True, False], n_trials)
    observed = max(
        epsilon_lower_bound(labels, scores, delta=delta, confidence=confidence, tries=tries)
        for scores in scores_by_test
    )
    most = largest_bound(n_trials, n_trials, delta=delta, confidence=confidence, tries=tries)
    return observed, most


def _reached(inside: Counts, outside: Counts, scope: NoiseScope) -> Pair:
    """Return the counts whose published values may depend on the difference."""
    changed = inside != outside
    if scope == "release":
        return inside, outside
    if scope == "series":
        rois = changed.any(axis=1)
        return inside[rois], outside[rois]
    return inside[changed][:, None], outside[changed][:, None]


def _tests(inside: Counts, outside: Counts, noise: Noise | None) -> list[Score]:
    """Return tests whose scores increase with the evidence for *inside*."""
    change = (inside - outside).astype(np.float64).ravel()
    weights, middle = change / (change @ change), outside.ravel().astype(np.float64)

    def project(values: Values) -> Scores:
        """Return scores with expectation 0 for *outside* and 1 for *inside*."""
        return np.asarray((values - middle) @ weights)

    def compare(values: Values) -> Scores:
        """Return log-likelihood ratios under Laplace or geometric noise."""
        nearer = np.abs(values - middle) - np.abs(values - middle - change)
        return np.asarray(nearer.sum(axis=1) / scale)

    if noise is None or not noise.exponential:  # of normal noise, both have the same ranks
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
        for test, row in zip(tests, scores, strict=True):
            row[start : start + n] = test(values.reshape(n, -1))
    return np.round(scores, _DIGITS, out=scores)
