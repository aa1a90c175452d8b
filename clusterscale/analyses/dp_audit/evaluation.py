"""Evaluate mechanisms: guarantees, tests and utility; one task per period and group size."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from threadpoolctl import threadpool_limits

from clusterscale.analyses.dp_audit.dp_test import (
    DPTestResult,
    GuaranteeStatement,
    VerdictPlan,
    state_guarantee,
    try_guarantee,
)
from clusterscale.analyses.dp_audit.neighbours import (
    Design,
    Nearby,
    Neighbours,
    RawTraces,
    count_nearby,
)
from clusterscale.analyses.dp_audit.privacy_units import kind_of
from clusterscale.contracts import (
    Bounds,
    ConfigModel,
    Count,
    Counts,
    Mechanism,
    NonEmptyUnique,
    Traces,
    Values,
    release_counts,
    stability_of,
)
from clusterscale.cube import blocks
from clusterscale.cube.blocks import TraceSource
from clusterscale.cube.bounds import merge_bounds
from clusterscale.groups import count_visits, draw_members, sum_weights
from clusterscale.mechanisms import group_by_trace_steps
from clusterscale.schema import Coordinates, empty_variable
from clusterscale.seeds import stream
from clusterscale.storage.records import Records
from clusterscale.study.execution import Failures, Part, Reduction
from clusterscale.utility import UTILITIES, Utility, random_guess, released_share

EvaluationKey = tuple[str, int]

Measures = Annotated[tuple[Annotated[Utility, UTILITIES.entry()], ...], *NonEmptyUnique]

_USUAL = (
    "mean_relative_error",
    "busiest_relative_error",
    "hotspot_f1",
    "hotspot_tau",
    "jensen_shannon",
    "pearson",
    "events_kept",
    "total_variation",
)


class UtilityPlan(ConfigModel):
    """How to measure utility: the number of ``groups``, and the ``measures``.

    Groups are drawn from all users, not only targets, and are the same for all mechanisms.

    Attributes
    ----------
    groups
        Number of groups on which utility is measured.
    measures
        Measures of utility.
    """

    groups: Count = 10
    measures: Measures = tuple(UTILITIES.create(name) for name in _USUAL)


@dataclass(frozen=True, slots=True)
class MechanismEvaluationTask:
    """The mechanisms to evaluate at a period and group size: a URI and a few numbers.

    Attributes
    ----------
    source
        URI of the cube, and what is read of it.
    period
        Id of the period.
    group_size
        Members of a group.
    mechanisms
        Mechanisms to evaluate.
    utility
        How utility is measured.
    verdict
        How guarantees are tested.
    lists
        Membership lists of the plan, as indices of users; None for groups of all users.
    """

    source: TraceSource
    period: str
    group_size: int
    mechanisms: tuple[Mechanism, ...]
    utility: UtilityPlan
    verdict: VerdictPlan
    lists: tuple[tuple[int, ...], ...] | None = None

    @property
    def key(self) -> EvaluationKey:
        """Id of the period, and group size."""
        return self.period, self.group_size


@dataclass(frozen=True, slots=True)
class MechanismEvaluation:
    """Result of a :class:`MechanismEvaluationTask`, or the error that ended it.

    Dicts are keyed by the id of the mechanism. Groups on which a measure is undefined are left out.

    Attributes
    ----------
    key
        Id of the period, and group size.
    guarantees, dp_tests
        Guarantees, and their tests.
    utility
        Means over groups and standard deviations (ddof 1), one per measure.
    released_share
        See :func:`clusterscale.utility.released_share`, without the null ROI, mean over groups; it
        does not depend on the measures.
    sum_ratio
        Sum of all published values over that of the counts, without the null ROI, mean over groups.
        Values published in empty cells are in it, unlike in the events kept.
    guess
        Means of the measures for values drawn without any data.
    guess_loss
        How far a guess is from the ideal of each measure, at least: such values, all zeros, or the
        mean count in all cells.
    error, traceback
        The error, and where it was raised; empty if there is none.
    """

    key: EvaluationKey
    guarantees: dict[str, GuaranteeStatement] = field(default_factory=dict)
    dp_tests: dict[str, DPTestResult] = field(default_factory=dict)
    utility: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = field(default_factory=dict)
    released_share: dict[str, float] = field(default_factory=dict)
    sum_ratio: dict[str, float] = field(default_factory=dict)
    guess: tuple[float, ...] = ()
    guess_loss: tuple[float, ...] = ()
    error: str = ""
    traceback: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class CountedUsers:
    """Counts of some users after some trace steps.

    Attributes
    ----------
    counts
        Counts of the groups for utility, int32, shape (group, roi, epoch).
    bounds
        Largest change of the counts by one unit of data of these users.
    nearby
        Counts of the groups for tests of guarantees.
    sums
        Sums of weights in the groups for utility, float64, like ``counts``; None without weights.
    """

    counts: Counts
    bounds: Bounds
    nearby: Nearby
    sums: Values | None = None

    def plus(self, other: "CountedUsers") -> "CountedUsers":
        """Add the counts of the users that follow these."""
        bounds = merge_bounds(self.bounds, other.bounds)
        sums = None if self.sums is None or other.sums is None else self.sums + other.sums
        nearby = self.nearby.plus(other.nearby)
        return CountedUsers(self.counts + other.counts, bounds, nearby, sums)


Evaluations = Mapping[EvaluationKey, MechanismEvaluation]
Arrays = dict[str, NDArray[Any]]

_EVALUATION = TypeAdapter(MechanismEvaluation)

# Variable of the dataset: field of a guarantee statement, on (period, mechanism).
_GUARANTEES = {
    **{f"guarantee_{name}": name for name in ("unit", "epsilon", "delta", "neighbours", "reason")},
    **{name: name for name in ("user_epsilon", "user_delta", "composed_epsilon", "composed_delta")},
    "sensitivity": "sensitivity",
    "sensitivity_needed": "required_sensitivity",
    "auc_ceiling": "ceiling",
}

# Variable of the dataset: field of a test result, on (period, group_size, mechanism).
_TESTS = {"epsilon_seen": "epsilon_seen", "verdict_trials": "trials", "verdict": "verdict"}


def evaluations_in(uri: str, run: str = "") -> Records[MechanismEvaluation]:
    """Return the evaluations of a run in a folder, a file per period and group size."""
    return Records(
        uri,
        lambda evaluation: (asdict(evaluation), {}),
        lambda plain, _: _EVALUATION.validate_python(plain),
        run,
    )


def read_evaluations(records: Records[MechanismEvaluation]) -> Evaluations:
    """Return evaluations by key; of the same task, a success rather than a failure."""
    evaluations: dict[EvaluationKey, MechanismEvaluation] = {}
    for evaluation in records:
        if not evaluation.error or evaluation.key not in evaluations:
            evaluations[evaluation.key] = evaluation
    return evaluations


def lay_out_evaluations(
    coords: Coordinates, mechanisms: Sequence[Mechanism], evaluations: Evaluations
) -> Arrays:
    """Return guarantees, their tests and utility as variables of the dataset.

    Parameters
    ----------
    coords
        Coordinates of the dataset.
    mechanisms
        The mechanisms, in the order of their coordinate.
    evaluations
        Finished evaluations; values of others are missing.

    Returns
    -------
    dict
        Arrays on the dimensions that :data:`clusterscale.schema.RESULTS` states. Guarantees have no
        group size, because they do not depend on it.
    """
    utilities = ("utility", "utility_sd", "released_share", "sum_ratio", "random_guess")
    names = (*_GUARANTEES, "float_noise", *_TESTS, *utilities)
    variables = {name: empty_variable(coords, name) for name in names}
    variables["float_noise"][:] = [
        "yes" if mechanism.publishes_float_noise else "no" for mechanism in mechanisms
    ]
    periods, sizes = (coords[name][1].tolist() for name in ("period_id", "group_size"))
    for (period, size), evaluation in sorted(evaluations.items()):
        at = periods.index(period), sizes.index(size)
        if evaluation.guess:
            variables["random_guess"][at] = evaluation.guess
        for i, key in enumerate(coords["mechanism"][1].tolist()):
            if key in evaluation.guarantees:
                for name, field in _GUARANTEES.items():
                    variables[name][at[0], i] = getattr(evaluation.guarantees[key], field)
            if key in evaluation.dp_tests:
                for name, field in _TESTS.items():
                    variables[name][(*at, i)] = getattr(evaluation.dp_tests[key], field)
            if key in evaluation.utility:
                mean, spread = evaluation.utility[key]
                variables["utility"][(*at, i)] = mean
                variables["utility_sd"][(*at, i)] = spread
                variables["released_share"][(*at, i)] = evaluation.released_share[key]
                variables["sum_ratio"][(*at, i)] = evaluation.sum_ratio.get(key, np.nan)
    return variables


def evaluate_mechanism_task(task: MechanismEvaluationTask) -> MechanismEvaluation:
    """Publish groups by every mechanism and measure utility; a pure function of the task.

    ``try_guarantee`` tests guarantees on separate groups.

    Parameters
    ----------
    task
        The release, the mechanisms and the measures.

    Returns
    -------
    MechanismEvaluation
        Guarantees, their tests and utility, by mechanism.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read or is not the planned one.
    """
    settings = blocks.load_settings(task.source, _lists(task))
    with threadpool_limits(limits=1):
        total = {steps: _count(task, steps, setting) for steps, setting in settings.items()}
        cells = {steps: setting.cells for steps, setting in settings.items()}
        return _evaluate(task, total, cells, lambda steps, user: settings[steps].traces)


Tallies = dict[blocks.Steps, CountedUsers]
_Part = Part[MechanismEvaluationTask]


def fold_evaluation(
    task: MechanismEvaluationTask, users: Sequence[blocks.Range]
) -> Reduction[MechanismEvaluationTask, _Part, Tallies, MechanismEvaluation]:
    """Return :func:`evaluate_mechanism_task` as a reduction over parts of the users.

    Parameters
    ----------
    task
        The evaluation.
    users
        The first user of each part, and the one after its last.

    Returns
    -------
    Reduction
        Counts each part, adds the counts, and evaluates the mechanisms on the sum.
    """
    parts = tuple(Part(task, part) for part in users)
    return Reduction(task, parts, count_evaluation, add_evaluations, finish_evaluation)


def count_evaluation(part: _Part) -> Tallies:
    """Count some users for an evaluation, for each list of trace steps.

    Errors are those of :func:`evaluate_mechanism_task`.
    """
    settings = blocks.load_settings(part.task.source, _lists(part.task), part.users)
    with threadpool_limits(limits=1):
        return {steps: _count(part.task, steps, setting) for steps, setting in settings.items()}


def add_evaluations(one: Tallies, other: Tallies) -> Tallies:
    """Add the counts of two ranges of users; ``other`` follows ``one``."""
    return {steps: tally.plus(other[steps]) for steps, tally in one.items()}


def finish_evaluation(task: MechanismEvaluationTask, total: Tallies) -> MechanismEvaluation:
    """Publish and measure, on the summed counts of all users.

    Only reads the traces of the few users who are left out of neighbouring groups, by block.
    """
    source, span = task.source, task.source.spans[-1]
    cube = blocks.open_source(source)

    @lru_cache(maxsize=1)
    def read(steps: blocks.Steps, start: int) -> Traces:
        stop = min(start + blocks.block_size(cube), cube.n_users)
        return blocks.read_block(source, [(span, steps)], start, stop)[0].traces

    def find(steps: blocks.Steps, user: int) -> Traces:
        return read(steps, user // blocks.block_size(cube) * blocks.block_size(cube))

    with threadpool_limits(limits=1):
        return _evaluate(
            task, total, {steps: blocks.map_cells(source, steps) for steps in total}, find
        )


def _lists(task: MechanismEvaluationTask) -> list[blocks.Steps]:
    """Return all lists of trace steps, and first the empty one, of raw counts."""
    return list(dict.fromkeys([(), *(steps for steps, _ in group_by_trace_steps(task.mechanisms))]))


def _count(
    task: MechanismEvaluationTask, steps: blocks.Steps, setting: blocks.TraceSetting
) -> CountedUsers:
    rng = stream(task.source.seed, "utility groups", *task.key)
    traces = setting.traces
    cells = traces.n_rois, traces.n_epochs
    counts = np.empty((task.utility.groups, *cells), np.int32)
    sums = None if traces.weights is None else np.empty(counts.shape)
    for i, row in enumerate(counts):
        members = draw_members(traces.n_users, task.group_size, task.lists, rng=rng)
        row[:] = count_visits(traces, members[None])[0]
        if sums is not None:
            sums[i] = sum_weights(traces, members[None])
    mechanisms = dict(group_by_trace_steps(task.mechanisms)).get(steps, [])
    units = dict.fromkeys(kind_of(mechanism) for mechanism in mechanisms)
    kinds = [kind for kind in units if kind is not None]
    nearby = count_nearby(_design(task), kinds, traces, setting.cells.frame)
    return CountedUsers(counts, setting.bounds, nearby, sums)


def _design(task: MechanismEvaluationTask) -> Design:
    cube = blocks.open_source(task.source)
    return Design(
        n_users=cube.n_users,
        block=blocks.block_size(cube),
        group_size=task.group_size,
        n_units=task.verdict.units,
        seed=task.source.seed,
        path=task.key,
    )


def _evaluate(
    task: MechanismEvaluationTask,
    total: Tallies,
    cells: dict[blocks.Steps, blocks.CellMap],
    find: Callable[[blocks.Steps, int], Traces],
) -> MechanismEvaluation:
    raw, evaluation, failures = total[()], MechanismEvaluation(task.key), Failures()
    n_days = len(np.unique(cells[()].frame.days))
    for steps, mechanisms in group_by_trace_steps(task.mechanisms):
        tally, cell_map = total[steps], cells[steps]
        stability = stability_of(steps, cell_map.frames)
        before = partial(find, ()), cells[()].frame, raw.nearby.survey
        neighbours = Neighbours(
            _design(task), tally.nearby, partial(find, steps), cell_map.frame,
            RawTraces(steps, stability, *before),
        )  # fmt: skip
        for mechanism in mechanisms:
            with failures.note([(mechanism.label,)]):
                key, bound = mechanism.id, mechanism.bind(tally.bounds)
                stated = state_guarantee(bound, tally.bounds, stability, n_days)
                test = try_guarantee(bound, neighbours, task.verdict, key=key)
                if test.seen_in:
                    shown = f"{test.seen_in} show ε of at least {test.epsilon_seen:.3g}"
                    stated = replace(stated, reason=f"{stated.reason}; false: {shown}")
                released = _publish(task, key, bound, cell_map, tally)
                utility, share, ratio = _measure(task, _truth(raw, mechanism), released)
                evaluation.guarantees[key], evaluation.dp_tests[key] = stated, test
                evaluation.utility[key], evaluation.released_share[key] = utility, share
                evaluation.sum_ratio[key] = ratio
    rng = stream(task.source.seed, "random guess", *task.key)
    counts = list(raw.counts)

    def measure_guess(some: list[Any], guess: Callable[[Counts], Values]) -> tuple[float, ...]:
        return _measure(task, some, map(guess, some))[0][0]

    means = [
        measure_guess(counts, lambda each: random_guess(each, group_size=task.group_size, rng=rng)),
        # few groups, between which these vary little; 1e-9: equal values are in random order
        measure_guess(counts[:4], lambda each: np.zeros(each.shape)),
        measure_guess(counts[:4], lambda each: each.mean() + 1e-9 * rng.random(each.shape)),
    ]
    away = np.abs(np.array(means) - [measure.ideal for measure in task.utility.measures])
    guess_loss = tuple(np.fmin.reduce(away).tolist())
    evaluation = replace(evaluation, guess=means[0], guess_loss=guess_loss)
    failures.raise_any(evaluation)
    return evaluation


def _truth(counted: CountedUsers, mechanism: Mechanism) -> list[Any]:
    """Return what a mechanism should publish of each group: counts, or sums of weights."""
    weighed = mechanism.uses_weights and counted.sums is not None
    return list(counted.sums if weighed else counted.counts)  # type: ignore[arg-type]


def _publish(
    task: MechanismEvaluationTask,
    key: str,
    mechanism: Mechanism,
    cells: blocks.CellMap,
    counted: CountedUsers,
) -> Iterator[Values]:
    """Yield the release of each group in visits, on the cells of the cube."""
    rng = stream(task.source.seed, "utility noise", *task.key, key)
    for i, truth in enumerate(_truth(counted, mechanism)):
        sums = None if counted.sums is None else counted.sums[i]
        released = release_counts(
            mechanism, counted.counts[i], sums, group_size=task.group_size, rng=rng
        )
        yield cells.expand(mechanism.in_visits(released, truth))


def _measure(
    task: MechanismEvaluationTask, raw: list[Any], released: Iterator[Values]
) -> tuple[tuple[tuple[float, ...], tuple[float, ...]], float, float]:
    """Return means and standard deviations of the measures, and the mean of what is released.

    That is the released share, and the ratio of the sums.
    """
    values = np.array([_values(task, *pair) for pair in zip(raw, released, strict=True)])
    columns = [column[np.isfinite(column)] for column in values.T]
    *mean, share, ratio = (float(known.mean()) if len(known) else np.nan for known in columns)
    *spread, _, _ = (float(known.std(ddof=1)) if len(known) > 1 else np.nan for known in columns)
    return (tuple(mean), tuple(spread)), share, ratio


def _values(task: MechanismEvaluationTask, raw: Counts | Values, released: Values) -> list[float]:
    """Return every measure, the released share, and the sum of all values over that of the counts.

    The null ROI, the last one, has no events.
    """
    rois = slice(None, -1 if task.source.null_roi else None)
    events = raw[rois], released[rois]
    total = events[0].sum()
    values = [
        measure.measure(*(events if getattr(measure, "events_only", False) else (raw, released)))
        for measure in task.utility.measures
    ]
    ratio = float(np.nansum(events[1]) / total) if total else np.nan
    return [*values, released_share(*events), ratio]
