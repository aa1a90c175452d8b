"""Run an audit, or go on with one that was interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import xarray as xr

from clusterscale.audit.journal import Entry, Journal, PriceJournal
from clusterscale.audit.plan import AuditPlan
from clusterscale.audit.price import Price, PriceKey, PriceTask, run_price
from clusterscale.audit.results import assemble, save_results
from clusterscale.audit.screens import rank, screen
from clusterscale.audit.task import AuditTask, Key, run_task
from clusterscale.contracts import Executor, Finished
from clusterscale.cube import TraceCube
from clusterscale.cube.storage import connect, remove
from clusterscale.errors import ExistsError
from clusterscale.game import Outcome
from clusterscale.screening import MEMORY, ScreenProgress

__all__ = ["Progress", "run"]

Task = AuditTask | PriceTask


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
        Folder of the run, a local path or fsspec URL: ``plan.json``, ``journal/``,
        ``prices/``, ``results.zarr``, and ``screen/`` where everyone was screened.
    executor
        Where the tasks run.
    memory
        Bytes that a worker may use for the screen, if the most exposed are to be found first.
    force
        Overwrite a run of another plan, cube or version.
    on_progress
        Called at the start and after each task.

    Raises
    ------
    ConfigError
        If the cube cannot answer the plan.
    ExistsError
        If ``output`` holds a run of another plan, cube or version and ``force`` is not set.
    """
    plan.check(cube)
    output = str(output).rstrip("/")
    _claim(output, plan, cube, force)
    ranking = None
    if plan.targets.n_most_exposed(cube):

        def tell(now: ScreenProgress) -> None:
            on_progress(Progress(now.n_rows, now.n_done, 0, now.stage))

        screened = screen(
            plan, cube, output, executor, memory=memory, force=force, on_progress=tell
        )
        ranking = rank(screened)
    chosen = plan.targets.choose(cube, plan.seed, ranking)
    kept = _Kept(output)
    tasks: list[Task] = [*plan.prices(cube), *plan.tasks(cube, chosen)]
    on_progress(kept.progress(len(tasks)))
    for batch in executor.map_batches(_work, [task for task in tasks if task not in kept]):
        for finished in batch:
            kept.add(finished)
        on_progress(kept.progress(len(tasks)))
    dataset = assemble(plan, cube, chosen, kept.entries, kept.prices)
    save_results(dataset, f"{output}/results.zarr")
    return dataset


def _work(task: Task) -> list[Outcome] | Price:
    return run_price(task) if isinstance(task, PriceTask) else run_task(task)


class _Kept:
    """What is done, in memory and in the journals of a run; failed tasks are to be tried again."""

    def __init__(self, output: str) -> None:
        self._journal = Journal(f"{output}/journal")
        self._ledger = PriceJournal(f"{output}/prices")
        self.entries: dict[Key, Entry] = _sound(self._journal.entries())
        self.prices: dict[PriceKey, Price] = _sound(self._ledger.entries())

    def __contains__(self, task: Task) -> bool:
        return task.key in (self.prices if isinstance(task, PriceTask) else self.entries)

    def add(self, finished: Finished[Task, list[Outcome] | Price]) -> None:
        task, value = finished.item, finished.value
        error = "" if finished.error is None else f"{type(finished.error).__name__}: "
        error += str(finished.error or "")
        if isinstance(task, PriceTask):
            price = value if isinstance(value, Price) else Price(task.key, error=error)
            self.prices[task.key] = price
            self._ledger.add(price)
        else:
            outcomes = tuple(value) if isinstance(value, list) else ()
            self.entries[task.key] = Entry(task.key, outcomes, error)
            self._journal.add(self.entries[task.key])

    def progress(self, n_tasks: int) -> Progress:
        errors = [entry.error for entry in self.entries.values()]
        errors += [price.error for price in self.prices.values()]
        n_failed = sum(map(bool, errors))
        return Progress(n_tasks, len(errors) - n_failed, n_failed)


def _sound(entries: dict[Any, Any]) -> dict[Any, Any]:
    return {key: entry for key, entry in entries.items() if not entry.error}


def _claim(output: str, plan: AuditPlan, cube: TraceCube, force: bool) -> None:
    """Make ``output`` the folder of this run, or make sure that it already is."""
    filesystem, root = connect(output)
    path = f"{root}/plan.json"
    identity = {
        "plan": plan.describe(),
        "plan_digest": plan.digest,
        "cube_fingerprint": cube.fingerprint,
        "version": version("clusterscale"),
    }
    text = json.dumps(identity, indent=2, sort_keys=True)
    if filesystem.exists(path) and filesystem.cat_file(path).decode() == text:
        return
    if _holds_other(filesystem, root):
        if not force:
            raise ExistsError(
                f"{output} holds {_differences(filesystem, path, identity)}: "
                "choose another output, or overwrite it with force"
            )
        for name in ("journal", "prices", "results.zarr", "plan.json", "report.html"):
            remove(f"{output}/{name}")
    filesystem.makedirs(root, exist_ok=True)
    filesystem.pipe_file(path, text.encode())


def _holds_other(filesystem: Any, root: str) -> bool:
    """Tell whether there is anything but a screen, which says itself what it is of."""
    if not filesystem.exists(root):
        return False
    return any(Path(str(path)).name != "screen" for path in filesystem.ls(root, False))


def _differences(filesystem: Any, path: str, identity: dict[str, Any]) -> str:
    if not filesystem.exists(path):
        return "something that is not a run of clusterscale"
    try:
        old = json.loads(filesystem.cat_file(path))
    except ValueError:
        return "a run whose plan.json is damaged"
    words = {
        "plan_digest": "plan",
        "cube_fingerprint": "cube",
        "version": "version of clusterscale",
    }
    other = [word for key, word in words.items() if old.get(key) != identity[key]]
    return f"a run of another {' and '.join(other) or 'layout'}"
