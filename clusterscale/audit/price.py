"""What defences promise, keep, and leave of the data: one task a period and group size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from clusterscale.audit.lists import SEVERAL
from clusterscale.audit.source import Setting, TraceSource, load_setting
from clusterscale.audit.verdict import Judgement, Neighbours, VerdictPlan, judge_promise
from clusterscale.contracts import (
    Bounds,
    Component,
    Count,
    Counts,
    Mechanism,
    Values,
)
from clusterscale.errors import InputError
from clusterscale.groups import count_visits
from clusterscale.mechanisms import by_steps, user_level
from clusterscale.metrics import auc_ceiling
from clusterscale.seeds import stream
from clusterscale.utility import UTILITIES, Utility, random_guess

__all__ = ["Price", "PriceKey", "PriceTask", "Promise", "UtilityPlan", "run_price"]

PriceKey = tuple[str, int]
Floats = NDArray[np.float64]

if TYPE_CHECKING:
    Measures = tuple[Utility, ...]
else:
    Measures = Annotated[tuple[UTILITIES.field(), ...], *SEVERAL]

_ANYTHING = 10**12  # visits: more than anybody can make

_USUAL = (
    "mean_relative_error",
    "busiest_relative_error",
    "hotspot_f1",
    "hotspot_tau",
    "jensen_shannon",
    "pearson",
)


class UtilityPlan(Component):
    """How to measure what is left of the data: on so many ``groups``, by these ``measures``.

    Groups are drawn at random from all users, whoever is attacked, and are the same for all
    mechanisms.
    """

    groups: Count = 10
    measures: Measures = tuple(UTILITIES.create(name) for name in _USUAL)


@dataclass(frozen=True, slots=True)
class PriceTask:
    """An address and a few numbers, as :class:`~clusterscale.audit.AuditTask` is."""

    source: TraceSource
    period: str
    group_size: int
    mechanisms: tuple[Mechanism, ...]
    utility: UtilityPlan
    verdict: VerdictPlan

    @property
    def key(self) -> PriceKey:
        """What tells this task from the others of its plan."""
        return self.period, self.group_size


@dataclass(frozen=True, slots=True)
class Promise:
    """The guarantee of a mechanism for the counts of this cube and period.

    The first five are :class:`~clusterscale.contracts.Guarantee`'s. ``sensitivity`` is what noise
    is scaled to, ``needed`` what a unit of this cube asks for: if it is more, the guarantee does
    not hold here. The rest is for all of one user (:class:`~clusterscale.mechanisms.UserLevel`),
    and the most AUC that any attack can have against it.
    """

    unit: str
    epsilon: float
    delta: float
    neighbours: str
    reason: str
    sensitivity: float
    needed: float
    user_epsilon: float
    user_delta: float
    composed_epsilon: float
    composed_delta: float
    ceiling: float


@dataclass(frozen=True, slots=True)
class Price:
    """What a :class:`PriceTask` found, or the error that ended it.

    All but ``guess`` go by the label of the mechanism. ``utility`` holds means over
    groups and standard deviations (ddof 1), one a measure, ``guess`` the means of values drawn
    without any data. A measure leaves out groups that have none, their counts being all zero.
    """

    key: PriceKey
    promises: dict[str, Promise] = field(default_factory=dict)
    judgements: dict[str, Judgement] = field(default_factory=dict)
    utility: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = field(default_factory=dict)
    guess: tuple[float, ...] = ()
    error: str = ""


def run_price(task: PriceTask) -> Price:
    """Draw groups, publish them by every mechanism and measure; a pure function of the task.

    Promises are tried on groups of their own, by
    :func:`~clusterscale.audit.verdict.judge_promise`.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read or is another one than was planned for.
    """
    with threadpool_limits(limits=1):
        bare = load_setting(task.source, ())
        members = _draw(task, bare.traces.n_users)
        raw = _count(bare, members)
        price = Price(task.key)
        for steps, mechanisms in by_steps(task.mechanisms):
            setting = load_setting(task.source, steps)
            counts = _count(setting, members) if steps else raw
            neighbours = _neighbours(task, setting)
            for mechanism in mechanisms:
                label, bound = mechanism.label, mechanism.bind(setting.bounds)
                price.promises[label] = _promise(bound, setting)
                price.judgements[label] = judge_promise(
                    bound, neighbours, task.verdict, label=label
                )
                released = _publish(task, label, bound, setting, counts)
                price.utility[label] = _measure(task.utility.measures, raw, released)
        rng = stream(task.source.seed, "random guess", *task.key)
        guesses = (random_guess(counts, group_size=task.group_size, rng=rng) for counts in raw)
        guess, _ = _measure(task.utility.measures, raw, guesses)
    return replace(price, guess=guess)


def _neighbours(task: PriceTask, setting: Setting) -> Neighbours:
    return Neighbours(
        traces=setting.traces,
        frame=setting.frames[-1],
        group_size=task.group_size,
        n_units=task.verdict.units,
        seed=task.source.seed,
        path=task.key,
    )


def _draw(task: PriceTask, n_users: int) -> list[NDArray[np.int64]]:
    rng = stream(task.source.seed, "utility groups", *task.key)
    return [
        np.sort(rng.choice(n_users, task.group_size, replace=False, shuffle=False))
        for _ in range(task.utility.groups)
    ]


def _count(setting: Setting, members: list[NDArray[np.int64]]) -> list[Counts]:
    """Return the counts of each group, shape (roi, epoch), of the setting's cells."""
    return [count_visits(setting.traces, group[None, :])[0] for group in members]


