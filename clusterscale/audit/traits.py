"""Why users are exposed whom an audit or a screen has found: how they move, where attacks look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterscale.audit.exposure_sources import find_exposures
from clusterscale.audit.loadings import (
    LoadTask,
    Sums,
    ViewTargets,
    fold_loading,
    list_seen,
    load,
    tasks_of,
)
from clusterscale.audit.plan import AuditPlan
from clusterscale.audit.resources import plan_resources
from clusterscale.contracts import MEMORY, Executor, Finished
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Range, Source, open_source
from clusterscale.errors import InputError
from clusterscale.storage import absolute
from clusterscale.traits import (
    AnalysisSpec,
    TargetAUCs,
    TraitsPlan,
    TraitsProgress,
    TraitsStore,
    Work,
    open_traits,
)

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["traits"]

Tell = Callable[[TraitsProgress], None]


def traits(
    plan: AuditPlan,
    cube: TraceCube,
    output: str | Path,
    executor: Executor,
    *,
    how: TraitsPlan | None = None,
    memory: int = MEMORY,
    force: bool = False,
    on_progress: Tell = lambda progress: None,
) -> xr.Dataset:
    """Find out what the most exposed users of ``cube`` have in common (POMACS20 §3).

    Exposure is what the audit or the screen in ``output`` has found, or both. Called again with
    the same plans and results, it does only what is not done, and ends with the same bits,
    whatever the workers and the memory.

    Parameters
    ----------
    plan, cube
        What was audited or screened, and of whom.
    output
        Folder of that run, a local path or fsspec URL that all workers reach; traits are kept in
        ``traits/`` below it.
    executor
        Where the work is done.
    how
        How the exposed are compared; the defaults where None.
    memory
        Bytes that a worker may use.
    force
        Overwrite traits of another plan, cube, audit or screen.
    on_progress
        Called at the start of each stage and after each task.

    Returns
    -------
    xr.Dataset
        Keeps :data:`clusterscale.schema.TRAITS`; read lazily.

    Raises
    ------
    MissingError
        If neither an audit nor a screen has finished there.
    ExistsError
        If these, or traits that are there, are of something else.
    ConfigError
        If the cube cannot answer, or memory is too short.
    """
    how, place = how or TraitsPlan(), absolute(str(output)).rstrip("/")
    exposures = find_exposures(plan, cube, place)
    seen = list_seen(plan, exposures, how)
    question = _ask(plan, how, exposures, seen)
    source = Source.of(cube, null_roi=plan.null_roi, seed=plan.seed)
    executor.preflight(partial(open_source, source))
    store = TraitsStore(f"{place}/traits", question, cube, force=force)
    work = Work(question, cube, source, store, executor, memory=memory, tell=on_progress)
    work.measure()
    work.compare()
    users = plan_resources(plan, cube, memory, executor.n_workers).users if seen else ()
    for number, each in enumerate(seen):
        if f"view-{number}" not in store.done():
            tasks = tasks_of(each, plan, cube, how)
            sums = Sums(each.groups(how.share))
            _look(executor, tasks, users, each, sums, on_progress)
            store.add_view(number, *sums.means())
    store.finish()
    return open_traits(store.uri)


def _ask(
    plan: AuditPlan, how: TraitsPlan, exposures: list[TargetAUCs], seen: list[ViewTargets]
) -> AnalysisSpec:
    named: tuple[Any, ...] = (*plan.mechanisms, *plan.priors, *plan.attacks, *plan.screen.attacks)
    return AnalysisSpec(
        plan=how,
        audit=plan.describe(),
        seed=plan.seed,
        null_roi=plan.null_roi,
        periods=tuple((period.name, period.spans[-1]) for period in plan.periods),
        exposures=tuple(each for each in exposures if _has_sides(each, how.share)),
        views=tuple(each.view for each in seen),
        settings=plan.canonical,
        names={each.id: (each.label, each.heading) for each in named},
    )


def _has_sides(exposure: TargetAUCs, share: float) -> bool:
    try:
        exposure.read().sides(share)
    except InputError:
        return False
    return True


def _look(
    executor: Executor,
    tasks: list[LoadTask],
    users: tuple[Range, ...],
    seen: ViewTargets,
    sums: Sums,
    tell: Tell,
) -> None:
    """Add the loadings of all targets.

    Raises
    ------
    Exception
        The first error of a target, when all others are done.
    """
    errors: list[BaseException] = []
    tell(TraitsProgress("components", len(tasks), 0))
    for n_done, finished in enumerate(_finish(executor, tasks, users), 1):
        if finished.value is None:
            errors.append(finished.error or RuntimeError("a target came back empty"))
        else:
            place = int(np.searchsorted(seen.users, finished.item.audit.target))
            sums.add(place, finished.value)
        tell(TraitsProgress("components", len(tasks), n_done))
    if errors:
        errors[0].add_note(f"{len(errors)} of {len(tasks)} targets failed; the rest is kept")
        raise errors[0]


def _finish(
    executor: Executor, tasks: list[LoadTask], users: tuple[Range, ...]
) -> Iterator[Finished[LoadTask, Any]]:
    if users:
        return executor.map_folds(fold_loading(task, users) for task in tasks)
    return chain.from_iterable(executor.map_batches(load, tasks))
