"""Traits of exposed users, as an analysis: their mobility, and the components of attacks."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from clusterscale import study
from clusterscale.analyses.audit import AuditPlan, Targets, plan_resources, predict
from clusterscale.analyses.audit.targets import Chosen
from clusterscale.analyses.audit.task import AuditTask, Games, fold_play, play_whole
from clusterscale.analyses.traits import comparison, mobility
from clusterscale.analyses.traits.characteristics import UNICITY
from clusterscale.analyses.traits.exposure import (
    Exposed,
    TargetAUCs,
    find_exposures,
    hash_exposures,
)
from clusterscale.analyses.traits.importance import MOST, Importance, loading
from clusterscale.analyses.traits.results import TRAITS, AnalysisSpec, lay_out
from clusterscale.attacks import ATTACKS
from clusterscale.contracts import Ints, Mechanism, Values, hash_of
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import map_cells, ranges
from clusterscale.cube.describe import describe_shapes, raw_bytes
from clusterscale.errors import InputError
from clusterscale.game import study as study_game
from clusterscale.schema import Variable
from clusterscale.seeds import stream
from clusterscale.storage.result_table import TableStore

Single = NDArray[np.float32]

# Seconds to measure an event, and to count it among others; of a tree, and of a user in it.
_MEASURE, _COUNT_UNIQUE, _TREE, _ROW = 1e-7, 1.5e-7, 3e-3, 8.7e-6
_LOAD = 1.4  # times as long as an attack by components: cells are correlated in one more pass


@dataclass(frozen=True, slots=True)
class LoadTask:
    """A task of an audit, under one mechanism, and the number of components."""

    audit: AuditTask
    components: int

    def play(self, games: Games) -> Single:
        """Return the loading of each cell in the attack on a target, float32, shape (roi, epoch).

        The training groups are exactly those of the audit.
        """
        ((game, bounds),), (mechanism,) = games(), self.audit.mechanisms
        source, path = self.audit.source, self.audit.path
        training = study_game(game, mechanism, seed=source.seed, path=path, bounds=bounds).training
        weights = loading(training.release.flat, training.labels, components=self.components)
        values = weights.reshape(training.release.values.shape[1:])
        if mechanism.trace_steps:
            values = map_cells(source, mechanism.trace_steps).expand(values)
        return values.astype(np.float32)


def _groups(exposed: Exposed, share: float) -> NDArray[np.bool_]:
    """Return membership in each of ``WHO``, bool, shape (who, target).

    Both sides are empty if there are too few targets for two.
    """
    members = np.zeros((len(comparison.WHO), len(exposed.users)), np.bool_)
    members[0] = True
    try:
        for row, side in enumerate(exposed.sides(share), 1):
            members[row, side] = True
    except InputError:
        pass
    return members


def list_views(
    plan: AuditPlan, exposures: Sequence[TargetAUCs], how: comparison.TraitsPlan
) -> list[tuple[TargetAUCs, Exposed]]:
    """Return the views: every period × prior × group size with finished targets.

    Each is the exposure that chooses the targets, and the targets. Views are of raw counts if the
    audit has the mechanism ``exact``, else of its first mechanism.
    Exposure is that of an attack that shows loadings, as ``spectral`` does, if one is in the audit,
    else of the attack with the highest mean AUC, the first of equals.
    """
    mechanism = _mechanism(plan).id
    exposed_of = dict[tuple[str, str, int], list[tuple[TargetAUCs, Exposed]]]()
    for case in exposures:
        if case.source == "audit" and case.mechanism == mechanism:
            setting, exposed = (case.period, case.prior, case.group_size), case.read()
            if len(exposed.users):
                exposed_of.setdefault(setting, []).append((case, exposed))
    shown = {attack.id for attack in plan.attacks if attack.shows_loadings}
    chosen = (
        max(pairs, key=lambda pair: (pair[0].attack in shown, pair[1].auc.mean()))
        for pairs in exposed_of.values()
    )
    return [(view, _thin(exposed, how.targets, plan.seed)) for view, exposed in chosen]


def _thin(targets: Exposed, most: int, seed: int) -> Exposed:
    """Draw ``most`` of the targets, if there are more."""
    if len(targets.users) <= most:
        return targets
    rng = stream(seed, "traits", "targets")
    return targets.take(np.sort(rng.choice(len(targets.users), most, replace=False)))


def _mechanism(plan: AuditPlan) -> Mechanism:
    return next((one for one in plan.mechanisms if one.name == "exact"), plan.mechanisms[0])


def tasks_of(
    view: TargetAUCs, users: Ints, plan: AuditPlan, cube: TraceCube, how: comparison.TraitsPlan
) -> list[LoadTask]:
    """Return a task for each target of a view, in order; ``users`` are their indices."""
    period = next(period.id for period in plan.periods if period.name == view.period)
    setting = period, view.prior, view.group_size
    return [
        LoadTask(task.alone(_mechanism(plan)), how.components)
        for task in plan.tasks(cube, Chosen(users))
        if task.key[1:] == setting
    ]


class Sums:
    """Sums of loadings: they arrive in any order, and are added in that of the targets."""

    def __init__(self, members: NDArray[np.bool_]) -> None:
        self._members, self._next = members, 0
        self._waiting = dict[int, Single]()
        self._total: Any = 0.0

    def add(self, place: int, values: Single) -> None:
        """Add the loading of the target at position ``place``, once all before it have arrived."""
        self._waiting[place] = values
        while self._next in self._waiting:
            weights = self._members[:, self._next].astype(np.float64)
            self._total = self._total + weights[:, None, None] * self._waiting.pop(self._next)
            self._next += 1

    def means(self) -> tuple[Ints, Values]:
        """Return the size of each group, and its mean loading, shape (who, roi, epoch)."""
        numbers = self._members.sum(axis=1)
        weights = np.where(numbers > 0, numbers, np.nan)
        return numbers, self._total / weights[:, None, None]


class TraitsAnalysis(study.Analysis):
    """Comparison of the users that a run's audit or screen found most and least exposed.

    Parameters
    ----------
    plan
        The audit whose users are compared.
    how
        How they are compared; None for the defaults.
    """

    plan: AuditPlan
    kind: ClassVar[str] = "traits"
    opener: ClassVar[str] = "open_traits"
    schema: ClassVar[Mapping[str, Variable]] = TRAITS
    shown: ClassVar[str] = "clusterscale.cli.analyses:show_traits"
    tables: ClassVar[Mapping[str, str]] = {
        "characteristics": "value",
        "comparisons": "top_mean",
        "sides": "forest_accuracy",
        "times": "frequency",
        "loadings": "loading",
    }

    def __init__(self, plan: AuditPlan, how: comparison.TraitsPlan | None = None) -> None:
        self.plan, self.how = plan, how or comparison.TraitsPlan()
        self.seed, self.null_roi = plan.seed, plan.null_roi

    @property
    def digest(self) -> str:
        """Digest of the settings that decide results."""
        return hash_of({"traits": self.how.canonical, "audit": self.plan.canonical})

    def describe(self) -> Mapping[str, Any]:
        """Return the plan as plain values; listed users are counted, not named."""
        return {"traits": self.how.model_dump(mode="json"), "audit": self.plan.describe()}

    def check(self, cube: TraceCube, memory: int) -> None:
        """Do nothing: the audit or the screen has checked the plan."""

    def explain(self, cube: TraceCube, memory: int, n_workers: int) -> dict[str, str]:
        """Return what it takes to compare all targets of the audit, if none of them fails."""
        plan, how, slowness = self.plan, self.how, study.measure_slowness()
        n_targets = predict(plan, cube, memory, n_workers).n_targets
        n_views = len(plan.periods) * len(plan.priors) * len(plan.group_sizes)
        n_exposures = n_views * plan.n_cases
        some = {
            "mechanisms": (_mechanism(plan),),
            "attacks": (ATTACKS.create("spectral"),),
            "targets": Targets(random=min(n_targets, how.targets)),
            "control": False,
            "precision": None,
        }
        loads = predict(
            plan.model_copy(update=some), cube, memory, n_workers, slowness=slowness
        ).resources
        events = sum(period.epochs for period in plan.periods) / cube.n_epochs * cube.n_events
        moving = slowness * events * (_MEASURE + _COUNT_UNIQUE)
        side = min(MOST, how.share * n_targets)
        comparing = slowness * n_exposures * how.trees * (_TREE + _ROW * side)
        wall = moving / n_workers + comparing / min(n_workers, n_exposures)
        return {
            "comparisons": f"{n_exposures:,}",
            "components": f"{n_views:,} × {min(n_targets, how.targets):,} targets",
            **study.describe_cost(
                read=f"{study.describe_bytes(raw_bytes(cube))}, three times or more",
                worker=study.describe_bytes(loads.worker_bytes),
                core_seconds=moving + comparing + _LOAD * loads.core_seconds,
                seconds=(wall + _LOAD * loads.seconds,),
            ),
        }

    def find_input(self, cube: TraceCube, run_uri: str) -> list[TargetAUCs]:
        """Return the exposures in the audit or the screen; errors as of :meth:`input_digest`."""
        return find_exposures(self.plan, cube, run_uri)

    def input_digest(self, cube: TraceCube, run_uri: str) -> str:
        """Return a digest of the exposure of every user in the audit or the screen.

        Raises
        ------
        MissingError
            If neither an audit nor a screen has finished there.
        ExistsError
            If these are of another plan or cube.
        """
        return hash_exposures(filter(self._has_sides, self.find_input(cube, run_uri)))

    def stages(self, job: study.Study) -> Iterator[study.Stage[Any, Any]]:
        """Yield the stages of mobility, comparison and, for each view, components."""
        plan, exposures = self.plan, self.find_input(job.cube, job.run_uri)
        views = list_views(plan, exposures, self.how)
        named: list[Any] = [*plan.mechanisms, *plan.priors, *plan.attacks, *plan.screen.attacks]
        spec = AnalysisSpec(
            plan=self.how,
            null_roi=plan.null_roi,
            periods=tuple((period.name, period.spans[-1]) for period in plan.periods),
            exposures=tuple(filter(self._has_sides, exposures)),
            views=tuple(view for view, _ in views),
            names={one.id: (one.label, one.heading) for one in named},
        )
        columns, chunks = lay_out(spec, job.cube)
        shapes = json.dumps(describe_shapes(job.cube))
        about = {"exposure_digest": job.input_digest, "roi_shapes": shapes}
        table = self.table(job, columns, chunks, about)
        yield from _mobility_stages(spec, job, table)
        yield _comparison_stage(spec, job, table)
        users = plan_resources(plan, job.cube, job.memory, job.n_workers).users if views else ()
        for number, (view, targets) in enumerate(views):
            if f"view-{number}" in table.done():
                continue
            sums = Sums(_groups(targets, self.how.share))
            tasks = tasks_of(view, targets.users, plan, job.cube, self.how)
            function = partial(fold_play, users=users) if users else play_whole
            keep = study.each(partial(_add_loading, targets.users, sums))
            yield study.Stage("components", function, tasks, keep, len(tasks), by_parts=bool(users))
            table.array("n_viewed")[number], loadings = sums.means()
            epochs = spec.slice_of(spec.period_index(view.period))
            table.array("loading")[number, :, :, epochs] = loadings
            table.mark_done(f"view-{number}")
        table.finish()

    def _has_sides(self, exposure: TargetAUCs) -> bool:
        try:
            exposure.read().sides(self.how.share)
        except InputError:
            return False
        return True


def _add_loading(users: Ints, sums: Sums, task: LoadTask, values: Single) -> None:
    sums.add(int(np.searchsorted(users, task.audit.target)), values)


def _mobility_stages(
    spec: AnalysisSpec, job: study.Study, table: TableStore
) -> Iterator[study.Stage[Any, Any]]:
    """Yield the stages that measure all users' mobility, then the unicity in each period."""
    done, n_periods = table.done(), len(spec.periods)
    left = [i for i in range(n_periods) if f"unicity-{i}" not in done]
    if not left:
        return
    spans = tuple(spec.periods[i][1] for i in left)
    parts = ranges(0, job.cube.n_users, mobility.part_size(job.cube))
    tasks = [mobility.MeasureTask(job.source, spans, *part) for part in parts]
    sums: list[mobility.MobilityMeasures] = []

    def keep(task: mobility.MeasureTask, results: list[mobility.MobilityMeasures]) -> None:
        for period, measures in zip(left, results, strict=True):
            users = slice(task.start, task.start + len(measures.values))
            table.array("value")[users, period, :UNICITY] = measures.values
        sums[:] = map(_add, sums, results) if sums else results

    yield study.Stage("measure", mobility.measure, tasks, study.each(keep), len(tasks))
    for period, total in zip(left, sums, strict=True):
        by_roi = total.roi_events
        if spec.null_roi:  # users without an event in an epoch
            nowhere = job.cube.n_users * len(total.active) - total.active.sum()
            by_roi = np.append(by_roi, nowhere)
        table.array("roi_events")[period] = by_roi
        table.array("epoch_events")[period, spec.slice_of(period)] = total.epoch_events
        yield from _unicity_stages(period, total, spec, job, table)


