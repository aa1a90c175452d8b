"""Run a screen, or go on with one that was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from clusterscale.contracts import MEMORY, Executor, Mechanism, drain
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Source, block_size, open_source, ranges
from clusterscale.screening.base_groups import new_base, open_base
from clusterscale.screening.budget import check, part_size, plan_screen_resources, slice_size
from clusterscale.screening.counting import CountTask, GroupContributions, combine, count
from clusterscale.screening.plan import Screen, ScreenSetting
from clusterscale.screening.results import ScreenStore, open_screen
from clusterscale.screening.scoring import ScreenTask, score
from clusterscale.storage import absolute, exists

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ScreenProgress", "run"]


@dataclass(frozen=True, slots=True)
class ScreenProgress:
    """How far a screen has come.

    ``stage`` is ``count`` or ``score``; rows are users × periods × group sizes × mechanisms.
    """

    stage: str
    n_rows: int
    n_done: int


Tell = Callable[[ScreenProgress], None]


def run(
    screen: Screen,
    cube: TraceCube,
    output: str | Path,
    executor: Executor,
    *,
    memory: int = MEMORY,
    force: bool = False,
    on_progress: Tell = lambda progress: None,
) -> xr.Dataset:
    """Screen every user of ``cube`` and return the dataset, also kept under ``output``.

    Groups are counted in one pass over the store. In a second one, users are scored block by block
    against all groups; each block is durable at once. Called again with the same screen and cube,
    it does only what is not done, and ends with the same bits, whatever the workers and the memory.

    Parameters
    ----------
    screen, cube
        What to ask, and of whom.
    output
        Folder of the screen, a local path or fsspec URL that all workers reach.
    executor
        Where the work is done.
    memory
        Bytes that a worker may use.
    force
        Overwrite another screen that is there.
    on_progress
        Called at the start of each stage and after each block.

    Returns
    -------
    xr.Dataset
        Keeps :data:`clusterscale.schema.SCREEN`; read lazily.

    Raises
    ------
    ConfigError, PoolError
        If the cube cannot answer, or memory is too short.
    ExistsError
        If ``output`` holds another screen and ``force`` is not set.
    """
    check(screen, cube)
    source = Source.of(cube, null_roi=screen.null_roi, seed=screen.seed)
    executor.preflight(partial(open_source, source))
    store = ScreenStore(absolute(str(output)), screen, cube, force=force)
    work = _Work(screen, cube, source, store, executor, memory, on_progress)
    for index, (setting, mechanisms) in enumerate(screen.settings()):
        if left := work.left(index, mechanisms):
            work.count(index, setting, mechanisms)
            work.score(index, setting, mechanisms, left)
    store.finish()
    return open_screen(store.uri)


class _Work:
    """One screen on one executor."""

    def __init__(
        self,
        screen: Screen,
        cube: TraceCube,
        source: Source,
        store: ScreenStore,
        executor: Executor,
        memory: int,
        tell: Tell,
    ) -> None:
        self._screen, self._cube, self._source, self._store = screen, cube, source, store
        self._executor, self._memory, self._tell = executor, memory, tell
        self._block = block_size(cube)
        self._parts = list(ranges(0, cube.n_users, part_size(cube, screen.mechanisms)))
        self._done = store.done()
        sizes = {start: stop - start for start, stop in self._parts}
        self._n_done = sum(sizes[int(name.rsplit("-", 1)[1])] for name in self._done)
        n_settings = len(screen.periods) * len(screen.group_sizes)
        self._n_rows = cube.n_users * n_settings * len(screen.mechanisms)

    def left(self, index: int, mechanisms: tuple[Mechanism, ...]) -> set[str]:
        """Return the names of what is to be done in a setting."""
        names = {
            _name(index, self._place(mechanism), start)
            for mechanism in mechanisms
            for start, _ in self._parts
        }
        return names - self._done

    def count(self, index: int, setting: ScreenSetting, mechanisms: tuple[Mechanism, ...]) -> None:
        """Count the groups of a setting, unless they are there."""
        uri, n_users = self._store.groups(index), self._cube.n_users
        if exists(f"{uri}/zarr.json"):
            return
        self._report("count")
        plan = self._screen.plan
        n_groups = plan.groups + plan.reference * any(each.noise is None for each in mechanisms)
        n_cells = (self._cube.n_rois + self._screen.null_roi) * (setting.span[1] - setting.span[0])
        width = slice_size(self._memory, n_cells, n_groups)
        n_blocks = -(-n_users // self._block)
        share = -(-n_blocks // self._executor.n_workers) * self._block
        with new_base(uri, n_groups) as writer:
            for first, last in ranges(0, n_groups, width):
                tasks = [
                    CountTask(self._source, setting, n_users, first, last, start, stop, self._block)
                    for start, stop in ranges(0, n_users, share)
                ]
                counted: GroupContributions = self._executor.reduce(count, tasks, combine)
                writer.add(first, counted, n_users)

    def score(
        self, index: int, setting: ScreenSetting, mechanisms: tuple[Mechanism, ...], left: set[str]
    ) -> None:
        """Score all blocks that are left, and keep each as it comes.

        Raises
        ------
        Exception
            The first error of a block, when all others are done.
        """
        self._report("score")
        place = self._place_of(setting)
        tasks = list(self._tasks(index, setting, mechanisms, left))
        failed = (
            "blocks of users could not be scored; the others are kept, and the same command goes "
            "on with these"
        )
        for task, scored in drain(self._executor, score, tasks, failed=failed):
            places = [self._place(mechanism) for mechanism in task.mechanisms]
            names = [_name(index, each, task.start) for each in places]
            self._store.add(scored, task.start, place, places, names)
            self._n_done += len(names) * (task.stop - task.start)
            self._report("score")

    def _tasks(
        self, index: int, setting: ScreenSetting, mechanisms: tuple[Mechanism, ...], left: set[str]
    ) -> Iterator[ScreenTask]:
        """Yield what is left, pass by pass."""
        uri, plan = self._store.groups(index), self._screen.plan
        base = open_base(uri, setting, self._source)
        n_rows, n_cells = len(base.cells), base.n_cells
        arrangement = plan_screen_resources(
            self._memory, self._cube, plan, mechanisms, n_rows=n_rows, n_cells=n_cells
        )
        for part in arrangement.passes:
            for start, stop in self._parts:
                wanted = tuple(
                    each for each in part if _name(index, self._place(each), start) in left
                )
                if wanted:
                    yield ScreenTask(
                        self._source,
                        setting,
                        uri,
                        plan,
                        wanted,
                        self._block_of(start),
                        start,
                        stop,
                        arrangement.width,
                        arrangement.kept,
                    )

    def _block_of(self, user: int) -> tuple[int, int]:
        first = user // self._block * self._block
        return first, min(first + self._block, self._cube.n_users)

    def _place(self, mechanism: Mechanism) -> int:
        return self._screen.mechanisms.index(mechanism)

    def _place_of(self, setting: ScreenSetting) -> tuple[int, int]:
        names = [name for name, _ in self._screen.periods]
        return names.index(setting.period), self._screen.group_sizes.index(setting.group_size)

    def _report(self, stage: str) -> None:
        self._tell(ScreenProgress(stage, self._n_rows, self._n_done))


def _name(index: int, mechanism: int, start: int) -> str:
    return f"{index}-{mechanism}-{start}"
