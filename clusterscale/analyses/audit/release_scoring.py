"""Score the published release on users whose membership is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast

import numpy as np
from threadpoolctl import threadpool_limits

from clusterscale.analyses.audit.blockwise import CountsBySteps, TaskPart, add_parts, count_part
from clusterscale.analyses.audit.plan import AuditPlan
from clusterscale.analyses.audit.targets import Chosen
from clusterscale.analyses.audit.task import AuditTask, Key, set_up
from clusterscale.contracts import Bounds, Game, Ints, Mechanism, Values
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Range
from clusterscale.game import AttackEvaluation, ReleasePlacement
from clusterscale.storage import open_group
from clusterscale.study.execution import Reduction

VALUES = "values"
"""Name of the Zarr array with the published values, float64, (roi, epoch)."""


@dataclass(frozen=True, slots=True)
class PublishedTask:
    """A task of an audit under the declared mechanism, and the URI of the published values."""

    audit: AuditTask
    uri: str

    @property
    def key(self) -> Key:
        """The key of the task of the audit."""
        return self.audit.key


def list_published(
    plan: AuditPlan, cube: TraceCube, users: Ints, mechanism: Mechanism, uri: str
) -> Iterator[PublishedTask]:
    """Yield a task for each of ``users``, prior, period and group size of ``plan``.

    The adversary trains on the same groups as in the audit of the target.
    """
    chosen = Chosen(users, ("",) * len(users))
    for task in plan.tasks(cube, chosen):
        alone = replace(task, mechanisms=(mechanism,), control=False, precision=None)
        yield PublishedTask(alone, uri)


def score_published(task: PublishedTask) -> list[ReleasePlacement]:
    """Train on the groups of the audit and score the release itself; pure.

    Raises
    ------
    InputError
        If the release does not have the shape that the mechanism publishes of this cube.
    ClusterscaleError
        If the cube cannot be read, is not the planned one, or a pool is too small.
    """
    with threadpool_limits(limits=1):
        (pair,) = set_up(task.audit)
        return _score(task, *pair)


def fold_published(
    task: PublishedTask, users: Sequence[Range]
) -> Reduction[PublishedTask, TaskPart, CountsBySteps, list[ReleasePlacement]]:
    """Return :func:`score_published` as a reduction over parts of the users."""
    parts = tuple(TaskPart(task.audit, part) for part in users)
    return Reduction(task, parts, count_part, add_parts, _finish)


def _finish(task: PublishedTask, total: CountsBySteps) -> list[ReleasePlacement]:
    (counts,) = total
    with threadpool_limits(limits=1):
        return _score(task, counts.game, counts.bounds)


def _score(task: PublishedTask, game: Game, bounds: Bounds) -> list[ReleasePlacement]:
    target, period, prior, size = task.key
    (mechanism,) = task.audit.mechanisms
    evaluation = AttackEvaluation(
        game,
        mechanism,
        task.audit.attacks,
        seed=task.audit.source.seed,
        path=(period, prior, size, target),
        bounds=bounds,
        control=False,
    )
    return evaluation.score_release(_read(task.uri))


@lru_cache(maxsize=2)
def _read(uri: str) -> Values:
    values = np.asarray(open_group(uri)[VALUES][:], np.float64)
    return cast(Values, np.nan_to_num(values, nan=0.0))  # redacted cells carry no information