def _unicity_stages(
    period: int,
    measured: mobility.MobilityMeasures,
    spec: AnalysisSpec,
    job: study.Study,
    table: TableStore,
) -> Iterator[study.Stage[mobility.UnicityTask, NDArray[np.int64]]]:
    first, last = span = spec.periods[period][1]
    parts = mobility.slices(
        job.cube, measured.active, span, memory=job.memory, n_workers=job.n_workers
    )
    tasks = [mobility.UnicityTask(job.source, part) for part in parts]
    total = np.zeros(job.cube.n_users, np.int64)

    def keep(_: mobility.UnicityTask, counts: NDArray[np.int64]) -> None:
        np.add(total, counts, out=total)

    yield study.Stage("unicity", mobility.count_unique, tasks, study.each(keep), len(tasks))
    share, array = total / (last - first), table.array("value")
    for start, stop in ranges(0, len(share), array.chunks[0]):
        array[start:stop, period, UNICITY] = share[start:stop]
    table.mark_done(f"unicity-{period}")


def _comparison_stage(
    spec: AnalysisSpec, job: study.Study, table: TableStore
) -> study.Stage[tuple[str, comparison.CompareTask], comparison.ComparisonResult]:
    """Return the stage that compares the most with the least exposed users in each setting."""
    tasks, numbers = dict[str, comparison.CompareTask](), dict[TargetAUCs, int]()
    for number, exposure in enumerate(spec.exposures):
        period = spec.period_index(exposure.period)
        reference = job.source, f"{job.uri}/results.zarr", period, spec.periods[period][1]
        tasks[f"comparison-{number}"] = comparison.CompareTask(*reference, exposure, spec.plan)
        numbers[exposure] = number

    def write(task: comparison.CompareTask, result: comparison.ComparisonResult) -> None:
        number = numbers[task.exposure]
        for name in ("n_compared", "auc_top", "auc_bottom"):
            table.array(name)[number] = getattr(result, name)
        for field in fields(Importance):
            table.array(field.name)[number] = getattr(result.importance, field.name)
        table.array("frequency")[number, :, spec.slice_of(task.period)] = result.frequency

    return study.Stage.fill("compare", comparison.compare, tasks, table, write)


def _add(
    one: mobility.MobilityMeasures, other: mobility.MobilityMeasures
) -> mobility.MobilityMeasures:
    """Add the sums over users; the users' own measures are no longer needed."""
    sums = (mine + theirs for mine, theirs in zip(one[1:], other[1:], strict=True))
    return mobility.MobilityMeasures(one.values[:0], *sums)
