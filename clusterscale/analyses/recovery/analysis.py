"""The recovery of all users' locations from a release, as an analysis (PETS17)."""

from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from clusterscale import study
from clusterscale.analyses.recovery import estimates
from clusterscale.analyses.recovery.plan import RecoveryPlan
from clusterscale.analyses.recovery.task import (
    BASELINES,
    BLOCK,
    Recovered,
    RecoveryTask,
    ReleaseTask,
    measure,
    recover,
)
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import ranges
from clusterscale.cube.describe import raw_bytes
from clusterscale.models import names_of
from clusterscale.schema import Variable, read_variables
from clusterscale.storage.result_table import TableStore
from clusterscale.validation_messages import check_kinds

_USERS = 1 << 16  # users per chunk
_USER = 14 * 8  # bytes per user of columns, comparisons and sums of an epoch
_SUMS = 8 + 4 * 4  # bytes per user and estimate that a task returns
_ENTRY = 4 + 2 * 8  # bytes per user and ROI in a column, and while they are added up
# Seconds of a processor of 2020 per event that is read, and per user and epoch.
_READ, _COMPARE = 1.3e-8, 8e-8

RECOVERY: Mapping[str, Variable] = read_variables(Path(__file__).with_name("variables.md"))
"""Variables and coordinates of the dataset of a recovery."""


class RecoveryAnalysis(study.Analysis):
    """Infer the locations of every user of a cube, and measure the errors.

    Parameters
    ----------
    plan
        The recovery.
    """

    plan: RecoveryPlan
    kind: ClassVar[str] = "recovery"
    opener: ClassVar[str] = "open_recovery"
    schema: ClassVar[Mapping[str, Variable]] = RECOVERY
    shown: ClassVar[str] = "clusterscale.cli.analyses:show_recovery"
    tables: ClassVar[Mapping[str, str]] = {
        "profiling": "profiling_error",
        "localization": "localization_error",
        "profiling-epochs": "profiling_error_of_epoch",
        "localization-epochs": "localization_error_of_epoch",
        "prices": "relative_error",
    }
    null_roi: bool = True

    def __init__(self, plan: RecoveryPlan) -> None:
        check_kinds(plan=(plan, RecoveryPlan))
        self.plan, self.seed = plan, plan.seed

    def check(self, cube: TraceCube, memory: int) -> None:
        """Raise :class:`ConfigError` if the cube or the memory does not suffice for the plan."""
        self.plan.check(cube)
        purpose = f"for the visits of {cube.n_users:,} users, who are all assigned together"
        study.require_memory(memory, self._worker_bytes(cube), purpose)

    def explain(self, cube: TraceCube, memory: int, n_workers: int) -> dict[str, str]:
        """Return the number of users and tasks, and the predicted cost."""
        self.check(cube, memory)
        plan, (first, last) = self.plan, self.plan.span
        n_cases, n_blocks = len(plan.published) * len(plan.priors), -(-plan.epochs // BLOCK)
        n_estimates = len(BASELINES) + len(plan.strategies)
        events = cube.n_events * (last - first) / cube.n_epochs
        learning = events * _READ * n_cases * n_blocks
        comparing = cube.n_users * plan.epochs * n_estimates * n_cases * _COMPARE
        core_seconds = learning + comparing + 4 * events * _READ * n_workers
        cost = study.StudyCost(
            store_bytes=raw_bytes(cube),
            worker_bytes=self._worker_bytes(cube),
            core_seconds=core_seconds,
            seconds=core_seconds / min(n_workers, n_cases * n_blocks),
        )
        return {
            "users": f"{cube.n_users:,}",
            "tasks": f"{n_cases * n_blocks + len(plan.published):,}",
            **cost.describe("by each worker"),
        }

    def _worker_bytes(self, cube: TraceCube) -> int:
        first, last = self.plan.span
        traces = cube.n_events * (2 * cube.cell_bytes + 12) + cube.n_users * (last - first)
        n_estimates = len(BASELINES) + len(self.plan.strategies)
        column = _ENTRY * (cube.n_users + min(cube.n_events, cube.n_users * cube.n_rois))
        users = cube.n_users * (_USER + 2 * _SUMS * n_estimates)
        return int(study.PROCESS_BYTES + traces + 2 * column + users)

    def stages(self, job: study.Study) -> Iterator[study.Stage[Any, Any]]:
        """Yield the errors of each release, then the recovery of each mechanism and prior."""
        plan, table = self.plan, self._table(job)
        mechanisms = [mechanism.id for mechanism in plan.published]
        priors = [prior.id for prior in plan.priors]

        def keep_error(task: ReleaseTask, error: float) -> None:
            table.array("relative_error")[mechanisms.index(task.mechanism.id)] = error

        releases = [ReleaseTask(job.source, *plan.inferred, item) for item in plan.published]
        yield study.Stage("measure", measure, releases, study.each(keep_error), len(releases))

        blocks = list(ranges(0, plan.epochs, BLOCK))
        tasks = [
            RecoveryTask(job.source, plan, *case, *block)
            for case in product(plan.published, plan.priors)
            for block in blocks
        ]
        done = table.done()
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
                _write(table, indices(task.case), total, plan.epochs)
                table.mark_done(name(task.case))
                del pending[task.case]

        left = [task for task in tasks if name(task.case) not in done]
        yield study.Stage(
            "recover", recover, left, study.each(keep), len(tasks), len(tasks) - len(left)
        )
        _write_gains(table)
        table.finish()

    def _table(self, job: study.Study) -> TableStore:
        plan, cube = self.plan, job.cube
        strategies = {
            name: [*BASELINES, *values]
            for name, values in names_of("strategy", plan.strategies).items()
        }
        columns: dict[str, Any] = {
            "user": range(cube.n_users),
            "n_events": np.diff(cube.offsets),
            **names_of("mechanism", plan.published),
            **names_of("prior", plan.priors),
            **strategies,
            "reading": estimates.DECISION_RULES,
            "epoch": range(*plan.inferred),
        }
        chunks = {
            "user": _USERS,
            "strategy": len(strategies["strategy"]),
            "reading": len(estimates.DECISION_RULES),
            "epoch": plan.epochs,
        }
        return self.table(job, columns, chunks)


def _write(table: TableStore, at: tuple[int, int], sums: Recovered, n_epochs: int) -> None:
    """Write the errors of a mechanism and a prior, by their indices."""
    profiling = sums.distance / n_epochs
    table.array("profiling_error")[at] = profiling
    table.array("profiling_loss")[at] = estimates.privacy_loss(profiling[0], profiling)
    localization = estimates.one_minus_f1(sums.hits, sums.predicted, sums.true[:, None])
    table.array("localization_error")[at] = localization
    table.array("localization_loss")[at] = estimates.privacy_loss(localization[0], localization)
    table.array("profiling_error_of_epoch")[at] = sums.by_epoch[:, 0]
    table.array("localization_error_of_epoch")[at] = sums.by_epoch[:, 1:]


def _write_gains(table: TableStore) -> None:
    """Write the gains relative to raw counts."""
    for kind in ("profiling", "localization"):
        errors, gains = table.array(f"{kind}_error"), table.array(f"{kind}_gain")
        for at in product(*map(range, errors.shape[:2])):
            raw = np.asarray(errors[0, at[1]])  # index of raw counts among mechanisms
            gains[at] = estimates.privacy_gain(raw, np.asarray(errors[at]))
