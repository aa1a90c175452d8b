"""Traits of exposed users, as an analysis: their mobility, and the components of attacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from clusterscale.analyses.audit.exposure import find_exposures
from clusterscale.analyses.audit.loadings import (
    LoadTask,
    Single,
    Sums,
    ViewTargets,
    fold_loading,
    list_views,
    load,
    tasks_of,
)
from clusterscale.analyses.audit.plan import AuditPlan
from clusterscale.analyses.audit.resources import plan_resources
from clusterscale.analyses.traits import (
    TRAITS,
    AnalysisSpec,
    TargetAUCs,
    TraitsPlan,
    TraitsStore,
    comparison_stage,
    hash_exposures,
    mobility_stages,
)
from clusterscale.contracts import hash_of
from clusterscale.cube import TraceCube
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
        spec = self._specify(
            tuple(each for each in exposures if self._has_sides(each)), job.input_digest, views
        )
        store = TraitsStore(job.uri, spec, job.cube)
        yield from mobility_stages(spec, job, store)
        yield comparison_stage(spec, job, store)
        users = plan_resources(plan, job.cube, job.memory, job.n_workers).users if views else ()
        for number, view in enumerate(views):
            if f"view-{number}" in store.done():
                continue
            sums = Sums(view.groups(self.how.share))
            tasks = tasks_of(view, plan, job.cube, self.how)
            function = partial(fold_loading, users=users) if users else load
            keep = each(partial(_add, view, sums))
            yield Stage("components", function, tasks, keep, len(tasks), by_parts=bool(users))
            store.add_view(number, *sums.means())
        store.finish()

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
        self, exposures: tuple[TargetAUCs, ...], digest: str, views: Sequence[ViewTargets]
    ) -> AnalysisSpec:
        plan = self.plan
        named: tuple[Any, ...] = (
            *plan.mechanisms, *plan.priors, *plan.attacks, *plan.screen.attacks,
        )  # fmt: skip
        return AnalysisSpec(
            plan=self.how,
            digest=self.digest,
            exposure_digest=digest,
            description=self.describe(),
            seed=plan.seed,
            null_roi=plan.null_roi,
            periods=tuple((period.name, period.spans[-1]) for period in plan.periods),
            exposures=exposures,
            views=tuple(view.view for view in views),
            names={each.id: (each.label, each.heading) for each in named},
        )


def _add(view: ViewTargets, sums: Sums, task: LoadTask, values: Single) -> None:
    sums.add(int(np.searchsorted(view.users, task.audit.target)), values)
