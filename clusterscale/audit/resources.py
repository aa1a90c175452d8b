"""How to stay within a worker's memory: everyone's traces at once, or users by the block."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from clusterscale.audit.plan import AuditPlan
from clusterscale.audit.workload import Workload
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Range, block_size, ranges
from clusterscale.errors import ConfigError
from clusterscale.groups import SLICE_BYTES
from clusterscale.study import describe_bytes

__all__ = ["ResourcePlan", "plan_resources"]

_PROCESS = 500 * 10**6  # the interpreter, its libraries and compiled loops
_COUNT, _VALUE, _OFFSET = 4, 8, 8  # bytes
_DRAWN = 48  # bytes a user while groups are drawn: everyone in order, shuffled, known, the rest
_READ_TIMES = 6  # a block's events, while they are decoded, cut and changed
_PUBLISHED = 1.5  # times the values: what is published, and what a mechanism makes on the way
_STATISTICS = 7 * _VALUE * 4  # bytes a group and ROI: the classifiers' features, and copies of them


@dataclass(frozen=True, slots=True)
class ResourcePlan:
    """How the traces of an audit are spread over workers.

    Attributes
    ----------
    users
        Whose traces each part of a task counts: the first and the one after the last; empty where
        a worker holds everyone's.
    why
        In a sentence.
    trace_bytes
        Traces that a worker keeps.
    task_bytes
        The most that it needs beside them.
    core_seconds
        Time of one processor for all tasks, if events are spread evenly over time.
    seconds
        Time of the whole cluster, from the start of its processes to the results.
    """

    users: tuple[Range, ...]
    why: str
    trace_bytes: int
    task_bytes: int
    core_seconds: float
    seconds: float

    @property
    def worker_bytes(self) -> int:
        """The most memory of a worker."""
        return _PROCESS + self.trace_bytes + self.task_bytes


def plan_resources(
    plan: AuditPlan,
    cube: TraceCube,
    memory: int,
    n_workers: int,
    *,
    n_targets: int = 1,
    slowness: float = 1.0,
) -> ResourcePlan:
    """Choose where traces are held so that no worker uses more than ``memory`` bytes.

    Parameters
    ----------
    plan, cube
        What to ask, and of whom.
    memory
        Bytes that a worker may use.
    n_workers
        How many there are; each gets a part of the users, if there are as many blocks of them.
    n_targets
        How many there are to attack; for the seconds.
    slowness
        How many times slower processors are than those on which rates were measured
        (:func:`~clusterscale.audit.workload.measure_slowness`); for the seconds.

    Raises
    ------
    ConfigError
        If ``memory`` is not enough for one block of users and the counts of one task.
    """
    needs = _Needs(plan, cube)
    seconds = needs.draw_seconds + needs.count_seconds + needs.train_seconds
    once, n_tasks = needs.price_seconds, n_targets * needs.n_games
    traces, beside = needs.traces(cube.n_users), needs.beside()
    whole = _PROCESS + traces + beside
    if whole <= memory:
        shares = f"{describe_bytes(whole)} of the {describe_bytes(memory)} of a worker"
        why = f"everyone's traces and a task need {shares}"
        n_busy = min(n_workers, n_tasks)
        work = seconds * n_targets + needs.read_seconds * n_busy + once
        total = work + needs.start_seconds * (1 + n_busy * (n_workers > 1))
        wall = needs.start_seconds * (1 + (n_workers > 1)) + work / n_busy
        return ResourcePlan((), why, traces, beside, slowness * total, slowness * wall)
    size, beside = block_size(cube), needs.beside(parts=True)
    least = _PROCESS + needs.traces(min(size, cube.n_users)) + beside
    if least > memory:
        raise ConfigError(
            f"memory: {memory:,} bytes a worker are too few: a block of "
            f"{min(size, cube.n_users):,} users and the counts of one task need "
            f"{min(least, whole):,}; give that or more with `memory`"
        )
    n_blocks = -(-cube.n_users // size)
    n_fitting = (memory - _PROCESS - beside) // needs.traces(size)
    n_parts = max(ceil(n_blocks / max(1, n_fitting)), min(n_workers, n_blocks))
    width = -(-n_blocks // n_parts) * size
    users = tuple(ranges(0, cube.n_users, width))
    why = (
        f"everyone's traces and a task need {describe_bytes(whole)}, more than the "
        f"{describe_bytes(memory)} of a worker: counts are added over {len(users)} parts of up to "
        f"{width:,} users"
    )
    turns = ceil(len(users) / n_workers)
    # a worker with several parts reads them anew for every task
    reading = needs.read_seconds * (n_targets * needs.n_games if turns > 1 else 1)
    total = (seconds + needs.draw_seconds * (len(users) - 1)) * n_targets + reading
    share = turns / len(users)  # and each part draws all groups, for who is drawn hangs on no part
    by_part = needs.draw_seconds * turns + needs.count_seconds * share
    wall = n_targets * (by_part + needs.train_seconds / n_workers) + reading * share
    total += once + needs.start_seconds * (1 + n_workers)
    wall += once / n_workers + needs.start_seconds * 2
    return ResourcePlan(users, why, needs.traces(width), beside, slowness * total, slowness * wall)


class _Needs(Workload):
    """What a plan needs of a worker, in bytes, beside what it asks of processors."""

    def traces(self, n_users: int) -> int:
        """Bytes of the traces of so many users, over the period that needs most."""
        found = 0
        for period, prior in self._games():
            n_epochs = self._n_windows(period, prior) * period.epochs
            idle = n_users * n_epochs * self._plan.null_roi
            events = self._events(n_users, n_epochs) * self._cube.cell_bytes
            found = max(found, events + n_users * _OFFSET * self._n_windows(period, prior) + idle)
        return self._n_lists * found

    def beside(self, *, parts: bool = False) -> int:
        """Bytes that a task needs beside traces; by ``parts`` of the users, or of everyone."""
        reading = (
            _READ_TIMES
            * self._cube.cell_bytes
            * self._events(min(block_size(self._cube), self._cube.n_users), self._cube.n_epochs)
        )
        size = max(self._plan.group_sizes)
        found = reading
        for period, prior in self._games():
            n_rows, n_first = self._rows(period, prior)
            members = max(16 * size, min(SLICE_BYTES, 8 * size * n_rows))
            drawing = _DRAWN * self._cube.n_users + 2 * members
            cells = self._n_rois * period.epochs
            one = n_first * cells * _COUNT
            n_own = self._studies(prior)[1]
            n_told = n_first + n_own
            published = int(n_told * cells * _VALUE * _PUBLISHED) * self._plan.adds_noise
            own = n_own * cells * _COUNT + n_told * self._n_rois * _STATISTICS
            training = published + own + one * self._n_copies
            if parts:
                # A worker's sum of one task, and another's on the way to it, wait while the parts
                # of the next task are counted: their sum so far, one more, and the sum of the two.
                held = n_rows * cells * _COUNT * self._n_lists
                found = max(found, 5 * held, 4 * held + drawing, 3 * held + training)
            else:  # two games meet when the second is counted
                found = max(found, one * min(2, self._n_lists) + drawing, one + training)
        return found

    @property
    def _n_copies(self) -> int:
        """Whether an attack takes the training groups apart, to choose among others."""
        return any(getattr(attack, "candidates", ()) for attack in self._plan.attacks)
