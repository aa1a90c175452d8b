"""Tasks of a recovery: a release of all users; and one prior, mechanism and some epochs of it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.recovery import estimates
from clusterscale.analyses.recovery.epoch_belief import EpochBelief, Ids, Visits, by_activity
from clusterscale.analyses.recovery.plan import RecoveryPlan
from clusterscale.analyses.recovery.strategies import count_users
from clusterscale.contracts import Bounds, CellCoordinates, Counts, Mechanism, Values
from clusterscale.cube.blocks import Source, Window, expand, open_source, read_users
from clusterscale.groups import count_visits
from clusterscale.mechanisms.base import Exact
from clusterscale.seeds import stream
from clusterscale.utility import mean_relative_error


@dataclass(frozen=True, slots=True)
class ReleaseTask:
    """Task to release all users of a cube in the epochs ``first`` up to ``stop``."""

    source: Source
    first: int
    stop: int
    mechanism: Mechanism


@lru_cache(maxsize=4)
def publish(task: ReleaseTask) -> Values:
    """Return a mechanism's release of all users of a cube, on the cells of the cube.

    The values are the same in every task: the noise has its own random stream.

    Returns
    -------
    float64, shape (roi, epoch)
        The last ROI is the null ROI.
    """
    source, span, mechanism = task.source, (task.first, task.stop), task.mechanism
    counts, bounds, frames = _count(source, (span, mechanism.trace_steps))
    rng = stream(source.seed, "recovery", *span, mechanism.id)
    n_users = open_source(source).n_users
    values = mechanism.bind(bounds).release(counts, group_size=n_users, rng=rng)
    return expand(values, mechanism.trace_steps, frames)


def measure(task: ReleaseTask) -> float:
    """Return the mean relative error of a release (PETS17 eq. 17).

    The floor is 0.1 % of the total count of an epoch, which reproduces PETS17's tables 3 to 5. ROIs
    without visits are excluded.
    """
    raw, released = publish(replace(task, mechanism=Exact())), publish(task)
    visited = raw.any(axis=1)
    return mean_relative_error(raw[visited].T, released[visited].T)


@lru_cache(maxsize=4)
def _count(source: Source, window: Window) -> tuple[Counts, Bounds, tuple[CellCoordinates, ...]]:
    """Count all users of a cube, once for all mechanisms with the same trace steps."""
    n_users = open_source(source).n_users
    (block,) = read_users(source, [window], (0, n_users))
    counts = count_visits(block.traces, np.arange(n_users)[None])[0]
    return counts, block.bounds, block.frames


BLOCK = 24
"""Number of epochs per task."""

BASELINES = ("prior", "release")
"""Estimates without a strategy: the prior, and the published profile for every user."""


@dataclass(frozen=True, slots=True)
class RecoveryTask:
    """A task of a recovery; see :class:`~clusterscale.analyses.recovery.RecoveryPlan`.

    Epochs ``start`` up to ``stop`` are counted from the first inferred one.
    """

    source: Source
    plan: RecoveryPlan
    mechanism: Mechanism
    prior: estimates.InferencePrior
    start: int
    stop: int

    @property
    def case(self) -> tuple[str, str]:
        """The ids of mechanism and prior."""
        return self.mechanism.id, self.prior.id


class Recovered(NamedTuple):
    """Sums over the epochs of a task.

    Users are in the order of the cube; estimates are :data:`BASELINES`, then those of strategies.

    Attributes
    ----------
    distance
        float64, shape (estimate, user): profiling errors.
    hits, predicted
        int32, shape (estimate, reading, user): numbers of correct and of all predicted ROIs.
    true
        int32, shape (estimate, user): number of true ROIs, the same for all estimates.
    by_epoch
        float64, shape (estimate, 1 + reading, epoch): means over users of the profiling error, and
        localization errors over the ROIs of all users.
    """

    distance: NDArray[Any]
    hits: NDArray[Any]
    predicted: NDArray[Any]
    true: NDArray[Any]
    by_epoch: NDArray[Any]

    @classmethod
    def zeros(cls, n_estimates: int, n_users: int, n_epochs: int) -> Self:
        """Return empty sums."""
        n_readings = len(estimates.DECISION_RULES)
        hits, predicted = (np.zeros((n_estimates, n_readings, n_users), np.int32) for _ in range(2))
        true = np.zeros((n_estimates, n_users), np.int32)
        by_epoch = np.empty((n_estimates, 1 + n_readings, n_epochs))
        return cls(np.zeros((n_estimates, n_users)), hits, predicted, true, by_epoch)

    def add(self, estimate: int, epoch: int, errors: estimates.EstimateErrors, base: float) -> None:
        """Add the errors of an estimate and epoch, both given by index."""
        distances = estimates.to_base(errors.distance, base)
        self.distance[estimate] += distances
        self.hits[estimate] += errors.hits
        self.predicted[estimate] += errors.predicted
        self.true[estimate] += errors.n_true
        sums = errors.hits.sum(axis=1), errors.predicted.sum(axis=1), errors.n_true.sum()
        self.by_epoch[estimate, :, epoch] = distances.mean(), *estimates.one_minus_f1(*sums)

    def of_users(self, users: Ids) -> "Recovered":
        """Return the sums of the users with these indices."""
        return Recovered._make([*(sums[..., users] for sums in self[:4]), self.by_epoch])

    def plus(self, later: "Recovered") -> "Recovered":
        """Return the sums with those of later epochs added."""
        sums = (one + other for one, other in zip(self[:4], later[:4], strict=True))
        by_epoch = np.concatenate([self.by_epoch, later.by_epoch], axis=2)
        return Recovered._make([*sums, by_epoch])


def recover(task: RecoveryTask) -> Recovered:
    """Infer the locations of all users and compare them with the truth; a pure function."""
    plan = task.plan
    visits, activity, rank = _read(task.source, plan.span, plan.observed)
    published = publish(ReleaseTask(task.source, *plan.inferred, task.mechanism))
    last: tuple[int, EpochBelief] | None = None  # season and belief
    n_estimates = len(BASELINES) + len(plan.strategies)
    sums = Recovered.zeros(n_estimates, visits.n_users, task.stop - task.start)
    for i, epoch in enumerate(range(task.start, task.stop)):
        at = plan.observed + epoch
        truth, season = visits.truth(at), task.prior.season(at)
        if last is None or last[0] != season:
            last = season, task.prior.belief(visits, plan.observed, at)
        aggregate = estimates.Aggregate(published[:, epoch], activity)
        for j, estimate in enumerate(_estimates(last[1], aggregate, plan.strategies)):
            sums.add(j, i, estimates.compare(truth, estimate, plan.threshold), plan.log_base)
    return sums.of_users(rank)


@lru_cache(maxsize=1)
def _read(source: Source, span: tuple[int, int], observed: int) -> tuple[Visits, Ids, Ids]:
    """Read the visits of all users once per process, ranked by their observed reports.

    Returns visits and reports by rank, and the rank of each user.
    """
    (block,) = read_users(source, [(span, ())], (0, open_source(source).n_users))
    traces = block.traces
    reports = np.concatenate([[0], np.cumsum(traces.cells % traces.n_epochs < observed)])
    activity = reports[traces.offsets[1:]] - reports[traces.offsets[:-1]]
    order = by_activity(activity, traces.n_users)
    return Visits.of(traces, order), activity[order], np.argsort(order)


def _estimates(
    prior: EpochBelief,
    aggregate: estimates.Aggregate,
    strategies: tuple[estimates.InferenceStrategy, ...],
) -> Iterator[estimates.WeightedBelief]:
    yield estimates.WeightedBelief(prior, np.ones(prior.n_rois), normalised=False)
    yield estimates.WeightedBelief(
        EpochBelief.of_all(prior.n_rois, prior.n_users), count_users(aggregate), normalised=True
    )
    for strategy in strategies:
        yield strategy.estimate(prior, aggregate)
