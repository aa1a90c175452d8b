"""The screen as an analysis: count the groups of each setting, then score all users."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from clusterscale.analyses.screening import base_groups, resources, scoring
from clusterscale.analyses.screening.plan import SCREEN, Screen, ScreenSetting
from clusterscale.contracts import Mechanism
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import block_size, ranges
from clusterscale.cube.describe import count_events
from clusterscale.models import ConfigModel, names_of
from clusterscale.schema import Variable
from clusterscale.storage import create_group, exists, list_names, remove
from clusterscale.storage.atomic import staged
from clusterscale.storage.result_table import TableStore
from clusterscale.study import Analysis, Stage, Study, each
from clusterscale.study.execution import Finished, Reduction


class ScreenAnalysis(Analysis):
    """The screen of every user of a cube: one row per user.

    The first pass over the store counts the groups. The second one scores users block by block
    against all groups; the results of each block are stored immediately.

    Parameters
    ----------
    screen
        The screen.
    """

    kind: ClassVar[str] = "screen"
    opener: ClassVar[str] = "open_screen"
    schema: ClassVar[Mapping[str, Variable]] = SCREEN
    shown: ClassVar[str] = "clusterscale.cli.analyses:show_screen"
    tables: ClassVar[Mapping[str, str]] = {"users": "auc", "groups": "n_groups"}

    def __init__(self, screen: Screen) -> None:
        self.plan = self.screen = screen
        self.seed, self.null_roi = screen.seed, screen.null_roi

    def check(self, cube: TraceCube, memory: int) -> None:
        """Raise :class:`ConfigError` or :class:`PoolError` if ``cube`` cannot answer."""
        resources.check(self.screen, cube)

    def explain(self, cube: TraceCube, memory: int, n_workers: int) -> dict[str, str]:
        """Return the number of users, rows and blocks, and the predicted cost."""
        cost = resources.predict(self.screen, cube, memory, n_workers)
        return {
            "users": f"{cube.n_users:,}",
            "rows": f"{cost.n_rows:,}",
            "blocks of users": f"{cost.n_blocks:,}",
            **cost.describe(f"{cost.n_readings} times"),
        }

    def stages(self, job: Study) -> Iterator[Stage[Any, Any]]:
        """Yield the counting and the scoring stage of each unfinished setting."""
        table = self._table(job)
        work = _Settings(self.screen, job, table)
        for index, (setting, mechanisms) in enumerate(self.screen.settings()):
            if left := work.left(index, mechanisms):
                yield from work.count(index, setting, mechanisms)
                yield work.score(index, setting, mechanisms, left)
        table.finish()
        for name in list_names(job.uri):
            if name.startswith("groups-"):
                remove(f"{job.uri}/{name}")

    def _table(self, job: Study) -> TableStore:
        screen, cube = self.screen, job.cube
        n_events = count_events(cube, tuple(span for _, span in screen.periods))[:-1]
        columns: dict[str, Any] = {
            "period": [name for name, _ in screen.periods],
            "group_size": screen.group_sizes,
            **names_of("mechanism", screen.mechanisms),
            **names_of("attack", screen.plan.attacks),
            "user": range(cube.n_users),
            "n_events": n_events.T,
            "n_seen": (n_events[:, : cube.n_known] > 0).sum(axis=1).tolist(),
        }
        settings = [
            mechanism.model_dump(mode="json")
            for mechanism in screen.mechanisms
            if isinstance(mechanism, ConfigModel)
        ]
        size, n_attacks = resources.part_size(cube, screen.mechanisms), len(screen.plan.attacks)
        about = {"mechanisms": json.dumps(settings), "confidence": scoring.CONFIDENCE}
        return self.table(job, columns, {"user": size, "attack": n_attacks}, about)


_Slice = tuple[base_groups.CountTask, ...]  # the tasks that count some groups together


def _reduce(tasks: _Slice) -> Reduction[_Slice, base_groups.CountTask, Any, Any]:
    return Reduction(tasks, tasks, base_groups.count, base_groups.combine)


class _Settings:
    """Stages of each setting of a screen."""

    def __init__(self, screen: Screen, job: Study, table: TableStore) -> None:
        self._screen, self._job, self._table, cube = screen, job, table, job.cube
        weights = any(mechanism.uses_weights for mechanism in screen.mechanisms)
        self._source = replace(job.source, weights=weights)
        self._block = block_size(cube)
        self._parts = list(ranges(0, cube.n_users, resources.part_size(cube, screen.mechanisms)))
        self._done = table.done()
        sizes = {start: stop - start for start, stop in self._parts}
        self._n_done = sum(sizes[int(name.rsplit("-", 1)[1])] for name in self._done)
        n_settings = len(screen.periods) * len(screen.group_sizes)
        self._n_rows = cube.n_users * n_settings * len(screen.mechanisms)

    def left(self, index: int, mechanisms: tuple[Mechanism, ...]) -> set[str]:
        """Return the names of the unfinished parts of a setting."""
        names = {
            _name(index, self._index_of(mechanism), start)
            for mechanism in mechanisms
            for start, _ in self._parts
        }
        return names - self._done

    def count(
        self, index: int, setting: ScreenSetting, mechanisms: tuple[Mechanism, ...]
    ) -> Iterator[Stage[Any, Any]]:
        """Yield the counting stages of a setting, slice by slice, unless its groups are stored."""
        uri, cube, source = self._groups(index), self._job.cube, self._source
        if exists(f"{uri}/zarr.json"):
            return
        plan, n_users = self._screen.plan, cube.n_users
        n_groups = plan.groups + plan.reference * any(item.noise is None for item in mechanisms)
        n_epochs = setting.span[1] - setting.span[0]
        n_cells = (cube.n_rois + self._screen.null_roi) * n_epochs
        width = resources.slice_size(
            self._job.memory, resources.most_rows(cube, n_cells, n_epochs), n_groups
        )
        n_blocks = -(-n_users // self._block)
        share = -(-n_blocks // self._job.n_workers) * self._block
        with staged(uri, force=True) as staging:
            group = create_group(staging)

            def keep(tasks: _Slice, counted: base_groups.GroupContributions) -> None:
                base_groups.write_groups(group, tasks[0].first, counted, n_groups)

            slices = list(ranges(0, n_groups, width))
            for number, (first, last) in enumerate(slices):
                tasks = tuple(
                    base_groups.CountTask(source, setting, first, last, start, stop, self._block)
                    for start, stop in ranges(0, n_users, share)
                )
                part = [tasks]  # one at a time: two might not fit into memory
                yield Stage("count", _reduce, part, each(keep), len(slices), number, by_parts=True)
            base_groups.seal_groups(group)

    def score(
        self, index: int, setting: ScreenSetting, mechanisms: tuple[Mechanism, ...], left: set[str]
    ) -> Stage[scoring.ScreenTask, scoring.Scored]:
        """Return the stage that scores all unfinished parts."""
        names = [name for name, _ in self._screen.periods]
        period, sizes = names.index(setting.period), self._screen.group_sizes
        position = period, sizes.index(setting.group_size)

        def keep(batch: Sequence[Finished[scoring.ScreenTask, scoring.Scored]]) -> None:
            for finished in batch:
                task, scored = finished.item, finished.value
                assert scored is not None
                indices = [self._index_of(mechanism) for mechanism in task.mechanisms]
                self._write(scored, task.start, position, indices)
                for i in indices:
                    self._table.mark_done(_name(index, i, task.start))
                self._n_done += _weigh(task)

        tasks = self._tasks(index, setting, mechanisms, left)
        return Stage("score", scoring.score, tasks, keep, self._n_rows, self._n_done, _weigh)

    def _tasks(
        self, index: int, setting: ScreenSetting, mechanisms: tuple[Mechanism, ...], left: set[str]
    ) -> Iterator[scoring.ScreenTask]:
        """Yield the unfinished tasks, pass by pass."""
        uri, plan, job = self._groups(index), self._screen.plan, self._job
        base = base_groups.open_groups(uri, setting, self._source)
        sizes = {"n_rows": len(base.cells), "n_cells": base.n_cells}
        way = resources.plan_screen_resources(job.memory, job.cube, plan, mechanisms, **sizes)
        make = partial(
            scoring.ScreenTask, self._source, setting, uri, plan, width=way.width, kept=way.kept
        )
        for part in way.passes:
            for start, stop in self._parts:
                unfinished = tuple(
                    mechanism
                    for mechanism in part
                    if _name(index, self._index_of(mechanism), start) in left
                )
                if unfinished:
                    first = start // self._block * self._block
                    block = first, min(first + self._block, job.cube.n_users)
                    yield make(unfinished, block, start, stop)

    def _write(
        self,
        scored: scoring.Scored,
        start: int,
        position: tuple[int, int],
        mechanisms: Sequence[int],
    ) -> None:
        """Write the results of a block; ``position``: index of the period and of the group size."""
        (period, size), array = position, self._table.array
        users = slice(start, start + len(scored.n_groups))
        array("n_groups")[users, period, size] = scored.n_groups
        for i, mechanism in enumerate(mechanisms):
            statistics = dict(zip(scoring.STATISTICS, scored.numbers[:, :, i], strict=True))
            statistics["privacy_loss"] = np.maximum(2 * statistics["auc"] - 1, 0)
            for name, values in statistics.items():
                array(name)[users, period, size, mechanism] = values

    def _groups(self, index: int) -> str:
        """Return the URI of the counted groups of a setting."""
        return f"{self._job.uri}/groups-{index}.zarr"

    def _index_of(self, mechanism: Mechanism) -> int:
        return self._screen.mechanisms.index(mechanism)


def _weigh(task: scoring.ScreenTask) -> int:
    return len(task.mechanisms) * (task.stop - task.start)


def _name(index: int, mechanism: int, start: int) -> str:
    return f"{index}-{mechanism}-{start}"
