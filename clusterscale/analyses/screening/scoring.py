"""Score a block of users against all groups, as a pure task."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from clusterscale.analyses.screening import evidence_table
from clusterscale.analyses.screening.base_groups import BaseGroups, members_within, open_groups
from clusterscale.analyses.screening.kernels import gather, rank_targets
from clusterscale.analyses.screening.plan import ScreenPlan, ScreenSetting
from clusterscale.contracts import CellScore, Counts, Floats, Ints, Mechanism, Reference, Traces
from clusterscale.cube import pick
from clusterscale.cube.blocks import Source, open_source, read_block
from clusterscale.errors import InputError
from clusterscale.seeds import stream

STATISTICS = ("auc", "auc_low", "auc_high", "score_gap")
CONFIDENCE = 0.95

Flags = NDArray[np.bool_]
Singles = NDArray[np.float32]

_USERS = 256  # users scored together: their sums stay in cache


_CLASSES = 16  # of weights that are scored separately


def users_by_weight(
    source: Source, mechanism: Mechanism, traces: Traces
) -> Iterator[tuple[float, Ints]]:
    """Yield each weight with which users are scored, and the positions of these users.

    Parameters
    ----------
    source, mechanism
        The cube, and the mechanism that may use its weights.
    traces
        The users.

    Yields
    ------
    tuple
        The weight, 1 if none are used; and int64, shape (user,).
    """
    everyone = np.arange(traces.n_users)
    if not mechanism.uses_weights or traces.weights is None:
        yield 1.0, everyone
        return
    tops = _class_tops(source)
    which = np.searchsorted(tops, traces.weights)
    for i in np.unique(which):
        yield float(tops[i]), everyone[which == i]


@lru_cache(maxsize=2)
def _class_tops(source: Source) -> Floats:
    """Return the largest weight of each class of similar ones, increasing, float64, (class,)."""
    weights = np.unique(np.asarray(open_source(source).weights))
    if len(weights) <= _CLASSES:
        return weights
    steps = np.geomspace(weights[0], weights[-1], _CLASSES + 1)[1:]
    steps[-1] = weights[-1]
    return np.asarray(weights[np.searchsorted(weights, steps, side="right") - 1])


@dataclass(frozen=True, slots=True)
class ScreenTask:
    """A block of users to score, and the groups to score them against.

    ``block``: users that are read together; ``start`` and ``stop``: those of them that are scored;
    ``base``: URI of the setting's groups; ``width``: number of groups that are tabulated together,
    limited by memory; ``kept``: number of tables that a worker may keep for its next task.
    """

    source: Source
    setting: ScreenSetting
    base: str
    plan: ScreenPlan
    mechanisms: tuple[Mechanism, ...]
    block: tuple[int, int]
    start: int
    stop: int
    width: int
    kept: int

    @property
    def groups(self) -> range:
        """The groups that users are compared on; the moments are estimated on those after them."""
        return range(self.plan.groups)


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Results of a task.

    Attributes
    ----------
    numbers
        float32, shape (statistic, user, mechanism, attack), in the order of :data:`STATISTICS`.
    n_groups
        int16, shape (user,): groups that the user is not a member of.
    """

    numbers: Singles
    n_groups: NDArray[np.int16]


def score(task: ScreenTask) -> Scored:
    """Score the users of a block; a pure function of the task, its cube and its groups."""
    with threadpool_limits(limits=1):
        base = open_groups(task.base, task.setting, task.source)
        (block,) = read_block(task.source, [task.setting.window], *task.block)
        traces = pick(block.traces, np.arange(task.start, task.stop) - task.block[0])
        apart = _apart(task, base)
        shape = (len(STATISTICS), traces.n_users, len(task.mechanisms), len(task.plan.attacks))
        numbers = np.empty(shape, np.float32)
        for i, mechanism in enumerate(task.mechanisms):
            for weight, users in users_by_weight(task.source, mechanism, traces):
                some = pick(traces, users) if len(users) < traces.n_users else traces
                where = slice(None), users, i
                numbers[where] = _score(task, base, mechanism, some, users, apart[users], weight)
    return Scored(numbers, apart.sum(axis=1, dtype=np.int16))


