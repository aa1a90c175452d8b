"""Test a guarantee on many releases of groups with and without the data that it protects."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale import contracts
from clusterscale.analyses.dp_audit.neighbours import Design, Neighbours, Pair, Side
from clusterscale.analyses.dp_audit.privacy_units import kind_of
from clusterscale.mechanisms import user_level
from clusterscale.mechanisms.accounting import describe_person
from clusterscale.metrics import auc_ceiling, claim_verdict, epsilon_lower_bound, largest_bound
from clusterscale.phrases import NOTHING_PROMISED, TOO_FEW_SAMPLES
from clusterscale.seeds import stream

_MOST_VALUES = 20_000_000  # published values per side of a pair
_BLOCK = 1_000_000  # values that are published together: a few arrays of 8 MB
_NOTHING = np.zeros(0)

Score = Callable[[contracts.Values], contracts.Scores]


_ANYTHING = 10**12  # visits: more than any user can make


@dataclass(frozen=True, slots=True, kw_only=True)
class GuaranteeStatement(contracts.Guarantee):
    """The guarantee of a mechanism for the counts of this cube and period.

    The noise is scaled to ``sensitivity``; a unit of this cube needs ``required_sensitivity``: if
    that is larger, the guarantee does not hold here. The others are for all data of one user
    (:class:`~clusterscale.mechanisms.UserLevel`); ``ceiling`` is the largest AUC that any attack
    can reach.
    """

    required_sensitivity: float
    user_epsilon: float
    user_delta: float
    composed_epsilon: float
    composed_delta: float
    ceiling: float


def state_guarantee(
    mechanism: contracts.Mechanism,
    bounds: contracts.Bounds,
    stability: contracts.Stability | None,
    n_days: int,
) -> GuaranteeStatement:
    """Return the guarantee of a bound mechanism for data within ``bounds``.

    ``stability`` is that of its trace steps, None if not known; ``n_days`` the number of local days
    of the release.
    """
    stated, user = mechanism.guarantee, user_level(mechanism, bounds)
    person = describe_person(stated, n_days, mechanism)
    curve = [pair for pair in user.curve if pair[1] < 1]  # δ = 1 guarantees nothing
    ceilings = [float(auc_ceiling(epsilon, delta)) for epsilon, delta in curve]
    reason = stated.reason + _proviso(mechanism, bounds, stability) + (person and f"; {person}")
    return GuaranteeStatement(
        **asdict(replace(stated, reason=reason)),
        required_sensitivity=mechanism.required_sensitivity(bounds),
        user_epsilon=user.epsilon,
        user_delta=user.delta,
        composed_epsilon=user.composed_epsilon,
        composed_delta=user.composed_delta,
        ceiling=min(ceilings, default=1.0),
    )


def _proviso(
    mechanism: contracts.Mechanism, bounds: contracts.Bounds, stability: contracts.Stability | None
) -> str:
    """Return a proviso if the sensitivity is too small for users more active than the cube's."""
    most = _ANYTHING
    anyone = contracts.Bounds(1 + bounds.null_roi, most, most, most, most, bounds.null_roi)
    anyone = anyone if stability is None else stability.limit(anyone)
    if not mechanism.guarantee.sensitivity < mechanism.required_sensitivity(anyone):
        return ""
    return "; for users no more active than those of this cube"


