"""Where attacks look: the components of the targets of one setting, as the audit trained on them.

Every prior has its view. An adversary with zero knowledge who studies each release anew is looked
at as it studies the first; a perfect one, as it trains on the groups that it is asked about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from clusterscale.audit.blockwise import Deals, TaskPart, add_parts, count_part
from clusterscale.audit.plan import AuditPlan
from clusterscale.audit.source import map_cells
from clusterscale.audit.targets import Chosen
from clusterscale.audit.task import AuditTask, set_up
from clusterscale.contracts import Bounds, Game, Ints, Mechanism, Reduction, Values
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Range
from clusterscale.errors import InputError
from clusterscale.game import study
from clusterscale.seeds import stream
from clusterscale.traits import WHO, Exposed, TargetAUCs, TraitsPlan, View, loading

__all__ = [
    "LoadTask",
    "Single",
    "Sums",
    "ViewTargets",
    "fold_loading",
    "list_seen",
    "load",
    "tasks_of",
]

_PREFERRED = "spectral"

Single = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class LoadTask:
    """A task of an audit, under one mechanism, and how many components count."""

    audit: AuditTask
    components: int


@dataclass(frozen=True, slots=True, eq=False)
class ViewTargets:
    """The targets of a view, and how exposed they are."""

    view: View
    told: Exposed

    @property
    def users(self) -> Ints:
        """Index of each target in the cube, increasing, shape (target,)."""
        return self.told.users

    def groups(self, share: float) -> NDArray[np.bool_]:
        """Return who is in each of :data:`~clusterscale.traits.WHO`, shape (who, target).

        Neither side has anybody where targets are too few for two.
        """
        members = np.zeros((len(WHO), len(self.users)), np.bool_)
        members[0] = True
        try:
            for row, side in enumerate(self.told.sides(share), 1):
                members[row, side] = True
        except InputError:
            pass
        return members


def list_seen(
    plan: AuditPlan, exposures: Sequence[TargetAUCs], how: TraitsPlan
) -> list[ViewTargets]:
    """Return what is to be viewed: every period × prior × group size with finished targets.

    Counts are bare where the audit played ``exact``; else they are published by its first
    mechanism. Exposure is told by the spectral attack, whose components these are, where it was
    played, else by the attack of highest mean AUC, the first of equals.
    """
    mechanism, found = _mechanism(plan).id, dict[View, list[TargetAUCs]]()
    for each in exposures:
        if each.source == "audit" and each.mechanism == mechanism:
            view = View(each.period, each.prior, each.group_size, mechanism)
            found.setdefault(view, []).append(each)
    seen = []
    for view, cases in found.items():
        told = [(case.attack, case.read()) for case in cases]
        told = [each for each in told if len(each[1].users)]
        if told:
            spectral = {each.id for each in plan.attacks if each.name == _PREFERRED}
            _, chosen = max(told, key=lambda each: (each[0] in spectral, each[1].auc.mean()))
            seen.append(_thin(ViewTargets(view, chosen), how.targets, plan.seed))
    return seen


def _thin(seen: ViewTargets, most: int, seed: int) -> ViewTargets:
    """Draw some of the targets, where there are more."""
    if len(seen.users) <= most:
        return seen
    rng = stream(seed, "traits", "targets")
    some = np.sort(rng.choice(len(seen.users), most, replace=False))
    return ViewTargets(seen.view, seen.told.take(some))


def _mechanism(plan: AuditPlan) -> Mechanism:
    return next((each for each in plan.mechanisms if each.name == "exact"), plan.mechanisms[0])


def tasks_of(
    seen: ViewTargets, plan: AuditPlan, cube: TraceCube, how: TraitsPlan
) -> list[LoadTask]:
    """Return a task for each target of a view, in their order."""
    chosen = Chosen(seen.users, ("",) * len(seen.users))
    period = next(each.id for each in plan.periods if each.name == seen.view.period)
    wanted = period, seen.view.prior, seen.view.group_size
    one = {"mechanisms": (_mechanism(plan),), "control": False, "precision": None}
    return [
        LoadTask(replace(task, **one), how.components)  # type: ignore[arg-type]
        for task in plan.tasks(cube, chosen)
        if task.key[1:] == wanted
    ]


def load(task: LoadTask) -> Single:
    """Return where the attack on a target looks, float32, shape (roi, epoch); pure.

    The training groups are those of the audit, to the last bit.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read, is another one than was planned for, or a pool is too small.
    """
    with threadpool_limits(limits=1):
        (pair,) = set_up(task.audit)
        return _look(task, *pair)


def fold_loading(
    task: LoadTask, users: Sequence[Range]
) -> Reduction[LoadTask, TaskPart, Deals, Single]:
    """Return the work of :func:`load`, by parts of the users."""
    parts = tuple(TaskPart(task.audit, each) for each in users)
    return Reduction(task, parts, count_part, add_parts, _finish)


def _finish(task: LoadTask, total: Deals) -> Single:
    (deal,) = total
    with threadpool_limits(limits=1):
        return _look(task, deal.game, deal.bounds)


def _look(task: LoadTask, game: Game, bounds: Bounds) -> Single:
    target, period, prior, size = task.audit.key
    (mechanism,), source = task.audit.mechanisms, task.audit.source
    path = period, prior, size, target
    training = study(game, mechanism, seed=source.seed, path=path, bounds=bounds).training
    found = loading(training.release.flat, training.labels, components=task.components)
    values = found.reshape(training.release.values.shape[1:])
    if mechanism.trace_steps:
        values = map_cells(source, mechanism.trace_steps).expand(values)
    return values.astype(np.float32)


class Sums:
    """Loadings that come in any order, added in the order of targets, so that sums are the same."""

    def __init__(self, members: NDArray[np.bool_]) -> None:
        self._members, self._next = members, 0
        self._waiting = dict[int, Single]()
        self._total: Any = 0.0

    def add(self, place: int, found: Single) -> None:
        """Add the loading of the target at a place, once all before it are there."""
        self._waiting[place] = found
        for ready in self._ready():
            weights = self._members[:, self._next].astype(np.float64)
            self._total = self._total + weights[:, None, None] * ready
            self._next += 1

    def _ready(self) -> Iterator[Single]:
        while self._next in self._waiting:
            yield self._waiting.pop(self._next)

    def means(self) -> tuple[list[int], Values]:
        """Return how many are in each group, and their mean loading, shape (who, roi, epoch)."""
        numbers = self._members.sum(axis=1)
        weights = np.where(numbers > 0, numbers, np.nan)
        return numbers.tolist(), self._total / weights[:, None, None]
