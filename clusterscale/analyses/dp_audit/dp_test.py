"""Test a guarantee on many releases of groups with and without the data that it protects."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale import contracts
from clusterscale.analyses.dp_audit.neighbours import Design, Neighbours, Pair, Side
from clusterscale.analyses.dp_audit.privacy_units import kind_of
from clusterscale.foreign import is_foreign
from clusterscale.mechanisms import user_level
from clusterscale.mechanisms.accounting import describe_person
from clusterscale.metrics import auc_ceiling, claim_verdict, epsilon_lower_bound, largest_bound
from clusterscale.phrases import NOTHING_PROMISED, TOO_FEW_SAMPLES
from clusterscale.seeds import stream
from clusterscale.study.foreign_code import classes_in

_MOST_VALUES = 20_000_000  # published values per side of a pair
_BLOCK = 1_000_000  # values that are published together: a few arrays of 8 MB
_NOTHING = np.zeros(0)

Score = Callable[[contracts.Values], contracts.Scores]
Tests = dict[str, Score]
"""Functions of releases, shape (release, cell), by what they look at."""


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
    seen_in
        What in a release breaks the guarantee of a mechanism of another package.
    """

    verdict: str
    epsilon_seen: float = np.nan
    trials: int = 0
    seen_in: str = ""


