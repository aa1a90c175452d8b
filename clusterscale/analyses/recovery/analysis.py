"""The recovery of all users' locations from a release, as an analysis (PETS17)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

from clusterscale.analyses.recovery.plan import RecoveryPlan
from clusterscale.analyses.recovery.resources import check, predict
from clusterscale.analyses.recovery.results import RECOVERY, RecoveryStore
from clusterscale.analyses.recovery.task import (
    BLOCK,
    Recovered,
    RecoveryTask,
    ReleaseTask,
    measure,
    recover,
)
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import ranges
from clusterscale.schema import RECOVERY_FORMAT, Variable
from clusterscale.study import Analysis, Page, Stage, Study, each
from clusterscale.validation_messages import check_kinds

if TYPE_CHECKING:
    pass


class RecoveryAnalysis(Analysis):
    """Infer the locations of every user of a cube, and measure the errors.

    Parameters
    ----------
    plan
        The recovery.
    """

    plan: RecoveryPlan
    kind: ClassVar[str] = "recovery"
    opener: ClassVar[str] = "open_recovery"
    verb: ClassVar[str] = "recover"
    form: ClassVar[str] = RECOVERY_FORMAT
    schema: ClassVar[Mapping[str, Variable]] = RECOVERY
    shown: ClassVar[str] = "clusterscale.cli.analyses:show_recovery"
    tables: ClassVar[Mapping[str, str]] = {
        "profiling": "profiling_error",
        "localization": "localization_error",
        "profiling-epochs": "profiling_error_of_epoch",
        "localization-epochs": "localization_error_of_epoch",
        "prices": "relative_error",
    }
    page: ClassVar[Page] = Page(
        word="recovery report",
        title="Locations recovered from published counts",
        heading="Recovered locations",
        plan="Plan of the recovery",
        gist="A recovery infers each user’s locations from the counts of "
        "all users, and measures the error.",
        reading="Recovery",
        sections="clusterscale.reporting.recovery:render_sections",
    )
    null_roi: bool = True

    def __init__(self, plan: RecoveryPlan) -> None:
        check_kinds(plan=(plan, RecoveryPlan))
        self.plan, self.seed = plan, plan.seed

    def check(self, cube: TraceCube, memory: int) -> None:
        """Raise :class:`ConfigError` if the cube or the memory does not suffice for the plan."""
        check(self.plan, cube, memory)

    def explain(self, cube: TraceCube, memory: int, n_workers: int) -> dict[str, str]:
        """Return the number of users and tasks, and the predicted cost."""
        cost = predict(self.plan, cube, memory, n_workers)
        return {
            "users": f"{cost.n_users:,}",
            "tasks": f"{cost.n_tasks:,}",
            **cost.describe("by each worker"),
        }

    def stages(self, job: Study) -> Iterator[Stage[Any, Any]]:
        """Yield the errors of each release, then the recovery of each mechanism and prior."""
        plan, store = self.plan, RecoveryStore(job.uri, self.plan, job.cube)
        mechanisms = [mechanism.id for mechanism in plan.published]
        priors = [prior.id for prior in plan.priors]

        def keep_error(task: ReleaseTask, error: float) -> None:
            store.add_error(mechanisms.index(task.mechanism.id), error)

        releases = [ReleaseTask(job.source, *plan.inferred, item) for item in plan.published]
        yield Stage("measure", measure, releases, each(keep_error), len(releases))

        blocks = list(ranges(0, plan.epochs, BLOCK))
        tasks = [
            RecoveryTask(job.source, plan, *case, *block)
            for case in product(plan.published, plan.priors)
            for block in blocks
        ]
        done = store.done()
        pending: dict[tuple[str, str], dict[int, Recovered]] = {}

        def indices(case: tuple[str, str]) -> tuple[int, int]:
            return mechanisms.index(case[0]), priors.index(case[1])

        def name(case: tuple[str, str]) -> str:
            return "-".join(map(str, indices(case)))

        def keep(task: RecoveryTask, recovered: Recovered) -> None:
            sums = pending.setdefault(task.case, {})
            sums[task.start] = recovered
            if len(sums) == len(blocks):
                total = reduce(Recovered.plus, (sums[start] for start in sorted(sums)))
                store.add(*indices(task.case), total, name(task.case))
                del pending[task.case]

        left = [task for task in tasks if name(task.case) not in done]
        yield Stage("recover", recover, left, each(keep), len(tasks), len(tasks) - len(left))
        store.finish()
