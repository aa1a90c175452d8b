"""What an audit takes, and how traces are distributed within the memory of workers."""

from dataclasses import dataclass, replace
from math import ceil

from clusterscale.analyses.audit.plan import AuditPlan
from clusterscale.analyses.audit.workload import Workload
from clusterscale.analyses.screening import predict as predict_screen
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Range, block_size, ranges
from clusterscale.cube.describe import raw_bytes
from clusterscale.cube.sized import SizedCube
from clusterscale.errors import ConfigError
from clusterscale.groups import SLICE_BYTES
from clusterscale.phrases import option
from clusterscale.study import describe_bytes
from clusterscale.study.execution import MEMORY

_PROCESS = 500 * 10**6  # the interpreter, its libraries and compiled loops
_COUNT, _VALUE, _OFFSET = 4, 8, 8  # bytes
_DRAWN = 48  # bytes per user while groups are drawn: all in order, shuffled, known, the rest
_READ_TIMES = 6  # copies of a block's events while they are decoded, cut and transformed
_PUBLISHED = 1.5  # times the values: the release, and intermediate values of a mechanism
_STATISTICS = 7 * _VALUE * 4  # bytes per group and ROI: the classifiers' features and copies
UNSURE = 1.5
"""Factor by which a run on a quiet machine may be shorter or longer than predicted."""


@dataclass(frozen=True, slots=True)
class ResourcePlan:
    """Distribution of the traces of an audit over workers.

    Attributes
    ----------
    users
        Users that each part of a task counts: the first and the one after the last; empty if a
        worker holds the traces of all users.
    why
        The reason, as a sentence.
    trace_bytes
        Bytes of the traces that a worker keeps.
    task_bytes
        Largest memory for a task in addition to the traces.
    core_seconds
        Processor seconds of all tasks, if events are spread evenly over time.
    seconds
        Seconds on the cluster, from the start of its processes to the results.
    start_seconds
        Seconds that a worker takes to start and to read its traces.
    """

    users: tuple[Range, ...]
    why: str
    trace_bytes: int
    task_bytes: int
    core_seconds: float
    seconds: float
    start_seconds: float

    @property
    def worker_bytes(self) -> int:
        """Largest memory of a worker."""
        return _PROCESS + self.trace_bytes + self.task_bytes


@dataclass(frozen=True, slots=True)
class Cost:
    """Predicted cost of an audit.

    If the most exposed users are attacked, seconds include the screen that finds these users, and
    each of these is assumed to have an event in every period.

    Attributes
    ----------
    n_targets
        Users that are attacked.
    n_tasks
        Scheduled tasks: games, and evaluations of mechanisms.
    n_cases
        Results of the games.
    store_bytes
        Bytes of the traces; each worker reads them once, or a share of them if it holds a part of
        the users.
    resources
        Distribution over workers; its seconds are uncertain by the factor :data:`UNSURE`.
    """

    n_targets: int
    n_tasks: int
    n_cases: int
    store_bytes: int
    resources: ResourcePlan

    @property
    def seconds_range(self) -> tuple[float, float]:
        """Lower and upper estimate of the seconds on the cluster."""
        return self.resources.seconds / UNSURE, self.resources.seconds * UNSURE