def try_guarantee(
    mechanism: contracts.Mechanism,
    neighbours: Neighbours,
    plan: VerdictPlan,
    *,
    key: str,
    thorough: bool = False,
) -> DPTestResult:
    """Publish neighbouring groups many times, and compare the observed ε with the declared one.

    Nothing is trained: the projection on the difference and, if the noise distribution is known,
    the likelihood ratio distinguish the two groups about as well as any test. Both are rounded to
    a hundredth of the difference, because finer digits show the spacing of floating-point numbers,
    not what the mechanism does to real numbers (Mironov, CCS 2012). The result is the largest of
    all bounds, each at its share of the plan's error probability (Bonferroni).

    A guarantee holds for every function of all that is published. For a mechanism of another
    package, more of them are tested (:func:`_more_tests`), and its ``noise_scope`` is not relied
    on: each release is published whole, in one call with another one that is always the same.

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
    thorough
        Whether any mechanism is tested like one of another package.
    """
    stated, kind = mechanism.guarantee, kind_of(mechanism)
    if kind is None:
        return DPTestResult(NOTHING_PROMISED)
    design = neighbours.design

    def draws(*name: str | int) -> np.random.Generator:
        return stream(design.seed, "verdict draws", *design.path, key, *name)

    pairs = neighbours.pairs(kind)
    unproven = thorough or any(map(is_foreign, classes_in(mechanism)))
    pairs = pairs + [_alone(*pair) for pair in pairs[:1] if unproven and pair[0].frame is None]
    is_whole = unproven or mechanism.n_tables > 1  # cells of several tables are not alike
    scope = "release" if is_whole else mechanism.noise_scope
    shown = [_reach(pair, scope, draws(i), beside=unproven) for i, pair in enumerate(pairs)]
    if not pairs:
        return DPTestResult(TOO_FEW_SAMPLES, 0.0, 0)
    most = max(reached.inside.size for reached in shown)
    # 4: two to choose a threshold, two to evaluate it
    n_trials = max(min(plan.trials, _MOST_VALUES * (5 if unproven else 1) // most), 4)
    scores: list[tuple[str, contracts.Scores]] = []
    for i, (pair, reached) in enumerate(zip(pairs, shown, strict=True)):

        def publish(
            n: int, *name: str | int, pair: Pair = pair, reached: _Reached = reached
        ) -> list[Iterator[contracts.Values]]:
            return [
                _releases(mechanism, (side, reached, draws(*name)), n, design, (key, *name))
                for name, side in zip(((*name, "inside"), (*name, "outside")), pair, strict=True)
            ]

        tests = _tests(reached, mechanism.noise)
        if unproven:
            n_pilot = min(1000, n_trials, max(12, 4 * _BLOCK // most))
            pilot = [np.concatenate(list(each)) for each in publish(n_pilot, i, "pilot")]
            again = [next(each) for each in publish(n_trials, i, "again")]
            tests |= _more_tests(reached, pilot, again)
        sides = [_scores(releases, tests) for releases in publish(n_trials, i)]
        scores += zip(tests, np.concatenate(sides, axis=1), strict=True)
    labels, tries = np.repeat([True, False], n_trials), len(scores)
    how: dict[str, Any] = {"delta": stated.delta, "confidence": plan.confidence, "tries": tries}
    bounds = [(epsilon_lower_bound(labels, each, **how), name) for name, each in scores]
    observed, seen_in = max(bounds, key=itemgetter(0))
    largest = largest_bound(n_trials, n_trials, **how)
    verdict = claim_verdict(observed, stated.epsilon, largest=largest)
    is_shown = unproven and verdict == "broken"
    return DPTestResult(verdict, observed, n_trials, seen_in if is_shown else "")


def _alone(inside: Side, outside: Side) -> Pair:
    """Return a pair that changes cells in which nobody else is: zeros may be published as zeros."""
    others = inside.others.copy()
    others.reshape(-1)[np.setxor1d(inside.own, outside.own)] = 0
    return replace(inside, others=others), replace(outside, others=others)


@dataclass(frozen=True, slots=True, eq=False)
class _Reached:
    """Counts whose published values may depend on the difference of a pair.

    ``which``: bool, of cells or ROIs, or all; ``inside``, ``outside``: their means, float64, shape
    (cell,). ``beside``: counts that are published in the same call, after those of each release.
    """

    which: NDArray[np.bool_] | EllipsisType
    inside: contracts.Values
    outside: contracts.Values
    beside: contracts.Counts | None = None

    def of(self, counts: contracts.Counts) -> contracts.Counts:
        """Return the reached counts of several releases, shape (release, roi, epoch)."""
        if self.beside is not None:
            both = np.stack([counts, np.broadcast_to(self.beside, counts.shape)], axis=1)
            return both.reshape(-1, *counts.shape[1:])
        if isinstance(self.which, EllipsisType):
            return counts
        return counts[:, self.which] if self.which.ndim == 1 else counts[:, self.which][..., None]


def _reach(
    pair: Pair, scope: contracts.NoiseScope, rng: np.random.Generator, *, beside: bool
) -> _Reached:
    """Return what may depend on the difference, from some draws if trace steps are random."""
    # 1000: of random trace steps, to find the counts that may change
    n = 1 if pair[0].frame is None else max(2, min(1000, _BLOCK // pair[0].others.size))
    inside, outside = (side.counts(n, rng=rng) for side in pair)
    ends = (end(counts, axis=0) for end in (np.max, np.min) for counts in (inside, outside))
    most, also_most, least, also_least = ends
    changed = np.maximum(most, also_most) != np.minimum(least, also_least)
    which = {"release": ..., "series": changed.any(axis=1), "cell": changed}[scope]
    reached = _Reached(which, _NOTHING, _NOTHING, pair[1].others if beside else None)
    own, without = (reached.of(each).reshape(n, -1).mean(axis=0) for each in (inside, outside))
    return _Reached(which, own, without, reached.beside)


def _tests(reached: _Reached, noise: contracts.Noise | None) -> Tests:
    """Return tests whose scores increase with the evidence for *inside*."""
    change, middle = reached.inside - reached.outside, reached.outside
    weights = change / (change @ change or 1.0)

    def project(values: contracts.Values) -> contracts.Scores:
        """Return scores with expectation 0 for *outside* and 1 for *inside*."""
        return np.asarray((values - middle) @ weights)

    def compare(values: contracts.Values) -> contracts.Scores:
        """Return log-likelihood ratios under Laplace or geometric noise."""
        nearer = np.abs(values - middle) - np.abs(values - middle - change)
        return np.asarray(nearer.sum(axis=1) / scale)

    tests: Tests = {"the changed counts": project}
    if noise is None or not noise.exponential:  # of normal noise, both have the same ranks
        return tests
    scale = noise.scale
    return tests | {"the changed counts by their likelihood": compare}


def _more_tests(
    reached: _Reached, pilot: list[contracts.Values], again: list[contracts.Values]
) -> Tests:
    """Return tests of all that is published: the release, and the one beside it.

    ``pilot`` and ``again`` are separate releases of both sides. They tell the sides apart by sums
    without noise, as where noise is used twice or a total is exact; by noise that is always even;
    by releases without noise; and by releases that are the same whatever ``rng`` is.
    """
    own, changed = reached.inside.size // 2, np.flatnonzero(reached.inside != reached.outside)
    if not len(changed):
        return {}
    both = reached.inside, reached.outside
    weights = _learn(pilot, changed, own)

    def raw(values: contracts.Values, which: Any) -> contracts.Scores:
        inside, outside = (np.isclose(values[:, which], end[which]).all(axis=1) for end in both)
        return np.asarray(inside.astype(np.float64) - outside)

    def repeat(values: contracts.Values) -> contracts.Scores:
        inside, outside = ((values == end[: len(values)]).all(axis=1) for end in again)
        return np.asarray(inside.astype(np.float64) - outside)

    def total(values: contracts.Values) -> contracts.Scores:
        return np.asarray((values - reached.outside)[:, :own].sum(axis=1))

    return {
        "values in which the noise cancels": lambda values: (values - reached.outside) @ weights,
        "the total": total,
        "whether the total is even": lambda values: np.rint(values[:, :own].sum(axis=1)) % 2,
        "whether a changed value is even": lambda values: np.rint(values[:, changed[0]]) % 2,
        "releases without noise": lambda values: raw(values, slice(own)),
        "changed counts without noise": lambda values: raw(values, changed),
        "releases that are the same for another rng": repeat,
    }


def _learn(pilot: list[contracts.Values], changed: contracts.Ints, own: int) -> contracts.Values:
    """Return weights of values whose sum tells two sides apart best (Fisher 1936), shape (cell,).

    Of the changed values, those whose means differ most, those that vary most like a changed one,
    and the total of the first ``own``.
    """
    inside, outside = pilot
    shift, most = inside.mean(axis=0) - outside.mean(axis=0), min(16, len(inside) // 6)
    noise = np.concatenate([inside - inside.mean(axis=0), outside - outside.mean(axis=0)])
    size = noise.std(axis=0)
    size[size <= 1e-9 * np.abs(inside).max()] = 1e-9  # constant
    few = changed[:: -(-len(changed) // max(most, 1))]
    alike = np.abs(noise[:, few].T @ noise / size)
    alike[np.arange(len(few)), few] = 0
    far = np.argsort(np.abs(shift) / size)[len(size) - most :]
    cells = np.unique([*few, *far, *alike.argmax(axis=1)])
    basis = np.zeros((len(size), len(cells) + 1))
    basis[cells, np.arange(len(cells))] = 1 / size[cells]
    basis[:own, -1] = 1 / max(noise[:, :own].sum(axis=1).std(), 1e-9)
    variances, vectors = np.linalg.eigh(np.cov(noise @ basis, rowvar=False, ddof=0))
    basis = basis @ vectors  # of independent sums
    weights = basis @ (shift @ basis / (np.abs(variances) + 1e-9))
    return np.asarray(weights / (shift @ weights or 1.0))


def _releases(
    mechanism: contracts.Mechanism,
    one_side: tuple[Side, _Reached, np.random.Generator],
    n_trials: int,
    design: Design,
    name: tuple[str | int, ...],
) -> Iterator[contracts.Values]:
    """Yield ``n_trials`` releases of one side in blocks, shape (release, cell)."""
    side, reached, draws = one_side
    rng = stream(design.seed, "verdict noise", *design.path, *name)
    step = max(1, _BLOCK // (reached.inside if side.frame is None else side.others).size)
    for start in range(0, n_trials, step):
        n = min(step, n_trials - start)
        counts = reached.of(side.counts(n, rng=draws))
        values = mechanism.release(counts, group_size=design.group_size, rng=rng)
        yield values.reshape(n, -1)


def _scores(releases: Iterator[contracts.Values], tests: Tests) -> NDArray[np.float64]:
    """Return the scores of releases, shape (test, release)."""
    blocks = [[test(values) for test in tests.values()] for values in releases]
    scores: NDArray[np.float64] = np.concatenate(blocks, axis=1)
    return np.round(scores, 2, out=scores)
