"""What an audit takes, and how traces are distributed within the memory of workers."""

from dataclasses import dataclass, replace
from itertools import product
from math import ceil

from clusterscale.analyses.audit.plan import AuditPlan
from clusterscale.analyses.audit.settings import Period, interim_looks
from clusterscale.analyses.screening import predict as predict_screen
from clusterscale.contracts import Mechanism, Prior
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Range, block_size, ranges
from clusterscale.cube.describe import raw_bytes
from clusterscale.cube.sized import SizedCube
from clusterscale.errors import ConfigError
from clusterscale.game import N_PARTS
from clusterscale.groups import SLICE_BYTES
from clusterscale.phrases import option
from clusterscale.study import START_SECONDS, describe_bytes
from clusterscale.study.execution import MEMORY

_PROCESS = 500 * 10**6  # the interpreter, its libraries and compiled loops
_VALUE, _OFFSET = 8, 8  # bytes
_DRAWN = 48  # bytes per user while groups are drawn: all in order, shuffled, known, the rest
_READ_TIMES = 6  # copies of a block's events while they are decoded, cut and transformed
_PUBLISHED = 1.5  # times the values: the release, and intermediate values of a mechanism
_STATISTICS = 7 * _VALUE * 4  # bytes per group and ROI: the classifiers' features and copies
_KEPT = 1 - 1 / N_PARTS  # share of the groups with which attacks are trained again
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
    start = START_SECONDS + needs.read_seconds / max(1, len(users))
    times = (slowness * seconds for seconds in (total, wall, start))
    return ResourcePlan(users, why, traces, task, *times)


# The rates are processor seconds on one idle core of a Xeon of 2 cores, with numba's code compiled
# beforehand; attacks and mechanisms state their own. tests/nightly/benchmarks/explain.py compares
# predictions with measurements; measure_slowness says how many times slower this machine is.
#
# Seconds to read an event from the store, to draw a member, to look up a member's trace, to count
# one event and one idle epoch of it, and to store a count.
_READ, _DRAW, _LOOK_UP, _ADD, _IDLE, _COUNT = 3e-8, 1e-8, 4e-8, 1e-9, 1.5e-10, 5e-10
_CASE = 8e-3  # for each mechanism, attack and target, independent of size
_PUBLISH_DISCRETE = 4.6e-8  # seconds to publish a value with discrete noise
# Seconds to compute statistics of each ROI, per value (integers are faster than noise), and to
# eliminate some, per pair of training groups.
_FEATURES_OF_COUNTS, _FEATURES_OF_NOISE, _ELIMINATE = 6e-10, 6e-9, 1e-6
# Seconds to measure the utility of a value, of a mechanism or of a guess, and of a trial release.
_MEASURE, _TRY = 1.5e-7, 5e-6


