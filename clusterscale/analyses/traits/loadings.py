"""Components (loadings) of the attacks on the targets of one setting, trained as in the audit.

There is a view for every prior. A zero-knowledge adversary that retrains for each release is
viewed at the first one; a perfect one, as trained on the groups on which it is challenged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from clusterscale.analyses.audit.blockwise import CountsBySteps, TaskPart, add_parts, count_part
from clusterscale.analyses.audit.plan import AuditPlan
from clusterscale.analyses.audit.targets import Chosen
from clusterscale.analyses.audit.task import AuditTask, set_up
from clusterscale.analyses.traits.comparison import WHO
from clusterscale.analyses.traits.components import loading
from clusterscale.analyses.traits.exposure import Exposed, TargetAUCs
from clusterscale.analyses.traits.plan import TraitsPlan, View
from clusterscale.contracts import Bounds, Game, Ints, Mechanism, Values
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Range, map_cells
from clusterscale.errors import InputError
from clusterscale.game import study
from clusterscale.seeds import stream
from clusterscale.study.execution import Reduction

Single = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class LoadTask:
    """A task of an audit, under one mechanism, and the number of components."""

    audit: AuditTask
    components: int


@dataclass(frozen=True, slots=True, eq=False)
class ViewTargets:
    """The targets of a view, and their exposure."""

    view: View
    exposure: Exposed

    @property
    def users(self) -> Ints:
        """Index of each target in the cube, increasing, shape (target,)."""
        return self.exposure.users

    def groups(self, share: float) -> NDArray[np.bool_]:
        """Return membership in each of ``WHO``, bool, shape (who, target).

        Both sides are empty if there are too few targets for two.
        """
        members = np.zeros((len(WHO), len(self.users)), np.bool_)
        members[0] = True
        try:
            for row, side in enumerate(self.exposure.sides(share), 1):
                members[row, side] = True
        except InputError:
            pass
        return members


def list_views(
    plan: AuditPlan, exposures: Sequence[TargetAUCs], how: TraitsPlan
) -> list[ViewTargets]:
    """Return the views: every period × prior × group size with finished targets.

    Views are of raw counts if the audit has the mechanism ``exact``, else of its first mechanism.
    Exposure is that of an attack that shows loadings, as ``spectral`` does, if one is in the audit,
    else of the attack with the highest mean AUC, the first of equals.
    """
    mechanism, cases_of = _mechanism(plan).id, dict[View, list[TargetAUCs]]()
    for case in exposures:
        if case.source == "audit" and case.mechanism == mechanism:
            view = View(case.period, case.prior, case.group_size, mechanism)
            cases_of.setdefault(view, []).append(case)
    views = []
    for view, cases in cases_of.items():
        exposed = [(case.attack, case.read()) for case in cases]
        exposed = [pair for pair in exposed if len(pair[1].users)]
        if exposed:
            shown = {attack.id for attack in plan.attacks if attack.shows_loadings}
            _, chosen = max(exposed, key=lambda pair: (pair[0] in shown, pair[1].auc.mean()))
            views.append(_thin(ViewTargets(view, chosen), how.targets, plan.seed))
    return views


def _thin(targets: ViewTargets, most: int, seed: int) -> ViewTargets:
    """Draw ``most`` of the targets, if there are more."""
    if len(targets.users) <= most:
        return targets
    rng = stream(seed, "traits", "targets")
    some = np.sort(rng.choice(len(targets.users), most, replace=False))
    return ViewTargets(targets.view, targets.exposure.take(some))


def _mechanism(plan: AuditPlan) -> Mechanism:
    return next((one for one in plan.mechanisms if one.name == "exact"), plan.mechanisms[0])


def tasks_of(
    targets: ViewTargets, plan: AuditPlan, cube: TraceCube, how: TraitsPlan
) -> list[LoadTask]:
    """Return a task for each target of a view, in order."""
    chosen = Chosen(targets.users, ("",) * len(targets.users))
    period = next(period.id for period in plan.periods if period.name == targets.view.period)
    setting = period, targets.view.prior, targets.view.group_size
    one = {"mechanisms": (_mechanism(plan),), "control": False, "precision": None}
    return [
        LoadTask(replace(task, **one), how.components)  # type: ignore[arg-type]
        for task in plan.tasks(cube, chosen)
        if task.key[1:] == setting
    ]


def load(task: LoadTask) -> Single:
    """Return the loading of each cell in the attack on a target, float32, shape (roi, epoch); pure.

    The training groups are exactly those of the audit.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read, is not the planned one, or a pool is too small.
    """
    with threadpool_limits(limits=1):
        (pair,) = set_up(task.audit)
        return _load(task, *pair)


def fold_loading(
    task: LoadTask, users: Sequence[Range]
) -> Reduction[LoadTask, TaskPart, CountsBySteps, Single]:
    """Return :func:`load` as a reduction over parts of the users."""
    parts = tuple(TaskPart(task.audit, part) for part in users)
    return Reduction(task, parts, count_part, add_parts, _finish)


def _finish(task: LoadTask, total: CountsBySteps) -> Single:
    (counts,) = total
    with threadpool_limits(limits=1):
        return _load(task, counts.game, counts.bounds)


def _load(task: LoadTask, game: Game, bounds: Bounds) -> Single:
    target, period, prior, size = task.audit.key
    (mechanism,), source = task.audit.mechanisms, task.audit.source
    path = period, prior, size, target
    training = study(game, mechanism, seed=source.seed, path=path, bounds=bounds).training
    weights = loading(training.release.flat, training.labels, components=task.components)
    values = weights.reshape(training.release.values.shape[1:])
    if mechanism.trace_steps:
        values = map_cells(source, mechanism.trace_steps).expand(values)
    return values.astype(np.float32)


class Sums:
    """Sums of loadings: they arrive in any order, and are added in that of the targets."""

    def __init__(self, members: NDArray[np.bool_]) -> None:
        self._members, self._next = members, 0
        self._waiting = dict[int, Single]()
        self._total: Any = 0.0

    def add(self, place: int, values: Single) -> None:
        """Add the loading of the target at position ``place``, once all before it have arrived."""
        self._waiting[place] = values
        for ready in self._ready():
            weights = self._members[:, self._next].astype(np.float64)
            self._total = self._total + weights[:, None, None] * ready
            self._next += 1

    def _ready(self) -> Iterator[Single]:
        while self._next in self._waiting:
            yield self._waiting.pop(self._next)

    def means(self) -> tuple[list[int], Values]:
        """Return the size of each group, and its mean loading, shape (who, roi, epoch)."""
        numbers = self._members.sum(axis=1)
        weights = np.where(numbers > 0, numbers, np.nan)
        return numbers.tolist(), self._total / weights[:, None, None]