def predict(
    plan: AuditPlan,
    cube: TraceCube,
    memory: int = MEMORY,
    n_workers: int = 1,
    *,
    slowness: float = 1.0,
) -> Cost:
    """Predict what an audit costs, without running anything.

    Parameters
    ----------
    plan, cube
        The audit, and the traces.
    memory
        Bytes that a worker may use.
    n_workers
        Number of workers.
    slowness
        How many times slower processors are than those on which rates were measured
        (:func:`~clusterscale.study.measure_slowness`).

    Returns
    -------
    Cost
        Tasks, results, bytes, and seconds.

    Raises
    ------
    ConfigError
        If the plan does not fit the cube, or needs more memory.
    """
    plan.check(cube)
    n_targets, n_attacked = _count_targets(plan, cube)
    resources = plan_resources(
        plan, cube, memory, n_workers, n_targets=n_targets, slowness=slowness
    )
    if plan.targets.most_exposed is not None:
        screen = predict_screen(plan.whole_screen, cube, memory, n_workers)
        resources = replace(
            resources,
            core_seconds=resources.core_seconds + slowness * screen.core_seconds,
            seconds=resources.seconds + slowness * screen.seconds,
        )
    n_games = n_attacked * len(plan.priors) * len(plan.group_sizes)
    return Cost(
        n_targets=n_targets,
        n_tasks=n_games + len(plan.periods) * len(plan.group_sizes),
        n_cases=n_games * plan.n_cases,
        store_bytes=raw_bytes(cube),
        resources=resources,
    )


def _count_targets(plan: AuditPlan, cube: TraceCube) -> tuple[int, int]:
    """Return the number of targets, and of attacks on one of them in one period."""
    n_periods = len(plan.periods)
    if isinstance(cube, SizedCube):
        n_targets = plan.targets.count(cube.n_users)
    elif plan.targets.most_exposed is not None:
        n_targets = plan.targets.n_most_exposed(cube, plan.periods)
    else:
        chosen = plan.choose(cube)
        return len(chosen.users), sum(len(chosen.attacks(i)) for i in range(n_periods))
    return n_targets, n_targets * n_periods