def _apart(task: ScreenTask, base: BaseGroups) -> Flags:
    """Return which groups each user is not a member of, shape (user, group)."""
    span = (task.start, task.stop)
    user, group, _ = members_within(task.source, task.setting, task.groups, base.n_users, *span)
    apart = np.ones((task.stop - task.start, len(task.groups)), np.bool_)
    apart[user, group] = False
    return apart


def _score(
    task: ScreenTask,
    base: BaseGroups,
    mechanism: Mechanism,
    traces: Traces,
    users: Ints,
    apart: Flags,
    weight: float,
) -> Singles:
    """Return the statistics of one mechanism, shape (statistic, user, attack).

    ``users``: positions of these users in the task; ``weight``: theirs.
    """
    n_attacks, n_groups = len(task.plan.attacks), len(task.groups)
    z = float(scipy.special.ndtri((1 + CONFIDENCE) / 2))
    statistics = np.empty((len(STATISTICS), traces.n_users, n_attacks), np.float32)
    slices = [
        range(first, min(first + task.width, n_groups)) for first in range(0, n_groups, task.width)
    ]
    together = _USERS if len(slices) == 1 else traces.n_users  # one table per block
    for first in range(0, traces.n_users, together):
        some = slice(first, min(first + together, traces.n_users))
        sums = np.empty((some.stop - first, n_attacks, 2, n_groups), np.float32)
        start = np.empty((n_attacks, 2, n_groups))
        for groups in slices:
            prepared = _prepare(task, base, mechanism, groups, weight)
            where = (..., slice(groups.start, groups.stop))
            sums[where] = _sum(task, base, prepared, traces, some, users)
            start[..., groups.start : groups.stop] = prepared.table.start
        start -= start.mean(axis=(1, 2), keepdims=True)
        rank_targets(sums, start, apart[some], z, statistics[:, some])
    return statistics


@dataclass(frozen=True, slots=True, eq=False)
class _SeriesEvidence:
    """Evidence of the series of groups without their stand-in.

    For mechanisms in which one count changes the whole series of its ROI: transforms and ranges of
    a series cannot be tabulated by cell. But a user visits few ROIs, and only the series of these
    ROIs are published again for each user, with noise from the user's own stream.

    ``counts``: int32, shape (group, roi, epoch); ``away``: float64, shape (attack, group, roi),
    evidence of their published series for a user without events.
    """

    counts: Counts
    away: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    """Evidence of a mechanism's releases of some groups, computed once for all users."""

    mechanism: Mechanism
    key: str
    rules: list[CellScore]
    table: evidence_table.EvidenceTable
    series: _SeriesEvidence | None


_CACHE: OrderedDict[Hashable, _Prepared] = OrderedDict()


def _prepare(
    task: ScreenTask, base: BaseGroups, mechanism: Mechanism, groups: range, weight: float
) -> _Prepared:
    """Return the evidence for scoring, from the cache of this process if possible."""
    key = (task.base, task.setting, task.source, mechanism, task.plan, groups, weight)
    if key in _CACHE:
        _CACHE.move_to_end(key)
        return _CACHE[key]
    while len(_CACHE) >= task.kept:
        _CACHE.popitem(last=False)
    bound, name = mechanism.bind(base.bounds), mechanism.id
    mean_weight = open_source(task.source).mean_weight if mechanism.uses_weights else 1.0
    outside = spread = None
    if bound.noise is None:  # moments are estimated
        extra = range(task.plan.groups, task.plan.groups + task.plan.reference)
        outside, spread = evidence_table.moments(base, bound, extra, key=name)
    size = base.setting.group_size
    law, laws = bound.law_for_attacks(size), bound.table_laws(size, base.shape)
    tables = tuple(one._replace(cells=one.cells[base.cells]) for one in laws)
    how = bound.noise, outside, spread, law, (weight, mean_weight), tables
    reference = Reference(base.mean_trace, base.n_users, size, *how)
    rules = [attack.cell_score(reference) for attack in task.plan.attacks]
    revised = any(one is not None and one.revised for one in (law, *(one.law for one in laws)))
    published = evidence_table.publish(
        base, bound, groups, key=name, weight=weight, dtype=np.float64 if revised else np.float32
    )
    by_series = mechanism.noise_scope == "series"
    series = _weigh_series(base, published, rules, groups) if by_series else None
    table = evidence_table.tabulate(published, rules, base, reference.weights)
    _CACHE[key] = _Prepared(bound, name, rules, table, series)
    return _CACHE[key]


