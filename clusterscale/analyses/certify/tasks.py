"""Visits: what each user changes, and whom the user may be replaced by; tasks of certificates."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from clusterscale.analyses.certify.basis import NO_LIMITS, Substitutes, Visits, needs_series
from clusterscale.analyses.certify.ceilings import Ceiling, against, ceiling
from clusterscale.analyses.certify.plan import Setting
from clusterscale.contracts import Bounds, CellCoordinates, Ints, Mechanism, Traces, TraceStep
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Source, Window, read_block
from clusterscale.cube.bounds import merge_bounds
from clusterscale.cube.transforms import with_null_roi
from clusterscale.errors import InputError
from clusterscale.mechanisms.coarsening import CoarsenSpace, CoarsenTime
from clusterscale.mechanisms.sampling import CapContributions, SampleTraces

_BITS = 21  # of each number in a key
_GROUPS = 32  # of substitutes whose visits are rounded up to the same numbers


def draws(steps: Sequence[TraceStep]) -> bool:
    """Return whether trace steps may draw random numbers."""
    return not all(isinstance(step, CoarsenSpace | CoarsenTime) for step in steps)


def visits_of(traces: Traces) -> tuple[Ints, Ints]:
    """Return what changes if a user is added, and if the user is replaced by somebody idle.

    Without a null ROI both are the events. With it, adding a user also adds the idle epochs,
    but somebody else is idle too: only active epochs differ.

    Parameters
    ----------
    traces
        Traces of some users, as they are counted.

    Returns
    -------
    tuple of ndarray
        Two arrays, int64, shape (held user, 3): cells, ROIs, and the most cells in one ROI.
    """
    n_rois = traces.n_rois
    keys = np.repeat(np.arange(traces.n_held) * n_rois, np.diff(traces.offsets))
    pairs, n_each = np.unique(keys + traces.cells // traces.n_epochs, return_counts=True)
    user, own = pairs // n_rois, np.zeros((traces.n_held, 3), np.int64)
    own[:, 0], own[:, 1] = np.diff(traces.offsets), np.bincount(user, minlength=traces.n_held)
    np.maximum.at(own[:, 2], user, n_each)
    if traces.idle is None:
        return own, own
    n_idle = traces.idle.sum(axis=1, dtype=np.int64)
    return _with_null_roi(own, n_idle), _with_null_roi(own, traces.n_epochs - n_idle)


def visits_of_any_draw(
    traces: Traces, frame: CellCoordinates, steps: Sequence[TraceStep], *, null_roi: bool
) -> tuple[Ints, Ints]:
    """Return the same for trace steps that draw, never less than for any draw.

    Events that a step may drop are counted, but at most as many as a cap keeps. A step of others
    that draws can leave anything.

    Parameters
    ----------
    traces, frame
        Traces before the steps, without a null ROI, and the coordinates of their cells.
    steps
        The trace steps.
    null_roi
        Whether idle epochs are counted afterwards.
    """
    most, is_any = np.full(traces.n_held, np.iinfo(np.int64).max), False
    for step in steps:
        rng = np.random.default_rng(0)
        before = rng.bit_generator.state
        after, coordinates = step.apply(traces, frame, rng=rng)
        if isinstance(step, CapContributions | SampleTraces):
            if isinstance(step, CapContributions):
                most = np.minimum(most, np.diff(after.offsets))  # the same number in any draw
        else:
            is_any |= rng.bit_generator.state != before
            traces, frame = after, coordinates
    own, _ = visits_of(traces)
    n_active = traces.n_epochs - with_null_roi(traces).idle_epochs.sum(axis=1, dtype=np.int64)
    if is_any:
        cells = min(traces.n_rois * traces.n_epochs, (1 << _BITS) - 1 - traces.n_epochs)
        own[:], n_active[:] = (cells, traces.n_rois, traces.n_epochs), traces.n_epochs
    else:
        own = np.minimum(own, most[:, None])
    if not null_roi:
        return own, own
    n_epochs = np.full(len(own), traces.n_epochs, np.int64)
    return _with_null_roi(own, n_epochs), _with_null_roi(own, np.minimum(n_active, own[:, 0]))


def _with_null_roi(own: Ints, n: Ints) -> Ints:
    columns = own[:, 0] + n, own[:, 1] + (n > 0), np.maximum(own[:, 2], n)
    return np.stack(columns, axis=1)


def pack(visits: Ints, *, series: bool) -> NDArray[np.int64]:
    """Return one number for each row of visits, int64, shape (user,).

    Parameters
    ----------
    visits
        int64, shape (user, 3), as :func:`visits_of` returns them.
    series
        Whether ROIs and series matter.

    Raises
    ------
    InputError
        If somebody has more than two million visits.
    """
    if visits.size and int(visits.max()) >> _BITS:
        raise InputError(f"a user changes {int(visits.max()):,} counts, more than can be certified")
    keys = visits[:, 0] << (2 * _BITS)
    return keys | visits[:, 1] << _BITS | visits[:, 2] if series else keys


def unpack(key: int, limits: Visits = NO_LIMITS) -> Visits:
    """Return the visits of a key of :func:`pack`, and of ``limits`` what is not in it."""
    mask = (1 << _BITS) - 1
    cells, rois, series = key >> (2 * _BITS), key >> _BITS & mask, key & mask
    if rois or not cells:
        return replace(limits, cells=cells, rois=rois, series=series)
    return replace(limits, cells=cells)


def cells_of(keys: Ints) -> Ints:
    """Return the cells of the visits of keys, int64, of the same shape."""
    return np.asarray(keys >> (2 * _BITS))


def substitutes_of(
    histogram: Mapping[int, int], n: int, limits: Visits = NO_LIMITS
) -> dict[int, Substitutes]:
    """Return the visits of a user drawn in the place of another, rounded up to a few numbers.

    Parameters
    ----------
    histogram
        Number of users by key, as :func:`pack` makes them.
    n
        Number of users to draw from. If these are not all others, they are those with most visits.
    limits
        What is not in keys.

    Returns
    -------
    dict
        By the key of the user who is replaced, and who cannot be drawn; empty if it is not known
        who can.
    """
    left = Counter(histogram)
    if left.total() > _GROUPS:  # then the same, whoever is replaced
        return dict.fromkeys(histogram, _most_of(left, n, limits))
    return {key: _most_of(left - Counter([key]), n, limits) for key in histogram}


def _most_of(histogram: Counter[int], n: int, limits: Visits) -> Substitutes:
    """Return the visits of one of the ``n`` users with most, rounded up to a few numbers.

    If ``n`` is less than the number of users, these bound the substitutes of each of them. Cells,
    ROIs and series are ranked separately, because a bound depends on one of them.
    """
    n_groups = min(n, _GROUPS)
    if not n_groups:
        return ()
    ends = np.arange(1, n_groups + 1) * n // n_groups
    keys, n_each = np.array(list(histogram)), np.array(list(histogram.values()))
    ranked = np.zeros(n_groups, np.int64)
    for shift in (0, _BITS, 2 * _BITS):
        column = keys >> shift & ((1 << _BITS) - 1)
        order = np.argsort(column)
        ranks = np.searchsorted(np.cumsum(n_each[order]), n_each.sum() - n + ends - 1, "right")
        ranked |= column[order][ranks] << shift
    shares = np.diff(ends, prepend=0) / n
    return tuple(
        (unpack(key, limits), share)
        for key, share in zip(ranked.tolist(), shares.tolist(), strict=True)
    )


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
    return visits_of_any_draw(traces, block.frames[0], steps, null_roi=task.source.null_roi)


@dataclass(frozen=True, slots=True, eq=False)
class VisitsSummary:
    """Number of users by key, of those added and those replaced, and limits in each release."""

    added: Counter[int]
    replaced: Counter[int]
    bounds: tuple[Bounds, ...]

    @classmethod
    def of(cls, visits: SettingVisits) -> "VisitsSummary":
        """Return the summary of some users."""
        counters = [Counter(keys.tolist()) for keys in visits.keys]
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

    def substitutes(self, n: int, limits: Visits) -> Substitutes:
        """Return visits that bound those of somebody in the place of any user.

        The other is drawn from at least ``n`` users; 0 if it is not known from whom.
        """
        return _most_of(self.replaced, n, limits)

    @property
    def least_bounds(self) -> Bounds:
        """The smallest limits of any release: noise that is scaled to them is the smallest."""
        return reduce(partial(merge_bounds, pick=min), self.bounds)


def _together(visits: Sequence[Ints]) -> Ints:
    """Return the visits of several releases together."""
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