class _Needs:
    """Memory that a plan needs of a worker, in bytes, and its time, in seconds for one target."""

    def __init__(self, plan: AuditPlan, cube: TraceCube) -> None:
        self._plan, self._cube = plan, cube
        tables = {mechanism.trace_steps: mechanism.n_tables for mechanism in plan.mechanisms}
        self._n_lists = sum(({(): 1} | tables).values())
        self._games = list(product(plan.periods, plan.priors))
        self.n_games = len(self._games) * len(plan.group_sizes)
        n_tables = max(mechanism.n_tables for mechanism in plan.mechanisms)
        self._n_rois = (cube.n_rois + plan.null_roi) * n_tables
        self._validates = any(attack.validates for attack in plan.attacks)
        self._weighed = any(mechanism.uses_weights for mechanism in plan.mechanisms)
        self._count_bytes = 4 + _VALUE * self._weighed

    @property
    def read_seconds(self) -> float:
        """Seconds to read all traces once."""
        return self._cube.n_events * _READ * self._n_lists

    @property
    def draw_seconds(self) -> float:
        """Seconds to draw the groups of a target."""
        n_rows = sum(self._rows(period, prior)[0] for period, prior in self._games)
        return n_rows * sum(self._plan.group_sizes) * _DRAW

    @property
    def count_seconds(self) -> float:
        """Seconds to count the groups of a target."""
        total = 0.0
        for (period, prior), size in product(self._games, self._plan.group_sizes):
            n_rows, _ = self._rows(period, prior)
            cells = self._n_rois * period.epochs
            total += n_rows * (size * self._count_one(period) + cells * _COUNT) * self._n_lists
        return total * (1 + self._weighed)  # sums of weights are added up like counts

    @property
    def train_seconds(self) -> float:
        """Seconds to publish, and to train every attack and score its challenges."""
        total, sizes = 0.0, self._plan.group_sizes
        for period, prior in self._games:
            n_studies, n_own = self._studies(prior)
            n_rows = self._rows(period, prior)[0]
            n_challenges = interim_looks(prior.n_challenges, self._plan.precision)[-1]
            n_known = n_own or max(0, n_rows - n_challenges)
            n_fits = max(1, n_studies)
            n_published = n_rows + n_studies * n_own
            cells = self._n_rois * period.epochs
            for mechanism in self._plan.mechanisms:
                one = n_published * cells * _publish_seconds(mechanism)
                one += self._attack_seconds(mechanism, n_known, n_challenges, n_fits, cells)
                total += one * len(sizes)
            synthetic = n_studies * n_own * sum(sizes) * (_DRAW + self._count_one(period))
            total += synthetic * len(self._plan.mechanisms)
        return total

    @property
    def evaluation_seconds(self) -> float:
        """Seconds to measure utility and test guarantees, once for all targets."""
        plan, total = self._plan, 0.0
        for period in plan.periods:
            values = plan.utility.groups * self._cube.n_rois * period.epochs
            one = values * _MEASURE * (1 + len(plan.mechanisms))
            n_tested = sum(mechanism.guarantee.unit != "none" for mechanism in plan.mechanisms)
            one += n_tested * plan.verdict.trials * plan.verdict.units * _TRY
            total += one * len(plan.group_sizes)
        return total

    def _attack_seconds(
        self, mechanism: Mechanism, n_known: int, n_challenges: int, n_fits: int, cells: int
    ) -> float:
        total = most = 0.0
        repeats = 1 + self._plan.control  # once more with shuffled labels
        for attack in self._plan.attacks:
            seconds, score = attack.seconds, attack.seconds.score
            if seconds.score_changed is not None and mechanism.noise is None:
                score = seconds.score_changed
            again = N_PARTS * (attack.trains and n_fits == 1)  # an adversary per release has none
            times, pairs = repeats + again * _KEPT, repeats + again * _KEPT**2
            total += _CASE * (repeats + again) * n_fits
            total += n_fits * (times * seconds.group * n_known + pairs * seconds.pair * n_known**2)
            total += times * cells * seconds.train * n_known * n_fits
            total += (repeats + again) * cells * score * n_challenges
            total += pairs * n_fits * seconds.pair_cell * n_known**2 * cells
            most = max(most, pairs if seconds.statistics else 0)
        if most:  # once for all attacks on statistics
            rate = _FEATURES_OF_NOISE if _publish_seconds(mechanism) else _FEATURES_OF_COUNTS
            total += rate * cells * (n_known * n_fits + n_challenges)
            total += most * n_fits * _ELIMINATE * n_known**2
        return total

    def _count_one(self, period: Period) -> float:
        """Seconds to count a member."""
        events = self._cube.n_events / self._cube.n_users * period.epochs / self._cube.n_epochs
        return _LOOK_UP + _ADD * events + _IDLE * period.epochs * self._plan.null_roi

    def _studies(self, prior: Prior) -> tuple[int, int]:
        return prior.studies(validate=self._validates, control=self._plan.control)

    def _n_windows(self, period: Period, prior: Prior) -> int:
        return 1 + (len(period.observed) if prior.needs_past else 0)

    def _events(self, n_users: int, n_epochs: int) -> int:
        """Events of ``n_users`` users, if they are spread evenly over users and time."""
        return ceil(
            self._cube.n_events * n_users / self._cube.n_users * n_epochs / self._cube.n_epochs
        )

    def _rows(self, period: Period, prior: Prior) -> tuple[int, int]:
        """Return the number of groups that are counted, and the largest number in memory."""
        n_past = self._n_windows(period, prior) - 1
        n_first = prior.n_rows(n_past, validate=self._validates, control=self._plan.control)
        stops = interim_looks(prior.n_challenges, self._plan.precision)
        # by the last look, the training groups are no longer in memory
        return n_first + stops[-1] - stops[0], max(n_first, stops[-1] // 2)

    def seconds_in_memory(self, n_targets: int, n_workers: int) -> tuple[float, float]:
        """Return processor seconds, and those on the cluster, if workers hold all traces."""
        n_busy = min(n_workers, n_targets * self.n_games)
        work = (self.draw_seconds + self.count_seconds + self.train_seconds) * n_targets
        work += self.read_seconds * n_busy + self.evaluation_seconds
        total = work + START_SECONDS * (1 + n_busy * (n_workers > 1))
        return total, START_SECONDS * (1 + (n_workers > 1)) + work / n_busy

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
        total += self.evaluation_seconds + START_SECONDS * (1 + n_workers)
        return total, wall + self.evaluation_seconds / n_workers + START_SECONDS * 2

    def traces(self, n_users: int) -> int:
        """Bytes of the traces of ``n_users`` users, over the period that needs most."""
        most = 0
        for period, prior in self._games:
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
        size, most = max(self._plan.group_sizes), reading
        # copies of training groups: an attack with candidates splits them to choose among them, and
        # attacks are trained again without some of them
        copies = int(any(getattr(attack, "candidates", ()) for attack in self._plan.attacks))
        copies += any(attack.trains for attack in self._plan.attacks) * (1 + self._plan.adds_noise)
        for period, prior in self._games:
            n_rows, n_first = self._rows(period, prior)
            members = max(16 * size, min(SLICE_BYTES, 8 * size * n_rows))
            drawing = _DRAWN * self._cube.n_users + 2 * members
            cells = self._n_rois * period.epochs
            one = n_first * cells * self._count_bytes
            n_own = self._studies(prior)[1]
            n_groups = n_first + n_own
            published = int(n_groups * cells * _VALUE * _PUBLISHED) * self._plan.adds_noise
            own = n_own * cells * self._count_bytes + n_groups * self._n_rois * _STATISTICS
            training = published + own + one * copies
            if parts:
                # The sum of one task, and one that arrives from another worker, are in memory while
                # the parts of the next task are counted: their sum, one part, and the new sum.
                counts = n_rows * cells * self._count_bytes * self._n_lists
                most = max(most, 5 * counts, 4 * counts + drawing, 3 * counts + training)
            else:  # two games are in memory when the second is counted
                most = max(most, one * min(2, self._n_lists) + drawing, one + training)
        return most


def _publish_seconds(mechanism: Mechanism) -> float:
    """Return the seconds to publish a value; of a chain or of tables, those of all parts."""
    steps = getattr(mechanism, "steps", getattr(mechanism, "tables", ()))
    if steps:
        return sum(_publish_seconds(step) for step in steps)
    if getattr(mechanism, "discrete", False):
        return _PUBLISH_DISCRETE
    if mechanism.trace_steps:
        return 0.0  # changes traces, not counts
    return mechanism.publish_seconds
