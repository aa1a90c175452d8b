"""Run a recovery, or go on with one that was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from clusterscale.contracts import MEMORY, Executor, drain
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Source, open_source
from clusterscale.recovery.budget import check
from clusterscale.recovery.plan import RecoveryPlan
from clusterscale.recovery.release import ReleaseTask, measure
from clusterscale.recovery.results import RecoveryStore, open_recovery
from clusterscale.recovery.task import Recovered, RecoveryTask, recover
from clusterscale.storage import absolute
from clusterscale.validation_messages import check_kinds

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["RecoveryProgress", "run"]

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RecoveryProgress:
    """How far a recovery has come: cases are mechanisms × priors, done block by block."""

    n_tasks: int
    n_done: int


Tell = Callable[[RecoveryProgress], None]


def run(
    plan: RecoveryPlan,
    cube: TraceCube,
    output: str | Path,
    executor: Executor,
    *,
    memory: int = MEMORY,
    force: bool = False,
    on_progress: Tell = lambda progress: None,
) -> xr.Dataset:
    """Infer where every user of ``cube`` was, and return how well that went (PETS17).

    Called again with the same plan and cube, it does only what is not done, and ends with the same
    bits, whatever the workers.

    Parameters
    ----------
    plan, cube
        What to ask, and of whom.
    output
        Folder of the run, a local path or fsspec URL that all workers reach; the recovery is kept
        in ``recovery/`` below it.
    executor
        Where the work is done.
    memory
        Bytes that a worker may use; changes no result.
    force
        Overwrite another recovery that is there.
    on_progress
        Called at the start and after each block of epochs.

    Returns
    -------
    xr.Dataset
        Keeps :data:`clusterscale.schema.RECOVERY`; read lazily.

    Raises
    ------
    InputError
        If the plan or the cube is something else.
    ConfigError
        If the cube cannot answer the plan, or memory is too short.
    ExistsError
        If ``output`` holds another recovery and ``force`` is not set.
    """
    check_kinds(plan=(plan, RecoveryPlan), cube=(cube, TraceCube))
    check(plan, cube, memory)
    source = Source.of(cube, null_roi=True, seed=plan.seed)
    executor.preflight(partial(open_source, source))
    place = f"{absolute(str(output)).rstrip('/')}/recovery"
    store = RecoveryStore(place, plan, cube, force=force)
    work = _Work(plan, source, store, executor, on_progress)
    work.measure()
    work.recover(list(plan.tasks(cube)))
    store.finish()
    return open_recovery(store.uri)


class _Work:
    """One recovery on one executor."""

    def __init__(
        self,
        plan: RecoveryPlan,
        source: Source,
        store: RecoveryStore,
        executor: Executor,
        tell: Tell,
    ) -> None:
        self._plan, self._source, self._store = plan, source, store
        self._executor, self._tell = executor, tell
        self._mechanisms = [mechanism.id for mechanism in plan.published]
        self._priors = [belief.id for belief in plan.priors]

    def measure(self) -> None:
        """Say of every release how far it is from the counts."""
        first = self._plan.first + self._plan.observed
        stop = first + self._plan.epochs
        tasks = [ReleaseTask(self._source, first, stop, each) for each in self._plan.published]
        for task, error in self._do(measure, tasks):
            self._store.price(self._mechanisms.index(task.mechanism.id), error)

    def recover(self, tasks: list[RecoveryTask]) -> None:
        """Do what is not done, and keep each case once its last block has come.

        Raises
        ------
        Exception
            The first error of a task, when all others are done.
        """
        done = self._store.done()
        left = [task for task in tasks if self._name(task.case) not in done]
        n_done, found = len(tasks) - len(left), dict[tuple[str, str], dict[int, Recovered]]()
        n_blocks = len({task.start for task in tasks})
        self._tell(RecoveryProgress(len(tasks), n_done))
        for task, recovered in self._do(recover, left):
            blocks = found.setdefault(task.case, {})
            blocks[task.start] = recovered
            if len(blocks) == n_blocks:
                total = reduce(Recovered.plus, (blocks[start] for start in sorted(blocks)))
                self._store.add(*self._place(task.case), total, self._name(task.case))
                del found[task.case]
            n_done += 1
            self._tell(RecoveryProgress(len(tasks), n_done))

    def _do(self, function: Callable[[T], R], tasks: list[T]) -> Iterator[tuple[T, R]]:
        failed = "tasks failed; what is whole is kept, and the same command goes on with the others"
        return drain(self._executor, function, tasks, failed=failed)

    def _place(self, case: tuple[str, str]) -> tuple[int, int]:
        mechanism, prior = case
        return self._mechanisms.index(mechanism), self._priors.index(prior)

    def _name(self, case: tuple[str, str]) -> str:
        return "-".join(map(str, self._place(case)))