def plan_resources(
    plan: AuditPlan,
    cube: TraceCube,
    memory: int,
    n_workers: int,
    *,
    n_targets: int = 1,
    slowness: float = 1.0,
) -> ResourcePlan:
    """Choose how traces are distributed, so that no worker uses more than ``memory`` bytes.

    Parameters
    ----------
    plan, cube
        The audit, and the traces.
    memory
        Bytes that a worker may use.
    n_workers
        Number of workers; each gets a part of the users, if there are as many blocks of them.
    n_targets
        Number of targets; for the seconds.
    slowness
        How many times slower processors are than those on which rates were measured
        (:func:`~clusterscale.study.measure_slowness`); for the seconds.

    Returns
    -------
    ResourcePlan
        Parts of the users, bytes of a worker, and seconds.

    Raises
    ------
    ConfigError
        If ``memory`` is not enough for one block of users and the counts of one task.
    """
    needs = _Needs(plan, cube)
    traces, task = needs.traces(cube.n_users), needs.task()
    whole = _PROCESS + traces + task
    if whole <= memory:
        shares = f"{describe_bytes(whole)} of the {describe_bytes(memory)} of a worker"
        why = f"the traces of all users and a task need {shares}"
        users: tuple[Range, ...] = ()
        total, wall = needs.seconds_in_memory(n_targets, n_workers)
    else:
        size, task = block_size(cube), needs.task(parts=True)
        least = _PROCESS + needs.traces(min(size, cube.n_users)) + task
        if least > memory:
            raise ConfigError(
                f"memory: {memory:,} bytes per worker are too few: a block of "
                f"{min(size, cube.n_users):,} users and the counts of one task need "
                f"{min(least, whole):,}; give that or more with {option('memory')}"
            )
        n_blocks = -(-cube.n_users // size)
        n_fitting = (memory - _PROCESS - task) // needs.traces(size)
        n_parts = max(ceil(n_blocks / max(1, n_fitting)), min(n_workers, n_blocks))
        width = -(-n_blocks // n_parts) * size
        users, traces = tuple(ranges(0, cube.n_users, width)), needs.traces(width)
        why = (
            f"the traces of all users and a task need {describe_bytes(whole)}, more than the "
            f"{describe_bytes(memory)} of a worker: counts are summed over {len(users)} parts of "
            f"up to {width:,} users"
        )
        total, wall = needs.seconds_by_parts(n_targets, n_workers, len(users))
    start = needs.start_seconds + needs.read_seconds / max(1, len(users))
    times = (slowness * seconds for seconds in (total, wall, start))
    return ResourcePlan(users, why, traces, task, *times)


class _Needs(Workload):
    """Memory that a plan needs of a worker, in bytes, and its time, in seconds."""

    def seconds_in_memory(self, n_targets: int, n_workers: int) -> tuple[float, float]:
        """Return processor seconds, and those on the cluster, if workers hold all traces."""
        n_busy = min(n_workers, n_targets * self.n_games)
        work = (self.draw_seconds + self.count_seconds + self.train_seconds) * n_targets
        work += self.read_seconds * n_busy + self.evaluation_seconds
        total = work + self.start_seconds * (1 + n_busy * (n_workers > 1))
        return total, self.start_seconds * (1 + (n_workers > 1)) + work / n_busy

    def seconds_by_parts(self, n_targets: int, n_workers: int, n_parts: int) -> tuple[float, float]:
        """Return processor seconds, and those on the cluster, if counts are summed over parts."""
        turns = ceil(n_parts / n_workers)
        # a worker with several parts reads them again for every task
        reading = self.read_seconds * (n_targets * self.n_games if turns > 1 else 1)
        # every part draws all groups, so that all parts draw the same
        work = self.draw_seconds * n_parts + self.count_seconds + self.train_seconds
        total = work * n_targets + reading
        share = turns / n_parts
        by_part = self.draw_seconds * turns + self.count_seconds * share
        wall = n_targets * (by_part + self.train_seconds / n_workers) + reading * share
        total += self.evaluation_seconds + self.start_seconds * (1 + n_workers)
        return total, wall + self.evaluation_seconds / n_workers + self.start_seconds * 2

    def traces(self, n_users: int) -> int:
        """Bytes of the traces of ``n_users`` users, over the period that needs most."""
        most = 0
        for period, prior in self._games():
            n_epochs = self._n_windows(period, prior) * period.epochs
            idle = n_users * n_epochs * self._plan.null_roi
            events = self._events(n_users, n_epochs) * self._cube.cell_bytes
            most = max(most, events + n_users * _OFFSET * self._n_windows(period, prior) + idle)
        return self._n_lists * most

    def task(self, *, parts: bool = False) -> int:
        """Bytes that a task needs in addition to traces, by ``parts`` of the users or of all."""
        reading = (
            _READ_TIMES
            * self._cube.cell_bytes
            * self._events(min(block_size(self._cube), self._cube.n_users), self._cube.n_epochs)
        )
        size = max(self._plan.group_sizes)
        most = reading
        for period, prior in self._games():
            n_rows, n_first = self._rows(period, prior)
            members = max(16 * size, min(SLICE_BYTES, 8 * size * n_rows))
            drawing = _DRAWN * self._cube.n_users + 2 * members
            cells = self._n_rois * period.epochs
            one = n_first * cells * self._count_bytes
            n_own = self._studies(prior)[1]
            n_groups = n_first + n_own
            published = int(n_groups * cells * _VALUE * _PUBLISHED) * self._plan.adds_noise
            own = n_own * cells * self._count_bytes + n_groups * self._n_rois * _STATISTICS
            training = published + own + one * self._n_copies
            if parts:
                # The sum of one task, and one that arrives from another worker, are in memory while
                # the parts of the next task are counted: their sum, one part, and the new sum.
                counts = n_rows * cells * self._count_bytes * self._n_lists
                most = max(most, 5 * counts, 4 * counts + drawing, 3 * counts + training)
            else:  # two games are in memory when the second is counted
                most = max(most, one * min(2, self._n_lists) + drawing, one + training)
        return most

    @property
    def _count_bytes(self) -> int:
        """Bytes of a count, and of its sum of weights if a mechanism uses these."""
        weighed = any(mechanism.uses_weights for mechanism in self._plan.mechanisms)
        return _COUNT + _VALUE * weighed

    @property
    def _n_copies(self) -> int:
        """Whether an attack splits the training groups, to choose among candidates."""
        return any(getattr(attack, "candidates", ()) for attack in self._plan.attacks)
