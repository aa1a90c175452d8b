"""The games of a task whose traces outgrow a worker: counted over parts of the users, and added.

Every part draws the same groups, whoever it holds, and counts for its own users alone. All counts
are whole numbers, so their sum is that of a worker who holds everyone, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from threadpoolctl import threadpool_limits

from clusterscale.audit.task import AuditTask, play_games, set_up
from clusterscale.contracts import Bounds, Game, GroupSample, Ints, Reduction
from clusterscale.cube.blocks import Range
from clusterscale.cube.bounds import merge_bounds
from clusterscale.game import Outcome

__all__ = ["BlockCounts", "TaskPart", "add_parts", "count_part", "finish_task", "fold_task"]


@dataclass(frozen=True, slots=True)
class TaskPart:
    """A task, and whose traces to count for it: an address and a few numbers."""

    task: AuditTask
    users: Range


@dataclass(frozen=True, slots=True, eq=False)
class BlockCounts:
    """What some users count for in one game.

    Attributes
    ----------
    game
        All but what may be asked later.
    bounds
        The most that one unit of data of these users changes the counts.
    spare
        All challenges that may be asked later, in the order of asking; None if none may be.
    """

    game: Game
    bounds: Bounds
    spare: GroupSample | None

    def plus(self, other: BlockCounts) -> BlockCounts:
        """Add what other users count for, who follow these."""
        spare = self.spare
        if spare is not None and other.spare is not None:
            spare = spare.plus(other.spare)
        bounds = merge_bounds(self.bounds, other.bounds)
        return BlockCounts(self.game.plus(other.game), bounds, spare)


Deals = tuple[BlockCounts, ...]


def fold_task(
    task: AuditTask, users: Sequence[Range]
) -> Reduction[AuditTask, TaskPart, Deals, list[Outcome]]:
    """Return the work of :func:`~clusterscale.audit.task.run_task`, by parts of the users."""
    parts = tuple(TaskPart(task, each) for each in users)
    return Reduction(task, parts, count_part, add_parts, finish_task)


def count_part(part: TaskPart) -> Deals:
    """Count what some users are in the games of a task, one for each list of trace steps.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read, is another one than was planned for, or a pool is too small.
    """
    n_more = part.task.stops[-1] - part.task.stops[0]
    with threadpool_limits(limits=1):
        return tuple(
            BlockCounts(replace(game, more=None), bounds, game.more(n_more) if game.more else None)
            for game, bounds in set_up(part.task, part.users)
        )


def add_parts(one: Deals, other: Deals) -> Deals:
    """Add what two ranges of users count for, of whom the others follow."""
    return tuple(mine.plus(theirs) for mine, theirs in zip(one, other, strict=True))


def finish_task(task: AuditTask, total: Deals) -> list[Outcome]:
    """Train and ask, once what all users count for is added."""
    games = ((replace(deal.game, more=_serve(deal.spare)), deal.bounds) for deal in total)
    with threadpool_limits(limits=1):
        return play_games(task, games)


def _serve(spare: GroupSample | None) -> Callable[[int], GroupSample] | None:
    """Return what hands out groups in order, as drawing them would."""
    if spare is None:
        return None
    n_served = 0

    def more(n_groups: int) -> GroupSample:
        nonlocal n_served
        rows: Ints = np.arange(n_served, n_served + n_groups)
        n_served += n_groups
        return spare.take(rows)

    return more
