"""The membership audit of targets, as an analysis."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from clusterscale import study
from clusterscale.analyses.audit.finished_tasks import Entry, FinishedTasks, entries_in
from clusterscale.analyses.audit.plan import AuditPlan
from clusterscale.analyses.audit.resources import plan_resources, predict
from clusterscale.analyses.audit.results import (
    count_failed,
    is_finished,
    open_results,
    write_failures,
    write_results,
)
from clusterscale.analyses.audit.targets import Chosen
from clusterscale.analyses.audit.task import AuditTask, fold_play, play_whole
from clusterscale.analyses.dp_audit import evaluation
from clusterscale.analyses.screening import ScreenAnalysis, is_counted
from clusterscale.cube import TraceCube
from clusterscale.cube.arrays import CHUNK
from clusterscale.cube.blocks import Range
from clusterscale.errors import StoreError
from clusterscale.game import Outcome
from clusterscale.redaction import clean
from clusterscale.schema import RESULTS, RESULTS_FORMAT, Variable
from clusterscale.storage.records import SMALL_FILES, Records
from clusterscale.study.execution import Executor, Finished, Reduction, describe_error
from clusterscale.study.identity import run_in
from clusterscale.validation_messages import check_kinds

if TYPE_CHECKING:
    import xarray as xr

Task = AuditTask | evaluation.MechanismEvaluationTask
Result = list[Outcome] | evaluation.MechanismEvaluation


_USERS = 1 << 18  # read at once


class AuditAnalysis(study.Analysis):
    """The attacks of a plan on its targets, and the evaluation of its mechanisms.

    Failed tasks are recorded in the results, and run again by the next call.

    Parameters
    ----------
    plan
        The audit.
    """

    plan: AuditPlan
    kind: ClassVar[str] = "audit"
    opener: ClassVar[str] = "open_results"
    form: ClassVar[str] = RESULTS_FORMAT
    schema: ClassVar[Mapping[str, Variable]] = RESULTS
    shown: ClassVar[str] = "clusterscale.cli.results:show_results"
    tables: ClassVar[Mapping[str, str]] = {
        "cases": "auc",
        "pooled": "pooled_tpr",
        "promises": "guarantee_unit",
        "verdicts": "verdict",
        "utility": "utility",
        "guesses": "random_guess",
    }
    folder: ClassVar[str | None] = ""
    own: ClassVar[Collection[str] | None] = (
        "journal", "evaluations", "results.zarr", "audit.json", "failures.txt", "report.html",
    )  # fmt: skip

    def __init__(self, plan: AuditPlan) -> None:
        check_kinds(plan=(plan, AuditPlan))
        self.plan, self.seed, self.null_roi = plan, plan.seed, plan.null_roi

    def check(self, cube: TraceCube, memory: int) -> None:
        """Raise :class:`ConfigError`, naming the keys, if the plan does not fit ``cube``."""
        self.plan.check(cube)

    def explain(self, cube: TraceCube, memory: int, n_workers: int) -> dict[str, str]:
        """Return what the audit would do and take."""
        cost = predict(self.plan, cube, memory, n_workers, slowness=study.measure_slowness())
        way = cost.resources
        n_parts = max(1, len(way.users))
        share = f", in {len(way.users)} parts" if way.users else ", by each worker"
        worker, traces = map(study.describe_bytes, (way.worker_bytes, way.trace_bytes))
        rest = study.describe_bytes(way.worker_bytes - way.trace_bytes)
        return {
            "targets": f"{cost.n_targets:,}",
            "tasks": f"{cost.n_tasks:,}",
            "results": f"{cost.n_cases:,}",
            "way": "by blocks of users" if way.users else "in memory",
            "why": way.why,
            **study.describe_cost(
                read=study.describe_bytes(cost.store_bytes) + share,
                worker=f"{worker}, {traces} of it traces",
                core_seconds=way.core_seconds,
                seconds=cost.seconds_range,
            ),
            "used on each node": f"{worker} for each of its workers"
            if way.users
            else f"{rest} for each of its workers, and {traces} of traces, once if shared",
            **study.describe_cluster(
                n_tasks=cost.n_tasks,
                n_cases=cost.n_cases,
                core_seconds=way.core_seconds - way.start_seconds * min(n_workers, cost.n_tasks),
                start_seconds=way.start_seconds,
                start_bytes=cost.store_bytes / n_parts,
                start_chunks=cube.n_events / CHUNK / n_parts,
                n_workers=n_workers,
            ),
        }

    def requires(self) -> Sequence[study.Analysis]:
        """Return the screen, if the plan attacks the most exposed."""
        if self.plan.targets.most_exposed is None:
            return ()
        return (ScreenAnalysis(self.plan.whole_screen),)

    @classmethod
    def read(cls, uri: str | Path) -> xr.Dataset:
        """Open the results in the folder of a run, or a store, lazily."""
        return open_results(uri)

    @classmethod
    def failures(cls, results: xr.Dataset) -> int:
        """Return the number of failed cases and evaluations."""
        return count_failed(results)

    def stages(self, job: study.Study) -> Iterator[study.Stage[Any, Any]]:
        """Yield the stage of all tasks, then those that write the results."""
        plan, cube, uri = self.plan, job.cube, job.uri
        screened = self.plan.targets.most_exposed is not None
        chosen = plan.choose(cube, rank(ScreenAnalysis.read(f"{uri}/screen")) if screened else None)
        way = plan_resources(plan, cube, job.memory, job.n_workers, n_targets=len(chosen.users))
        writer = _Writer(uri, run_in(uri, self.kind))
        done = FinishedTasks(plan, chosen, writer.journal, writer.run)
        kept = evaluation.read_evaluations(writer.evaluations())
        tests = [
            task for task in plan.evaluations(cube) if task.key not in kept or kept[task.key].error
        ]
        n_tests = len(list(plan.evaluations(cube)))
        ended = not tests and done.n_done == done.n_tasks

        def keep(batch: Sequence[Finished[Task, str]]) -> study.Stage[Any, Any] | None:
            games = {
                one.item.key: one.error is not None
                for one in batch
                if isinstance(one.item, AuditTask)
            }
            if games:
                done.note(str(batch[0].value), games)
            return done.merging(SMALL_FILES)

        yield study.Stage(
            name="audit",
            function=partial(_reduce, users=way.users) if way.users else _run,
            tasks=chain(tests, done.left(plan.tasks(cube, chosen))),
            keep=keep,
            n_tasks=done.n_tasks + n_tests,
            n_done=done.n_done + n_tests - len(tests),
            write=writer,
            by_parts=bool(way.users),
            keeps_errors=True,
        )
        if ended and is_finished(f"{uri}/results.zarr"):
            return
        if (merging := done.merging(SMALL_FILES)) is not None:
            yield merging
        evaluations = evaluation.read_evaluations(writer.evaluations())
        write_failures(plan, done, evaluations, f"{uri}/failures.txt")
        yield from write_results(plan, cube, chosen, done, evaluations, f"{uri}/results.zarr")


def _run(task: Task) -> Result:
    if isinstance(task, evaluation.MechanismEvaluationTask):
        return evaluation.evaluate_mechanism_task(task)
    return play_whole(task)


def _reduce(task: Task, users: tuple[Range, ...]) -> Reduction[Any, Any, Any, Any]:
    if isinstance(task, evaluation.MechanismEvaluationTask):
        return evaluation.fold_evaluation(task, users)
    return fold_play(task, users)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes the results of a batch below the folder of a run, where they arose."""

    uri: str
    run: str

    @property
    def journal(self) -> str:
        """The folder of the entries."""
        return f"{self.uri}/journal"

    def evaluations(self) -> Records[evaluation.MechanismEvaluation]:
        """Return the evaluations of the run, read anew."""
        return evaluation.evaluations_in(f"{self.uri}/evaluations", self.run)

    def __call__(self, batch: Sequence[Finished[Task, Result]]) -> str:
        """Return the file of the entries, empty if there is none."""
        _check_folder(self)
        entries = []
        for finished in batch:
            value = getattr(finished.error, "result", finished.value)  # also a partial one
            error, traceback = _error_of(finished)
            if isinstance(finished.item, AuditTask):
                outcomes = tuple(value) if isinstance(value, list) else ()
                entries.append(Entry(finished.item.key, outcomes, error, traceback))
                continue
            if not isinstance(value, evaluation.MechanismEvaluation):
                value = evaluation.MechanismEvaluation(finished.item.key)
            self.evaluations().write(replace(value, error=error, traceback=traceback))
        return entries_in(self.journal, self.run).write(entries) if entries else ""