def _publish(
    task: PriceTask, label: str, mechanism: Mechanism, setting: Setting, counts: list[Counts]
) -> Iterator[Values]:
    """Yield what is published of each group, on the cells of the cube."""
    rng = stream(task.source.seed, "utility noise", *task.key, label)
    for each in counts:
        yield setting.expand(mechanism.release(each, group_size=task.group_size, rng=rng))


def _measure(
    measures: Measures, raw: list[Counts], released: Iterator[Values]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    found = np.array(
        [
            [_value(measure, *pair) for measure in measures]
            for pair in zip(raw, released, strict=True)
        ]
    )
    columns = [column[np.isfinite(column)] for column in found.T]
    mean = (float(known.mean()) if len(known) else np.nan for known in columns)
    spread = (float(known.std(ddof=1)) if len(known) > 1 else np.nan for known in columns)
    return tuple(mean), tuple(spread)


def _value(measure: Utility, raw: Counts, released: Values) -> float:
    try:
        return measure.measure(raw, released)
    except InputError:  # nobody of the group was anywhere
        return np.nan


def _promise(mechanism: Mechanism, setting: Setting) -> Promise:
    stated, user = mechanism.guarantee, user_level(mechanism, setting.bounds)
    ceilings = [float(auc_ceiling(epsilon, delta)) for epsilon, delta in user.curve]
    return Promise(
        unit=stated.unit,
        epsilon=stated.epsilon,
        delta=stated.delta,
        neighbours=stated.neighbours,
        reason=stated.reason + _proviso(mechanism, setting),
        sensitivity=stated.sensitivity,
        needed=mechanism.needed(setting.bounds),
        user_epsilon=user.epsilon,
        user_delta=user.delta,
        composed_epsilon=user.composed_epsilon,
        composed_delta=user.composed_delta,
        ceiling=min(ceilings, default=1.0),
    )


def _proviso(mechanism: Mechanism, setting: Setting) -> str:
    """Say so where the sensitivity would not do for a more active user than the cube has."""
    anyone = Bounds(
        event=setting.bounds.event,
        user_day=_ANYTHING,
        user=_ANYTHING,
        series=_ANYTHING,
        rois=_ANYTHING,
        null_roi=setting.bounds.null_roi,
    )
    for step in setting.steps:
        anyone = step.limit(anyone)
    if not mechanism.guarantee.sensitivity < mechanism.needed(anyone):
        return ""
    return "; for users no more active than those of this cube"
