"""Stages that measure the mobility of all users, and compare the most with the least exposed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.traits.comparison import CompareTask, ComparisonResult, compare
from clusterscale.analyses.traits.mobility import (
    MeasureTask,
    MobilityMeasures,
    UnicityTask,
    count_unique,
    measure,
    part_size,
    slices,
)
from clusterscale.analyses.traits.plan import AnalysisSpec
from clusterscale.analyses.traits.results import TraitsStore
from clusterscale.cube.blocks import ranges
from clusterscale.study import Stage, Study, each


def mobility_stages(
    spec: AnalysisSpec, job: Study, store: TraitsStore
) -> Iterator[Stage[Any, Any]]:
    """Plan the measurement of all users' mobility, then of the unicity in each period.

    Parameters
    ----------
    spec
        What is compared, in which periods.
    job
        The study: its cube, folder and memory.
    store
        Where results are written.

    Yields
    ------
    Stage
        Nothing if the store has all of it.

    Raises
    ------
    ConfigError
        If the memory is too small.
    """
    done, n_periods = store.done(), len(spec.periods)
    left = [i for i in range(n_periods) if f"unicity-{i}" not in done]
    if not left:
        return
    spans = tuple(spec.periods[i][1] for i in left)
    parts = ranges(0, job.cube.n_users, part_size(job.cube))
    tasks = [MeasureTask(job.source, spans, *part) for part in parts]
    sums: list[MobilityMeasures] = []

    def keep(task: MeasureTask, results: list[MobilityMeasures]) -> None:
        for period, measures in zip(left, results, strict=True):
            store.add_movement(period, task.start, measures.values)
        sums[:] = map(_add, sums, results) if sums else results

    yield Stage("measure", measure, tasks, each(keep), len(tasks))
    for period, total in zip(left, sums, strict=True):
        store.add_popularity(period, total.roi_events, total.epoch_events, total.active)
        yield from _unicity_stages(period, total, spec, job, store)


def _unicity_stages(
    period: int,
    measured: MobilityMeasures,
    spec: AnalysisSpec,
    job: Study,
    store: TraitsStore,
) -> Iterator[Stage[UnicityTask, NDArray[np.int64]]]:
    first, last = span = spec.periods[period][1]
    parts = slices(job.cube, measured.active, span, memory=job.memory, n_workers=job.n_workers)
    tasks = [UnicityTask(job.source, *part) for part in parts]
    total = np.zeros(job.cube.n_users, np.int64)

    def keep(_: UnicityTask, counts: NDArray[np.int64]) -> None:
        np.add(total, counts, out=total)

    yield Stage("unicity", count_unique, tasks, each(keep), len(tasks))
    store.add_unicity(period, total / (last - first))


def comparison_stage(
    spec: AnalysisSpec, job: Study, store: TraitsStore
) -> Stage[CompareTask, ComparisonResult]:
    """Return the stage that compares the most with the least exposed users in each setting.

    Parameters
    ----------
    spec, job, store
        As for :func:`mobility_stages`.

    Returns
    -------
    Stage
        Its tasks are those comparisons that the store does not have.
    """
    done, tasks = store.done(), dict[CompareTask, int]()
    for number, exposure in enumerate(spec.exposures):
        if f"comparison-{number}" not in done:
            period = spec.period_index(exposure.period)
            span = spec.periods[period][1]
            reference = job.source, store.table, period, span
            tasks[CompareTask(*reference, exposure, spec.plan)] = number

    def keep(task: CompareTask, result: ComparisonResult) -> None:
        store.add_comparison(tasks[task], result)

    n_tasks = len(spec.exposures)
    return Stage("compare", compare, list(tasks), each(keep), n_tasks, n_tasks - len(tasks))


def _add(one: MobilityMeasures, other: MobilityMeasures) -> MobilityMeasures:
    """Add the sums over users; the users' own measures are no longer needed."""
    return MobilityMeasures(
        one.values[:0],
        one.roi_events + other.roi_events,
        one.epoch_events + other.epoch_events,
        one.active + other.active,
    )