@lru_cache(maxsize=1)
def _check_folder(writer: _Writer) -> None:
    """Check, once in a process, that it sees the folder that the driver sees."""
    if run_in(writer.uri, AuditAnalysis.kind) != writer.run:
        raise StoreError(
            f"{writer.uri}: {gethostname()} does not find the run of the driver there: the output "
            "must be in a folder that all workers reach"
        )


def _error_of(finished: Finished[Task, Result]) -> tuple[str, str]:
    """Return the error in one line, and its traceback with its notes."""
    if finished.error is None:
        return "", ""
    notes = getattr(finished.error, "__notes__", [])
    message = describe_error(finished.error)
    parts = [finished.traceback or message]
    return message, clean("\n".join(parts + [note for note in notes if note not in parts[0]]))


def choose_targets(
    plan: AuditPlan, cube: TraceCube, output: str | Path, executor: Executor, **options: Any
) -> Chosen:
    """Choose the targets of a plan; a screen finds the most exposed users first."""
    if plan.targets.most_exposed is None:
        return plan.choose(cube)
    screened = study.run(ScreenAnalysis(plan.whole_screen), cube, output, executor, **options)
    return plan.choose(cube, rank(screened))


def rank(screened: xr.Dataset) -> NDArray[np.int64]:
    """Return the users that a screen counts, the most exposed first.

    A user's exposure is the mean AUC over group sizes, mechanisms, attacks and the periods in which
    the user is counted (``is_counted``): several attacks agree better
    with one that is trained than any of them does alone. Among equals (many reach 1) the mean gap
    counts.

    Parameters
    ----------
    screened
        Dataset of a finished screen, conforming to :data:`clusterscale.analyses.screening.SCREEN`.

    Returns
    -------
    int64, shape (counted user,)
        Indices in the cube.
    """
    n_users, counted = screened.sizes["user"], np.asarray(is_counted(screened))
    exposure, gap = np.empty(n_users), np.empty(n_users)
    for first in range(0, n_users, _USERS):
        some = slice(first, first + _USERS)
        for name, out in (("auc", exposure), ("score_gap", gap)):
            values = screened[name].isel(user=some).transpose("user", "period", ...).values
            by_period = values.reshape(*counted[some].shape, -1)
            total = by_period.sum(axis=2, dtype=np.float64).sum(axis=1, where=counted[some])
            mean = total / np.maximum(counted[some].sum(axis=1) * by_period.shape[2], 1)
            out[some] = np.where(np.isnan(mean), -np.inf, mean)  # NaN goes last
    order: NDArray[np.int64] = np.lexsort((np.arange(n_users), -gap, -exposure))
    return order[np.asarray(counted.any(axis=1))[order]]
