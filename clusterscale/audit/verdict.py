"""Is a promise kept? The data that it hides, left out and put back, published many times over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from clusterscale.audit.units import Kind, Unit, draw_unit, kind_of, largest_unit
from clusterscale.contracts import (
    Component,
    Count,
    Counts,
    Even,
    Frame,
    Mechanism,
    Noise,
    Probability,
    Reach,
    Scores,
    Traces,
    Values,
)
from clusterscale.groups import count_visits
from clusterscale.metrics import epsilon_lower_bound, judge, largest_bound
from clusterscale.seeds import stream

__all__ = ["NOTHING_PROMISED", "Judgement", "Neighbours", "VerdictPlan", "judge_promise"]

NOTHING_PROMISED = "nothing promised"
"""The verdict on a mechanism without a guarantee."""

_MOST_VALUES = 20_000_000  # published of one side of a pair
_BLOCK = 1_000_000  # values that are published together: a few of 8 MB are held at once
_LEAST_TRIALS = 4  # two to choose a threshold, two to judge it
_DIGITS = 2

Pair = tuple[Counts, Counts]
Score = Callable[[Values], Scores]


class VerdictPlan(Component):
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
class Judgement:
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


@dataclass(slots=True)
class Neighbours:
    """Groups that differ in one unit, drawn once for all mechanisms that promise to hide it.

    Attributes
    ----------
    traces, frame
        Of all users over the period, as trace steps left them, and where and when their cells are.
    group_size
        Members of a group with all of its user.
    n_units
        How many units to try.
    seed, path
        Root seed, and what the draws are for: the period and the group size.
    """

    traces: Traces
    frame: Frame
    group_size: int
    n_units: int
    seed: int
    path: tuple[str, int]
    _pairs: dict[Kind, list[Pair]] = field(default_factory=dict)

    def pairs(self, kind: Kind) -> list[Pair]:
        """Return counts with and without each unit, int32, shape (roi, epoch); empty if none."""
        if kind not in self._pairs:
            rng = stream(self.seed, "verdict units", *self.path, kind)
            units = [largest_unit(kind, self.traces, self.frame)]
            more = range(self.n_units - 1)
            units += [draw_unit(kind, self.traces, self.frame, rng=rng) for _ in more]
            self._pairs[kind] = [self._count(unit, rng) for unit in units if unit is not None]
        return self._pairs[kind]

    def _count(self, unit: Unit, rng: np.random.Generator) -> Pair:
        """Count a group of the user and others; removing a user leaves only the others."""
        others = rng.choice(self.traces.n_users - 1, self.group_size - 1, replace=False)
        others += others >= unit.user
        counts = count_visits(self.traces, np.sort(others)[None, :])[0]
        sides = counts.copy(), counts.copy()
        for side, cells in zip(sides, (unit.inside, unit.outside), strict=True):
            side.reshape(-1)[cells] += 1
        return sides


def judge_promise(
    mechanism: Mechanism, neighbours: Neighbours, plan: VerdictPlan, *, label: str
) -> Judgement:
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
    label
        Names the stream of the noise.
    """
    stated, kind = mechanism.guarantee, kind_of(mechanism.guarantee)
    if kind is None:
        return Judgement(NOTHING_PROMISED)
    pairs = [_reached(*pair, mechanism.reach) for pair in neighbours.pairs(kind)]
    if not pairs:
        return Judgement("too few samples", 0.0, 0)
    most = max(inside.size for inside, _ in pairs)
    n_trials = max(min(plan.trials, _MOST_VALUES // most), _LEAST_TRIALS)
    found: list[Scores] = []
    for i, pair in enumerate(pairs):
        tests = _tests(*pair, mechanism.noise)
        scores = [
            _publish(mechanism, counts, tests, n_trials, neighbours, (label, i, side))
            for side, counts in zip(("inside", "outside"), pair, strict=True)
        ]
        found += list(np.concatenate(scores, axis=1))
    seen, largest = _bounds(found, stated.delta, plan.confidence)
    return Judgement(judge(seen, stated.epsilon, largest=largest), seen, n_trials)


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


def _reached(inside: Counts, outside: Counts, reach: Reach) -> Pair:
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
    rng = stream(neighbours.seed, "verdict noise", *neighbours.path, *name)
    scores = np.empty((len(tests), n_trials))
    step = max(1, _BLOCK // counts.size)
    for start in range(0, n_trials, step):
        n = min(step, n_trials - start)
        same = np.broadcast_to(counts, (n, *counts.shape))
        values = mechanism.release(same, group_size=neighbours.group_size, rng=rng)
        for test, found in zip(tests, scores, strict=True):
            found[start : start + n] = test(values.reshape(n, -1))
    return np.round(scores, _DIGITS, out=scores)
