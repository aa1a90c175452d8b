"""Traits of exposed users, as an analysis: their mobility, and the components of attacks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.audit import AuditPlan, plan_resources
from clusterscale.analyses.traits.comparison import CompareTask, ComparisonResult, compare
from clusterscale.analyses.traits.exposure import TargetAUCs, find_exposures, hash_exposures
from clusterscale.analyses.traits.loadings import (
    LoadTask,
    Single,
    Sums,
    ViewTargets,
    fold_loading,
    list_views,
    load,
    tasks_of,
)
from clusterscale.analyses.traits.mobility import (
    MeasureTask,
    MobilityMeasures,
    UnicityTask,
    count_unique,
    measure,
    part_size,
    slices,
)
from clusterscale.analyses.traits.plan import AnalysisSpec, TraitsPlan
from clusterscale.analyses.traits.results import TRAITS, TraitsStore, lay_out
from clusterscale.contracts import hash_of
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import ranges
from clusterscale.cube.describe import describe_shapes
from clusterscale.errors import InputError
from clusterscale.schema import TRAITS_FORMAT, Variable
from clusterscale.study import Analysis, Page, Stage, Study, each


class TraitsAnalysis(Analysis):
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
    form: ClassVar[str] = TRAITS_FORMAT
    schema: ClassVar[Mapping[str, Variable]] = TRAITS
    shown: ClassVar[str] = "clusterscale.cli.analyses:show_traits"
    tables: ClassVar[Mapping[str, str]] = {
        "characteristics": "value",
        "comparisons": "top_mean",
        "sides": "forest_accuracy",
        "times": "frequency",
        "loadings": "loading",
    }
    page: ClassVar[Page] = Page(
        word="report of traits",
        title="What exposes people in published counts",
        heading="Traits of exposed users",
        plan="Plan of the trait analysis",
        gist="The most exposed users are compared with the least exposed "
        "to find what they have in common.",
        reading="Traits",
        sections="clusterscale.reporting.traits:render_sections",
    )

    def __init__(self, plan: AuditPlan, how: TraitsPlan | None = None) -> None:
        self.plan, self.how = plan, how or TraitsPlan()
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

    def input_digest(self, cube: TraceCube, run_uri: str) -> str:
        """Return a digest of the exposure of every user in the audit or the screen.

        Raises
        ------
        MissingError
            If neither an audit nor a screen has finished there.
        ExistsError
            If these are of another plan or cube.
        """
        return hash_exposures(self._exposures(cube, run_uri))

    def stages(self, job: Study) -> Iterator[Stage[Any, Any]]:
        """Yield the stages of mobility, comparison and, for each view, components."""
        plan, exposures = self.plan, find_exposures(self.plan, job.cube, job.run_uri)
        views = list_views(plan, exposures, self.how)
        spec = self._specify(tuple(one for one in exposures if self._has_sides(one)), views)
        columns, chunks = lay_out(spec, job.cube)
        shapes = json.dumps(describe_shapes(job.cube))
        about = {"exposure_digest": job.input_digest, "roi_shapes": shapes}
        table = self.table(job, columns, chunks, about)
        store = TraitsStore(table, spec, job.cube.n_users)
        yield from _mobility_stages(spec, job, store)
        yield _comparison_stage(spec, job, store)
        users = plan_resources(plan, job.cube, job.memory, job.n_workers).users if views else ()
        for number, view in enumerate(views):
            if f"view-{number}" in store.done():
                continue
            sums = Sums(view.groups(self.how.share))
            tasks = tasks_of(view, plan, job.cube, self.how)
            function = partial(fold_loading, users=users) if users else load
            keep = each(partial(_add_loading, view, sums))
            yield Stage("components", function, tasks, keep, len(tasks), by_parts=bool(users))
            store.add_view(number, *sums.means())
        table.finish()

    def _exposures(self, cube: TraceCube, run_uri: str) -> tuple[TargetAUCs, ...]:
        every = find_exposures(self.plan, cube, run_uri)
        return tuple(exposure for exposure in every if self._has_sides(exposure))

    def _has_sides(self, exposure: TargetAUCs) -> bool:
        try:
            exposure.read().sides(self.how.share)
        except InputError:
            return False
        return True

    def _specify(
        self, exposures: tuple[TargetAUCs, ...], views: Sequence[ViewTargets]
    ) -> AnalysisSpec:
        plan = self.plan
        named: tuple[Any, ...] = (
            *plan.mechanisms, *plan.priors, *plan.attacks, *plan.screen.attacks,
        )  # fmt: skip
        return AnalysisSpec(
            plan=self.how,
            null_roi=plan.null_roi,
            periods=tuple((period.name, period.spans[-1]) for period in plan.periods),
            exposures=exposures,
            views=tuple(view.view for view in views),
            names={each.id: (each.label, each.heading) for each in named},
        )


def _add_loading(view: ViewTargets, sums: Sums, task: LoadTask, values: Single) -> None:
    sums.add(int(np.searchsorted(view.users, task.audit.target)), values)


def _mobility_stages(
    spec: AnalysisSpec, job: Study, store: TraitsStore
) -> Iterator[Stage[Any, Any]]:
    """Yield the stages that measure all users' mobility, then the unicity in each period."""
    done, n_periods = store.done(), len(spec.periods)
    left = [i for i in range(n_periods) if f"unicity-{i}" not in done]
    if not left:
        return
    spans = tuple(spec.periods[i][1] for i in left)
    parts = ranges(0, job.cube.n_users, part_size(job.cube))
    tasks = [MeasureTask(job.source, spans, *part) for part in parts]
    sums: list[MobilityMeasures] = []

    def keep(task: MeasureTask, results: list[MobilityMeasures]) -> None:
        for period, measures in zip(left, results, strict=True):
            store.add_movement(period, task.start, measures.values)
        sums[:] = map(_add, sums, results) if sums else results

    yield Stage("measure", measure, tasks, each(keep), len(tasks))
    for period, total in zip(left, sums, strict=True):
        store.add_popularity(period, total.roi_events, total.epoch_events, total.active)
        yield from _unicity_stages(period, total, spec, job, store)


