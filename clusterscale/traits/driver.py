"""Find out what the exposed have in common, or go on with what was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from clusterscale.contracts import Executor, drain
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Source, ranges
from clusterscale.traits.analysis_spec import AnalysisSpec
from clusterscale.traits.comparison import CompareTask, compare
from clusterscale.traits.mobility import (
    MeasureTask,
    MobilityMeasures,
    UnicityTask,
    count_unique,
    measure,
    part_size,
    slices,
)
from clusterscale.traits.results import TraitsStore

__all__ = ["Tell", "TraitsProgress", "Work"]

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class TraitsProgress:
    """How far it has come.

    ``stage`` is ``measure`` (blocks of users), ``unicity`` (slices of time), ``compare``
    (comparisons) or ``components`` (targets).
    """

    stage: str
    n_tasks: int
    n_done: int


Tell = Callable[[TraitsProgress], None]


class Work:
    """One question, but for its views, on one executor; each part is done unless it is there.

    Parameters
    ----------
    question, cube
        What to ask, and of whom.
    source
        The address of the cube.
    store
        Where answers are kept.
    executor
        Where the work is done.
    memory
        Bytes that a worker may use; changes no result.
    tell
        Called at the start of each stage and after each task.
    """

    def __init__(
        self,
        question: AnalysisSpec,
        cube: TraceCube,
        source: Source,
        store: TraitsStore,
        executor: Executor,
        *,
        memory: int,
        tell: Tell,
    ) -> None:
        self._question, self._cube, self._source, self._store = question, cube, source, store
        self._executor, self._memory, self._tell = executor, memory, tell

    def measure(self) -> None:
        """Measure how everybody moves in each period, and who is unique when.

        Raises
        ------
        ConfigError
            If memory is short.
        Exception
            The first error of a task, when all others are done.
        """
        done, n_periods = self._store.done(), len(self._question.periods)
        left = [i for i in range(n_periods) if f"unicity-{i}" not in done]
        if not left:
            return
        spans = tuple(self._question.periods[i][1] for i in left)
        parts = ranges(0, self._cube.n_users, part_size(self._cube))
        tasks = [MeasureTask(self._source, spans, *part) for part in parts]
        sums: list[MobilityMeasures] = []
        for task, found in self._do("measure", measure, tasks):
            for period, each in zip(left, found, strict=True):
                self._store.add_movement(period, task.start, each.values)
            sums = list(map(_add, sums, found)) if sums else found
        for period, each in zip(left, sums, strict=True):
            counted = each.roi_events, each.epoch_events, each.active
            self._store.add_popularity(period, *counted)
            self._count_unique(period, each)

    def _count_unique(self, period: int, measured: MobilityMeasures) -> None:
        first, last = span = self._question.periods[period][1]
        parts = slices(
            self._cube,
            measured.active,
            span,
            memory=self._memory,
            n_workers=self._executor.n_workers,
        )
        tasks = [UnicityTask(self._source, *part) for part in parts]
        total = np.zeros(self._cube.n_users, np.int64)
        for _, found in self._do("unicity", count_unique, tasks):
            total += found
        self._store.add_unicity(period, total / (last - first))

    def compare(self) -> None:
        """Compare the most and the least exposed, once all are measured.

        Raises
        ------
        Exception
            The first error of a comparison, when all others are done.
        """
        done, tasks = self._store.done(), dict[CompareTask, int]()
        for number, exposure in enumerate(self._question.exposures):
            if f"comparison-{number}" not in done:
                place = self._question.place(exposure.period)
                span = self._question.periods[place][1]
                address = self._source, self._store.table, place, span
                tasks[CompareTask(*address, exposure, self._question.plan)] = number
        for task, found in self._do("compare", compare, list(tasks)):
            self._store.add_comparison(tasks[task], found)

    def _do(self, stage: str, function: Callable[[T], R], tasks: list[T]) -> Iterator[tuple[T, R]]:
        self._tell(TraitsProgress(stage, len(tasks), 0))
        failed = "tasks failed; what is whole is kept, and the same command goes on with the others"
        pairs = drain(self._executor, function, tasks, failed=failed)
        for n_done, pair in enumerate(pairs, 1):
            yield pair
            self._tell(TraitsProgress(stage, len(tasks), n_done))


def _add(one: MobilityMeasures, other: MobilityMeasures) -> MobilityMeasures:
    """Add what users add up to; the users themselves are no longer asked for."""
    return MobilityMeasures(
        one.values[:0],
        one.roi_events + other.roi_events,
        one.epoch_events + other.epoch_events,
        one.active + other.active,
    )
