"""Games of a task whose traces exceed a worker's memory: counts summed over parts of the users.

Every part draws the same groups and counts only its own users. Counts are integers, and weights
are rounded so that sums of them are exact, so the sum of all parts equals the counts of a worker
that holds all users, bit for bit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from clusterscale.analyses.audit.task import AuditTask, play_games, set_up
from clusterscale.contracts import Bounds, Game, GroupSample, Ints
from clusterscale.cube.blocks import Range
from clusterscale.cube.bounds import merge_bounds
from clusterscale.game import Outcome
from clusterscale.study.execution import Part, R, Reduction


@dataclass(frozen=True, slots=True, eq=False)
class BlockCounts:
    """Counts of some users in one game.

    Attributes
    ----------
    game
        Without the challenges that may be added later.
    bounds
        Largest change of the counts by one unit of data of these users.
    spare
        All challenges that may be added later, in order; None if there are none.
    """

    game: Game
    bounds: Bounds
    spare: GroupSample | None

    def plus(self, other: "BlockCounts") -> "BlockCounts":
        """Add the counts of the users that follow these."""
        spare = self.spare
        if spare is not None and other.spare is not None:
            spare = spare.plus(other.spare)
        bounds = merge_bounds(self.bounds, other.bounds)
        return BlockCounts(self.game.plus(other.game), bounds, spare)


CountsBySteps = tuple[BlockCounts, ...]
_R = TypeVar("_R", covariant=True)


def fold_task(
    task: AuditTask, users: Sequence[Range]
) -> Reduction[AuditTask, Part[AuditTask], CountsBySteps, list[Outcome]]:
    """Return ``run_task`` as a reduction over parts of the users."""
    parts = tuple(Part(task, part) for part in users)
    return Reduction(task, parts, count_part, add_parts, finish_task)


def count_part(part: Part[AuditTask]) -> CountsBySteps:
    """Count some users in the games of a task, one game for each list of trace steps.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read, is not the planned one, or a pool is too small.
    """
    n_more = part.task.looks[-1] - part.task.looks[0]
    with threadpool_limits(limits=1):
        return tuple(
            BlockCounts(replace(game, more=None), bounds, game.more(n_more) if game.more else None)
            for game, bounds in set_up(part.task, part.users)
        )


def add_parts(one: CountsBySteps, other: CountsBySteps) -> CountsBySteps:
    """Add the counts of two ranges of users; ``other`` follows ``one``."""
    return tuple(mine.plus(theirs) for mine, theirs in zip(one, other, strict=True))


def finish_task(task: AuditTask, total: CountsBySteps) -> list[Outcome]:
    """Train and challenge the attacks, on the summed counts of all users."""
    games = ((replace(part.game, more=_serve(part.spare)), part.bounds) for part in total)
    with threadpool_limits(limits=1):
        return play_games(task, games)


class GameTask(Protocol[_R]):
    """A task that is computed from the one game of an audit's task under one mechanism."""

    @property
    def audit(self) -> AuditTask:
        """The task of the audit."""

    def play(self, game: Game, bounds: Bounds) -> _R:
        """Return the result; ``bounds``: the largest change of counts by one unit of data."""


def play_whole(task: GameTask[R]) -> R:
    """Set up the game of a task and play it; pure.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read, is not the planned one, or a pool is too small.
    """
    with threadpool_limits(limits=1):
        (pair,) = set_up(task.audit)
        return task.play(*pair)


def fold_play(
    task: GameTask[R], users: Sequence[Range]
) -> Reduction[GameTask[R], Part[AuditTask], CountsBySteps, R]:
    """Return :func:`play_whole` as a reduction over parts of the users."""
    parts = tuple(Part(task.audit, part) for part in users)
    return Reduction(task, parts, count_part, add_parts, _finish_play)


def _finish_play(task: GameTask[R], total: CountsBySteps) -> R:
    (counts,) = total
    with threadpool_limits(limits=1):
        return task.play(counts.game, counts.bounds)


def _serve(spare: GroupSample | None) -> Callable[[int], GroupSample] | None:
    """Return a function that hands out groups in the order in which they were drawn."""
    if spare is None:
        return None
    n_served = 0

    def more(n_groups: int) -> GroupSample:
        nonlocal n_served
        rows: Ints = np.arange(n_served, n_served + n_groups)
        n_served += n_groups
        return spare.take(rows)

    return more