def _unicity_stages(
    period: int,
    measured: MobilityMeasures,
    spec: AnalysisSpec,
    job: Study,
    store: TraitsStore,
) -> Iterator[Stage[UnicityTask, NDArray[np.int64]]]:
    first, last = span = spec.periods[period][1]
    parts = slices(job.cube, measured.active, span, memory=job.memory, n_workers=job.n_workers)
    tasks = [UnicityTask(job.source, *part) for part in parts]
    total = np.zeros(job.cube.n_users, np.int64)

    def keep(_: UnicityTask, counts: NDArray[np.int64]) -> None:
        np.add(total, counts, out=total)

    yield Stage("unicity", count_unique, tasks, each(keep), len(tasks))
    store.add_unicity(period, total / (last - first))


def _comparison_stage(
    spec: AnalysisSpec, job: Study, store: TraitsStore
) -> Stage[CompareTask, ComparisonResult]:
    """Return the stage that compares the most with the least exposed users in each setting."""
    done, tasks = store.done(), dict[CompareTask, int]()
    for number, exposure in enumerate(spec.exposures):
        if f"comparison-{number}" not in done:
            period = spec.period_index(exposure.period)
            span = spec.periods[period][1]
            reference = job.source, f"{job.uri}/results.zarr", period, span
            tasks[CompareTask(*reference, exposure, spec.plan)] = number

    def keep(task: CompareTask, result: ComparisonResult) -> None:
        store.add_comparison(tasks[task], result)

    n_tasks = len(spec.exposures)
    return Stage("compare", compare, list(tasks), each(keep), n_tasks, n_tasks - len(tasks))


def _add(one: MobilityMeasures, other: MobilityMeasures) -> MobilityMeasures:
    """Add the sums over users; the users' own measures are no longer needed."""
    return MobilityMeasures(
        one.values[:0],
        one.roi_events + other.roi_events,
        one.epoch_events + other.epoch_events,
        one.active + other.active,
    )
