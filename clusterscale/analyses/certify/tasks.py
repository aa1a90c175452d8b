"""Tasks of certificates: count the visits of users, compute ceilings, and look them up."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from clusterscale.analyses.certify.basis import Substitutes, Visits
from clusterscale.analyses.certify.ceilings import Ceiling, against, ceiling
from clusterscale.analyses.certify.plan import Setting
from clusterscale.analyses.certify.visits import (
    draws,
    needs_series,
    pack,
    unpack,
    visits_of,
    visits_of_any_draw,
)
from clusterscale.contracts import Bounds, Ints, Mechanism
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Source, Window, read_block
from clusterscale.cube.bounds import merge_bounds
from clusterscale.mechanisms.sampling import CapContributions


@dataclass(frozen=True, slots=True)
class VisitsTask:
    """A block of users, whose visits are counted for each setting."""

    source: Source
    settings: tuple[Setting, ...]
    start: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class SettingVisits:
    """Visits of some users in a setting.

    Attributes
    ----------
    keys
        int64, shape (neighbours, user), as ``pack`` makes them:
        of users who are added, and of users who are replaced by somebody idle; one row if both
        are the same.
    bounds
        Limits of what one of them changes in each release.
    """

    keys: NDArray[np.int64]
    bounds: tuple[Bounds, ...]


def count_visits(task: VisitsTask) -> list[SettingVisits]:
    """Count the visits of the users of a block, for each setting."""
    settings, users = task.settings, (task.start, task.stop)
    windows = list(dict.fromkeys((span, one.steps) for one in settings for span in one.spans))
    blocks = dict(zip(windows, read_block(task.source, windows, *users), strict=True))
    visits = {
        window: _of_any_draw(task, window) if draws(window[1]) else visits_of(block.traces)
        for window, block in blocks.items()
    }
    found = []
    for setting in settings:
        own = [(span, setting.steps) for span in setting.spans]
        ways = [
            pack(_together([visits[window][way] for window in own]), series=setting.series)
            for way in range(1 + task.source.null_roi)
        ]
        bounds = tuple(blocks[window].bounds for window in own)
        found.append(SettingVisits(np.stack(ways), bounds))
    return found


def _of_any_draw(task: VisitsTask, window: Window) -> tuple[Ints, Ints]:
    span, steps = window
    source = replace(task.source, null_roi=False)
    (block,) = read_block(source, [(span, ())], task.start, task.stop)
    traces = replace(block.traces, first=0, population=None, weights=None)
    null_roi = task.source.null_roi
    return visits_of_any_draw(traces, block.frames[0], steps, null_roi=null_roi)


@dataclass(frozen=True, slots=True, eq=False)
class VisitsSummary:
    """Number of users by key, of those added and those replaced, and limits in each release."""

    added: Counter[int]
    replaced: Counter[int]
    bounds: tuple[Bounds, ...]

    @classmethod
    def of(cls, visits: SettingVisits) -> "VisitsSummary":
        """Return the summary of some users."""
        counters = [_count(keys) for keys in visits.keys]
        return cls(counters[0], counters[-1], visits.bounds)

    def plus(self, other: "VisitsSummary") -> "VisitsSummary":
        """Return the summary of these and other users."""
        bounds = tuple(map(merge_bounds, self.bounds, other.bounds))
        return VisitsSummary(self.added + other.added, self.replaced + other.replaced, bounds)

    def limits(self, setting: Setting, cube: TraceCube) -> Visits:
        """Return what visits of users in a setting have in common."""
        days = cube.calendar.days()
        n_days = sum(len(np.unique(days[first:stop])) for first, stop in setting.spans)
        is_capped = any(isinstance(step, CapContributions) for step in setting.steps)
        known = is_capped or not draws(setting.steps)  # else it is that of one draw
        day = max(one.user_day for one in self.bounds) if known else None
        return Visits(0, days=n_days, day=day, releases=len(setting.spans))

    @property
    def least_bounds(self) -> Bounds:
        """The smallest limits of any release: noise that is scaled to them is the smallest."""
        return reduce(partial(merge_bounds, pick=min), self.bounds)


def _count(keys: Ints) -> Counter[int]:
    values, counts = np.unique(keys, return_counts=True)
    return Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))


def _together(visits: Sequence[Ints]) -> Ints:
    """Return the visits of several releases together."""
    if len(visits) == 1:
        return visits[0]
    total = np.sum(visits, axis=0)
    total[:, 2] = np.max(visits, axis=0)[:, 2]
    return np.asarray(total)


@dataclass(frozen=True, slots=True)
class CeilingTask:
    """Ceilings of a bound mechanism for some visits and all group sizes.

    ``name``: of the file of the results; ``added`` and ``replaced``: keys of visits; ``limits``:
    what is not in keys; ``substitutes``: of each replaced key, by group size.
    """

    name: str
    mechanism: Mechanism
    group_sizes: tuple[int, ...]
    added: tuple[int, ...]
    replaced: tuple[int, ...]
    limits: Visits
    substitutes: tuple[tuple[Substitutes, ...], ...]
    rates: tuple[float, ...]


Numbers = dict[str, list[float]]  # AUC, accuracy and true positive rates, by the key of visits


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Ceilings of some visits, by group size.

    ``tight`` and ``reason`` are those of the most visits of users who are added; ``reason`` is
    empty if there are none.
    """

    added: list[Numbers]
    replaced: list[Numbers]
    tight: list[bool]
    reason: list[str]


def compute_ceilings(task: CeilingTask) -> Ceilings:
    """Return the ceilings of a task; a pure function of it."""
    last: dict[int, Ceiling] = {}

    def add(key: int, size: int) -> Ceiling:
        visits = unpack(key, task.limits)
        last[size] = ceiling(task.mechanism, n_changed=visits, group_size=size)
        return last[size]

    def replace_by(key: int, size: int) -> Ceiling:
        visits = unpack(key, task.limits)
        others = task.substitutes[task.group_sizes.index(size)][task.replaced.index(key)]
        return against(task.mechanism, visits, others, group_size=size)

    with threadpool_limits(limits=1):
        added = _tabulate(task, task.added, add)
        replaced = _tabulate(task, task.replaced, replace_by)
    return Ceilings(
        added,
        replaced,
        tight=[size in last and last[size].tight for size in task.group_sizes],
        reason=[last[size].reason if size in last else "" for size in task.group_sizes],
    )


def _tabulate(
    task: CeilingTask, keys: Sequence[int], find: Callable[[int, int], Ceiling]
) -> list[Numbers]:
    """Return the numbers of each key; 1 where fewer visits already give a person away."""
    tables: list[Numbers] = [{} for _ in task.group_sizes]
    certain = [1.0] * (2 + len(task.rates))
    by_cells = not needs_series(task.mechanism)  # then keys with more cells reveal no less
    for key in keys:
        for numbers, size in zip(tables, task.group_sizes, strict=True):
            before = next(reversed(numbers.values()), None)
            # 1 - 1e-9: an AUC above this is stated as 1
            if by_cells and before is not None and before[0] > 1 - 1e-9:
                numbers[str(key)] = certain
                continue
            one = find(key, size)
            numbers[str(key)] = [one.auc, one.accuracy, *(one.tpr(rate) for rate in task.rates)]
    return tables