def _sum(
    task: ScreenTask,
    base: BaseGroups,
    prepared: _Prepared,
    traces: Traces,
    some: slice,
    users: Ints,
) -> Singles:
    """Return the evidence of some users' own cells, shape (user, attack, side, group)."""
    terms = prepared.table.terms
    if (base.rows[traces.cells[slice(*traces.offsets[[some.start, some.stop]])]] < 0).any():
        raise InputError("a user has an event in a cell without a row")
    total = np.empty((some.stop - some.start, terms[0].size), np.float32)
    events = traces.offsets, traces.cells, traces.idle_epochs
    gather(*events, base.rows, terms.reshape(len(terms), -1), some.start, total)
    sums = total.reshape(len(total), *terms.shape[1:])
    if prepared.series is not None:
        for i, user in enumerate(range(some.start, some.stop)):
            cells = traces.trace(user).astype(np.int64)
            index = task.start + int(users[user])
            sums[i, :, 0] = _join_series(base, prepared, prepared.series, cells, index)
    return sums


def _weigh_series(
    base: BaseGroups,
    published: evidence_table.PublishedGroups,
    rules: list[CellScore],
    groups: range,
) -> _SeriesEvidence:
    """Return the evidence of each published series by every attack's rule, in visited cells."""
    counts = np.stack([base.everywhere(some.counts) for some in base.counts(groups)])
    n_rois, n_epochs = base.shape
    away = np.zeros((len(rules), len(groups), n_rois))
    rois, first = np.unique(base.cells // n_epochs, return_index=True)
    stops = np.append(first[1:], len(base.cells))
    for roi, start, stop in zip(rois, first, stops, strict=True):
        some = np.arange(start, stop)
        values = published.absent[:, some].astype(np.float64)
        for attack, rule in enumerate(rules):
            away[attack, :, roi] = rule.total(values, some, np.zeros(len(some), np.bool_))
    return _SeriesEvidence(counts.reshape(len(groups), n_rois, n_epochs), away)


def _join_series(
    base: BaseGroups, prepared: _Prepared, series: _SeriesEvidence, cells: Ints, user: int
) -> Floats:
    """Return the change of the evidence when one user joins, shape (attack, group).

    ``cells``: sorted flat cells of the user, including those of the null ROI; ``user``: index in
    the cube, which is part of the path of the noise stream.
    """
    n_epochs = base.shape[1]
    rois = np.unique(cells // n_epochs)
    touched = (rois[:, None] * n_epochs + np.arange(n_epochs)).ravel()
    own = np.searchsorted(touched, cells)
    counts = series.counts[:, rois].copy()
    counts.reshape(len(counts), -1)[:, own] += 1
    path = ("screen noise", *base.setting.path, prepared.key, "user", user)
    size = base.setting.group_size
    rng = stream(base.source.seed, *path)
    values = prepared.mechanism.release(counts, group_size=size, rng=rng)
    released, here = values.reshape(len(values), -1), np.zeros(len(touched), np.bool_)
    here[own] = True
    known = base.rows[touched] >= 0
    if not known.all():
        released, touched, here = released[:, known], touched[known], here[known]
    change: Floats = -series.away[:, :, rois].sum(axis=2)
    for attack, rule in enumerate(prepared.rules):
        change[attack] += rule.total(released, base.rows[touched], here)
    shift: Floats = prepared.table.shift[base.rows[cells]].sum(axis=0)
    return change - shift[:, None]