class VerdictPlan(contracts.ConfigModel):
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

    trials: contracts.Even = 20_000
    units: contracts.Count = 2
    confidence: contracts.Probability = 0.999


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
    mechanism: contracts.Mechanism, neighbours: Neighbours, plan: VerdictPlan, *, key: str
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
    design = neighbours.design

    def draws(*name: str | int) -> np.random.Generator:
        return stream(design.seed, "verdict draws", *design.path, key, *name)

    pairs = neighbours.pairs(kind)
    scope = "release" if mechanism.n_tables > 1 else mechanism.noise_scope  # cells are not alike
    shown = [_reach(pair, scope, draws(i)) for i, pair in enumerate(pairs)]
    if not pairs:
        return DPTestResult(TOO_FEW_SAMPLES, 0.0, 0)
    most = max(reached.inside.size for reached in shown)
    # 4: two to choose a threshold, two to evaluate it
    n_trials = max(min(plan.trials, _MOST_VALUES // most), 4)
    scores_by_test: list[contracts.Scores] = []
    for i, (pair, reached) in enumerate(zip(pairs, shown, strict=True)):
        tests = _tests(reached, mechanism.noise)
        scores = [
            _publish(
                mechanism, (side, reached, draws(i, name)), tests, n_trials, design, (key, i, name)
            )
            for name, side in zip(("inside", "outside"), pair, strict=True)
        ]
        scores_by_test += list(np.concatenate(scores, axis=1))
    labels, tries = np.repeat([True, False], n_trials), len(scores_by_test)
    how: dict[str, Any] = {"delta": stated.delta, "confidence": plan.confidence, "tries": tries}
    observed = max(epsilon_lower_bound(labels, scores, **how) for scores in scores_by_test)
    largest = largest_bound(n_trials, n_trials, **how)
    verdict = claim_verdict(observed, stated.epsilon, largest=largest)
    return DPTestResult(verdict, observed, n_trials)


@dataclass(frozen=True, slots=True, eq=False)
class _Reached:
    """Counts whose published values may depend on the difference of a pair.

    ``which``: bool, of cells or ROIs, or all; ``inside``, ``outside``: their means, float64.
    """

    which: NDArray[np.bool_] | EllipsisType
    inside: contracts.Values
    outside: contracts.Values

    def of(self, counts: contracts.Counts) -> contracts.Counts:
        """Return the reached counts of several releases, shape (release, roi, epoch)."""
        if isinstance(self.which, EllipsisType):
            return counts
        return counts[:, self.which] if self.which.ndim == 1 else counts[:, self.which][..., None]


def _reach(pair: Pair, scope: contracts.NoiseScope, rng: np.random.Generator) -> _Reached:
    """Return what may depend on the difference, from some draws if trace steps are random."""
    # 1000: of random trace steps, to find the counts that may change
    n = 1 if pair[0].frame is None else max(2, min(1000, _BLOCK // pair[0].others.size))
    inside, outside = (side.counts(n, rng=rng) for side in pair)
    ends = (end(counts, axis=0) for end in (np.max, np.min) for counts in (inside, outside))
    most, also_most, least, also_least = ends
    changed = np.maximum(most, also_most) != np.minimum(least, also_least)
    which = {"release": ..., "series": changed.any(axis=1), "cell": changed}[scope]
    reached = _Reached(which, _NOTHING, _NOTHING)
    means = (reached.of(counts).mean(axis=0) for counts in (inside, outside))
    return _Reached(which, *means)


def _tests(reached: _Reached, noise: contracts.Noise | None) -> list[Score]:
    """Return tests whose scores increase with the evidence for *inside*."""
    change, middle = (reached.inside - reached.outside).ravel(), reached.outside.ravel()
    weights = change / (change @ change or 1.0)

    def project(values: contracts.Values) -> contracts.Scores:
        """Return scores with expectation 0 for *outside* and 1 for *inside*."""
        return np.asarray((values - middle) @ weights)

    def compare(values: contracts.Values) -> contracts.Scores:
        """Return log-likelihood ratios under Laplace or geometric noise."""
        nearer = np.abs(values - middle) - np.abs(values - middle - change)
        return np.asarray(nearer.sum(axis=1) / scale)

    if noise is None or not noise.exponential:  # of normal noise, both have the same ranks
        return [project]
    scale = noise.scale
    return [project, compare]


def _publish(
    mechanism: contracts.Mechanism,
    one_side: tuple[Side, _Reached, np.random.Generator],
    tests: list[Score],
    n_trials: int,
    design: Design,
    name: tuple[str | int, ...],
) -> NDArray[np.float64]:
    """Return the scores of ``n_trials`` releases of one side, shape (test, trial)."""
    side, reached, draws = one_side
    rng = stream(design.seed, "verdict noise", *design.path, *name)
    scores = np.empty((len(tests), n_trials))
    step = max(1, _BLOCK // (reached.inside if side.frame is None else side.others).size)
    for start in range(0, n_trials, step):
        n = min(step, n_trials - start)
        counts = reached.of(side.counts(n, rng=draws))
        values = mechanism.release(counts, group_size=design.group_size, rng=rng)
        for test, row in zip(tests, scores, strict=True):
            row[start : start + n] = test(values.reshape(n, -1))
    return np.round(scores, 2, out=scores)
