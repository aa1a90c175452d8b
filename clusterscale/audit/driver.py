"""Run an audit, or go on with one that was interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import xarray as xr

from clusterscale.audit.journal import Entry, Journal
from clusterscale.audit.plan import AuditPlan
from clusterscale.audit.results import assemble, save_results
from clusterscale.audit.task import Key, run_task
from clusterscale.contracts import Executor
from clusterscale.cube import TraceCube
from clusterscale.cube.storage import connect, exists, remove
from clusterscale.errors import ExistsError

__all__ = ["Cost", "Progress", "predict", "run"]

_COUNT_BYTES, _VALUE_BYTES, _OFFSET_BYTES = 4, 8, 8


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an audit has come: tasks in all, done (some perhaps by an earlier run), failed."""

    n_tasks: int
    n_done: int
    n_failed: int


def run(
    plan: AuditPlan,
    cube: TraceCube,
    output: str | Path,
    executor: Executor,
    *,
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
        ``results.zarr``.
    executor
        Where the tasks run.
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
    chosen = plan.targets.choose(cube, plan.seed)
    output = str(output).rstrip("/")
    _claim(output, plan, cube, force)
    journal = Journal(f"{output}/journal")
    entries = {key: entry for key, entry in journal.entries().items() if not entry.error}
    tasks = list(plan.tasks(cube, chosen))
    pending = [task for task in tasks if task.key not in entries]
    _report(on_progress, tasks, entries)
    for finished in executor.map_unordered(run_task, pending):
        key = finished.item.key
        if finished.error is None:
            entries[key] = Entry(key, tuple(finished.value or ()))
        else:
            entries[key] = Entry(key, error=_say(finished.error))
        journal.add(entries[key])
        _report(on_progress, tasks, entries)
    dataset = assemble(plan, cube, chosen, entries)
    save_results(dataset, f"{output}/results.zarr")
    return dataset


def _report(
    on_progress: Callable[[Progress], None], tasks: list[Any], entries: dict[Key, Entry]
) -> None:
    n_failed = sum(bool(entry.error) for entry in entries.values())
    on_progress(Progress(len(tasks), len(entries) - n_failed, n_failed))


def _say(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


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
    if exists(output) and filesystem.ls(root):
        if not force:
            raise ExistsError(
                f"{output} holds {_differences(filesystem, path, identity)}: "
                "choose another output, or overwrite it with force"
            )
        for name in ("journal", "results.zarr", "plan.json", "report.html"):
            remove(f"{output}/{name}")
    filesystem.makedirs(root, exist_ok=True)
    filesystem.pipe_file(path, text.encode())


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


@dataclass(frozen=True, slots=True)
class Cost:
    """What an audit will take.

    ``n_tasks`` are scheduled, giving ``n_cases`` results. ``store_bytes`` are read once by each
    worker, which keeps ``trace_bytes``; ``task_bytes`` is the most that one task holds beside them.
    """

    n_targets: int
    n_tasks: int
    n_cases: int
    store_bytes: int
    trace_bytes: int
    task_bytes: int


def predict(plan: AuditPlan, cube: TraceCube) -> Cost:
    """Predict what an audit costs, without running anything.

    Raises
    ------
    ConfigError
        If the cube cannot answer the plan.
    """
    plan.check(cube)
    n_targets = len(plan.targets.choose(cube, plan.seed).users)
    n_tasks = n_targets * len(plan.periods) * len(plan.priors) * len(plan.group_sizes)
    validate = any(attack.validates for attack in plan.attacks)
    n_cells, trace_bytes, task_bytes = cube.n_rois + plan.null_roi, 0, 0
    for period, prior in product(plan.periods, plan.priors):
        n_past = len(period.observed) if prior.needs_past else 0
        trace_bytes = max(trace_bytes, _trace_bytes(plan, cube, (n_past + 1) * period.epochs))
        n_rows = prior.n_rows(n_past, validate=validate)
        row_bytes = n_cells * period.epochs * (_COUNT_BYTES + _VALUE_BYTES * plan.adds_noise)
        task_bytes = max(task_bytes, n_rows * row_bytes)
    return Cost(
        n_targets=n_targets,
        n_tasks=n_tasks,
        n_cases=n_tasks * plan.n_cases,
        store_bytes=cube.n_events * cube.cell_bytes + (cube.n_users + 1) * _OFFSET_BYTES,
        trace_bytes=trace_bytes,
        task_bytes=task_bytes,
    )


def _trace_bytes(plan: AuditPlan, cube: TraceCube, n_epochs: int) -> int:
    """Bytes of the traces of so many epochs, if events are spread evenly over time."""
    n_events = cube.n_events * n_epochs // cube.n_epochs
    idle = cube.n_users * n_epochs if plan.null_roi else 0
    return n_events * cube.cell_bytes + (cube.n_users + 1) * _OFFSET_BYTES + idle
