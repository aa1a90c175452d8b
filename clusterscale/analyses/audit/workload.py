"""Processor seconds of an audit.

The rates are processor seconds on one idle core of a Xeon of 2 cores, with numba's code compiled
beforehand; attacks and mechanisms state their own. ``tests/nightly/benchmarks/explain.py`` compares
predictions with measurements. :func:`~clusterscale.study.measure_slowness` returns how many times
slower this machine is.
"""

from collections.abc import Iterator
from itertools import product
from math import ceil

from clusterscale.analyses.audit.plan import AuditPlan
from clusterscale.analyses.audit.settings import Period, interim_looks
from clusterscale.contracts import Mechanism, Prior
from clusterscale.cube import TraceCube
from clusterscale.study import START_SECONDS

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


class Workload:
    """Processor time of a plan, in seconds of the reference machine for one target."""

    def __init__(self, plan: AuditPlan, cube: TraceCube) -> None:
        self._plan, self._cube = plan, cube
        self._n_lists = len({(), *(mechanism.trace_steps for mechanism in plan.mechanisms)})
        self.n_games = len(plan.periods) * len(plan.priors) * len(plan.group_sizes)
        self.start_seconds = START_SECONDS

    @property
    def read_seconds(self) -> float:
        """Seconds to read all traces once."""
        return self._cube.n_events * _READ * self._n_lists

    @property
    def draw_seconds(self) -> float:
        """Seconds to draw the groups of a target."""
        n_rows = sum(self._rows(period, prior)[0] for period, prior in self._games())
        return n_rows * sum(self._plan.group_sizes) * _DRAW

    @property
    def count_seconds(self) -> float:
        """Seconds to count the groups of a target."""
        total = 0.0
        for (period, prior), size in product(self._games(), self._plan.group_sizes):
            n_rows, _ = self._rows(period, prior)
            cells = self._n_rois * period.epochs
            total += n_rows * (size * self._count_one(period) + cells * _COUNT) * self._n_lists
        weighed = any(mechanism.uses_weights for mechanism in self._plan.mechanisms)
        return total * (1 + weighed)  # sums of weights are added up like counts

    @property
    def train_seconds(self) -> float:
        """Seconds to publish, and to train every attack and score its challenges."""
        total, sizes = 0.0, self._plan.group_sizes
        for period, prior in self._games():
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
        total = 0.0
        repeats = 1 + self._plan.control  # once more with shuffled labels
        for attack in self._plan.attacks:
            seconds, score = attack.seconds, attack.seconds.score
            if seconds.score_changed is not None and mechanism.noise is None:
                score = seconds.score_changed
            total += _CASE * repeats * n_fits
            total += repeats * n_fits * (seconds.group * n_known + seconds.pair * n_known**2)
            total += repeats * cells * (seconds.train * n_known * n_fits + score * n_challenges)
            total += repeats * n_fits * seconds.pair_cell * n_known**2 * cells
        if any(attack.seconds.statistics for attack in self._plan.attacks):  # once for all of these
            rate = _FEATURES_OF_NOISE if _publish_seconds(mechanism) else _FEATURES_OF_COUNTS
            total += rate * cells * (n_known * n_fits + n_challenges)
            total += repeats * n_fits * _ELIMINATE * n_known**2
        return total

    def _count_one(self, period: Period) -> float:
        """Seconds to count a member."""
        events = self._cube.n_events / self._cube.n_users * period.epochs / self._cube.n_epochs
        return _LOOK_UP + _ADD * events + _IDLE * period.epochs * self._plan.null_roi

    @property
    def _n_rois(self) -> int:
        return self._cube.n_rois + self._plan.null_roi

    @property
    def _validates(self) -> bool:
        return any(attack.validates for attack in self._plan.attacks)

    def _studies(self, prior: Prior) -> tuple[int, int]:
        return prior.studies(validate=self._validates, control=self._plan.control)

    def _games(self) -> Iterator[tuple[Period, Prior]]:
        return product(self._plan.periods, self._plan.priors)

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
        n_later = stops[-1] - stops[0]
        # by the last look, the training groups are no longer in memory
        return n_first + n_later, max(n_first, stops[-1] // 2)


def _publish_seconds(mechanism: Mechanism) -> float:
    """Return the seconds to publish a value; of a chain, those of all its steps."""
    steps = getattr(mechanism, "steps", ())
    if steps:
        return sum(_publish_seconds(step) for step in steps)
    if getattr(mechanism, "discrete", False):
        return _PUBLISH_DISCRETE
    if mechanism.trace_steps:
        return 0.0  # changes traces, not counts
    return mechanism.publish_seconds
