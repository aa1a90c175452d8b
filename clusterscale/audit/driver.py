"""Run an audit, or go on with one that was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterscale.audit.blockwise import fold_task
from clusterscale.audit.completion_index import Done
from clusterscale.audit.evaluation import (
    MechanismEvaluationTask,
    Price,
    evaluate_mechanism_task,
    fold_evaluation,
)
from clusterscale.audit.failures import write_failures
from clusterscale.audit.journal import Entry, Journal, PriceJournal
from clusterscale.audit.plan import AuditPlan
from clusterscale.audit.resources import plan_resources
from clusterscale.audit.results import open_results, write_results
from clusterscale.audit.screens import choose_targets
from clusterscale.audit.targets import Chosen
from clusterscale.audit.task import AuditTask, run_task
from clusterscale.contracts import MEMORY, Executor, Finished, Reduction
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Range, Source, open_source
from clusterscale.game import Outcome
from clusterscale.redaction import clean
from clusterscale.schema import STATUS
from clusterscale.screening import ScreenProgress
from clusterscale.study import Identity
from clusterscale.validation_messages import check_kinds

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Progress", "run"]

Task = AuditTask | MechanismEvaluationTask

_OWN = ("journal", "prices", "results.zarr", "audit.json", "failures.txt", "report.html")
_SHARED = ("screen", "traits", "recovery", "release", "tables", "report.html", STATUS)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an audit has come: tasks in all, done (some perhaps by an earlier run), failed.

    ``stage`` is ``audit``; before that, if everyone is screened first, ``count`` or ``score``, and
    rows are told as tasks.
    """

    n_tasks: int
    n_done: int
    n_failed: int
    stage: str = "audit"


def run(
    plan: AuditPlan,
    cube: TraceCube,
    output: str | Path,
    executor: Executor,
    *,
    memory: int = MEMORY,
    force: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> xr.Dataset:
    """Run every task of ``plan`` on ``cube`` and return the dataset, also kept under ``output``.

    Each finished task is durable at once. Called again with the same plan and cube, it runs only
    what is not done (failed tasks are tried again) and ends with the same bits as a run that was
    never interrupted, but for the times in ``seconds``.

    Parameters
    ----------
    plan, cube
        What to ask, and of whom.
    output
        Folder of the run, a local path or fsspec URL: ``audit.json``, ``journal/``,
        ``prices/``, ``results.zarr``, and ``screen/`` where everyone was screened.
    executor
        Where the tasks run.
    memory
        Bytes that a worker may use. If everyone's traces and a task need more, counts are added
        over parts of the users; it changes no result.
    force
        Overwrite a run of another plan, cube or version.
    on_progress
        Called at the start and after each task.

    Raises
    ------
    InputError
        If the plan or the cube is something else.
    ConfigError
        If the cube cannot answer the plan.
    ExistsError
        If ``output`` holds a run of another plan, cube or version and ``force`` is not set.
    """
    check_kinds(plan=(plan, AuditPlan), cube=(cube, TraceCube))
    plan.check(cube)
    output = str(output).rstrip("/")
    source = Source.of(cube, null_roi=plan.null_roi, seed=plan.seed)
    executor.preflight(partial(open_source, source))
    identity = Identity("audit", plan.digest, cube.fingerprint)
    identity.claim(output, plan.describe(), force=force, own=_OWN, shared=_SHARED)

    def tell(now: ScreenProgress) -> None:
        on_progress(Progress(now.n_rows, now.n_done, 0, now.stage))

    chosen = choose_targets(
        plan, cube, output, executor, memory=memory, force=force, on_progress=tell
    )
    kept = _Kept(plan, cube, chosen, output)
    on_progress(kept.progress)
    way = plan_resources(plan, cube, memory, executor.n_workers, n_targets=len(chosen.users))
    for batch in _work(executor, kept.left(), way.users):
        kept.add(batch)
        on_progress(kept.progress)
    write_failures(kept.done, kept.prices.values(), f"{output}/failures.txt")
    write_results(plan, cube, chosen, kept.done, kept.prices, f"{output}/results.zarr")
    return open_results(output)


Batch = Sequence[Finished[Task, list[Outcome] | Price]]


def _work(executor: Executor, tasks: Iterator[Task], users: tuple[Range, ...]) -> Iterator[Batch]:
    """Yield tasks as they end; each is one piece of work, or a sum over parts of the users."""
    if not users:
        yield from executor.map_batches(_run, tasks)
        return
    folds: Iterator[Reduction[Task, Any, Any, list[Outcome] | Price]] = (
        _fold(task, users) for task in tasks
    )
    for finished in executor.map_folds(folds):
        yield [finished]


def _run(task: Task) -> list[Outcome] | Price:
    return (
        evaluate_mechanism_task(task)
        if isinstance(task, MechanismEvaluationTask)
        else run_task(task)
    )


def _fold(task: Task, users: tuple[Range, ...]) -> Reduction[Any, Any, Any, Any]:
    return (
        fold_evaluation(task, users)
        if isinstance(task, MechanismEvaluationTask)
        else fold_task(task, users)
    )


class _Kept:
    """What is done, in the journals of a run; failed tasks are to be tried again."""

    def __init__(self, plan: AuditPlan, cube: TraceCube, chosen: Chosen, output: str) -> None:
        self._plan, self._cube, self._chosen = plan, cube, chosen
        self._ledger = PriceJournal(f"{output}/prices")
        self.prices = {
            key: price for key, price in self._ledger.prices().items() if not price.error
        }
        self.done = Done(plan, chosen, Journal(f"{output}/journal"))
        self._n_prices = len(list(plan.prices(cube)))

    def left(self) -> Iterator[Task]:
        """Yield what is to be done, one after the other."""
        yield from [task for task in self._plan.prices(self._cube) if task.key not in self.prices]
        yield from self.done.left(self._plan.tasks(self._cube, self._chosen))

    def add(self, batch: Batch) -> None:
        """Keep a batch."""
        entries = []
        for finished in batch:
            error, traceback = _tell(finished)
            if isinstance(finished.item, MechanismEvaluationTask):
                price = finished.value
                if not isinstance(price, Price):
                    price = Price(finished.item.key, error=error, traceback=traceback)
                self.prices[price.key] = price
                self._ledger.add(price)
            else:
                outcomes = tuple(finished.value) if isinstance(finished.value, list) else ()
                entries.append(Entry(finished.item.key, outcomes, error, traceback))
        if entries:
            self.done.add(entries)

    @property
    def progress(self) -> Progress:
        """How far the audit has come."""
        n_unpriced = sum(bool(price.error) for price in self.prices.values())
        n_done = self.done.n_done + len(self.prices) - n_unpriced
        n_tasks = self.done.n_tasks + self._n_prices
        return Progress(n_tasks, n_done, self.done.n_failed + n_unpriced)


def _tell(finished: Finished[Task, list[Outcome] | Price]) -> tuple[str, str]:
    """Return the error in a line, and all that is known of where it came from."""
    if finished.error is None:
        return "", ""
    notes = getattr(finished.error, "__notes__", [])
    message = f"{type(finished.error).__name__}: {finished.error}"
    return clean(message), clean("\n".join([finished.traceback or message, *notes]))
