"""Task of a recovery: one prior, one mechanism and some epochs, for all users and strategies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Mechanism, Values
from clusterscale.cube.blocks import Source, open_source, read_users
from clusterscale.recovery.epoch_belief import EpochBelief, Ids, by_activity
from clusterscale.recovery.errors import one_minus_f1, to_base
from clusterscale.recovery.estimates import DECISION_RULES, EstimateErrors, WeightedBelief, compare
from clusterscale.recovery.protocols import Aggregate, InferencePrior, InferenceStrategy
from clusterscale.recovery.release import ReleaseTask, publish
from clusterscale.recovery.strategies.bayes import crowd
from clusterscale.recovery.visits import Visits

__all__ = ["ALONE", "BLOCK", "Recovered", "RecoveryTask", "recover"]

BLOCK = 24
"""Number of epochs per task."""

ALONE = ("prior", "release")
"""Estimates without a strategy: the prior, and the published profile for every user."""


@dataclass(frozen=True, slots=True)
class RecoveryTask:
    """A task of a recovery; see :class:`~clusterscale.recovery.RecoveryPlan`.

    Epochs ``start`` up to ``stop`` are counted from the first inferred one.
    """

    source: Source
    first: int
    observed: int
    epochs: int
    belief: InferencePrior
    strategies: tuple[InferenceStrategy, ...]
    mechanism: Mechanism
    threshold: float
    base: float
    start: int
    stop: int

    @property
    def case(self) -> tuple[str, str]:
        """The ids of mechanism and prior."""
        return self.mechanism.id, self.belief.id


@dataclass(frozen=True, slots=True, eq=False)
class Recovered:
    """Sums over the epochs of a task.

    Users are in the order of the cube; estimates are those of :data:`ALONE` and of the strategies.

    Attributes
    ----------
    distance
        float64, shape (estimate, user): profiling errors.
    hits, told
        int32, shape (estimate, reading, user): numbers of correct and of all predicted ROIs.
    true
        int32, shape (estimate, user): number of true ROIs, the same for all estimates.
    by_epoch
        float64, shape (estimate, 1 + reading, epoch): means over users of the profiling error, and
        localization errors over the ROIs of all users.
    """

    distance: Values
    hits: NDArray[np.int32]
    told: NDArray[np.int32]
    true: NDArray[np.int32]
    by_epoch: Values

    @classmethod
    def nothing(cls, n_estimates: int, n_users: int, n_epochs: int) -> Self:
        """Return empty sums."""
        n_readings = len(DECISION_RULES)
        hits, told = (np.zeros((n_estimates, n_readings, n_users), np.int32) for _ in range(2))
        true = np.zeros((n_estimates, n_users), np.int32)
        by_epoch = np.empty((n_estimates, 1 + n_readings, n_epochs))
        return cls(np.zeros((n_estimates, n_users)), hits, told, true, by_epoch)

    def add(self, estimate: int, epoch: int, errors: EstimateErrors, base: float) -> None:
        """Add the errors of an estimate and epoch, both given by index."""
        distances = to_base(errors.distance, base)
        self.distance[estimate] += distances
        self.hits[estimate] += errors.hits
        self.told[estimate] += errors.told
        self.true[estimate] += errors.n_true
        sums = errors.hits.sum(axis=1), errors.told.sum(axis=1), errors.n_true.sum()
        self.by_epoch[estimate, :, epoch] = distances.mean(), *one_minus_f1(*sums)

    def of_users(self, place: Ids) -> Recovered:
        """Return the sums of the users with the indices ``place``."""
        return Recovered(
            self.distance[:, place],
            self.hits[:, :, place],
            self.told[:, :, place],
            self.true[:, place],
            self.by_epoch,
        )

    def plus(self, later: Recovered) -> Recovered:
        """Return the sums with those of later epochs added."""
        return Recovered(
            self.distance + later.distance,
            self.hits + later.hits,
            self.told + later.told,
            self.true + later.true,
            np.concatenate([self.by_epoch, later.by_epoch], axis=2),
        )


def recover(task: RecoveryTask) -> Recovered:
    """Infer the locations of all users and compare them with the truth; a pure function.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read or is not the planned one.
    """
    inferred = task.first + task.observed
    known = _read(task.source, (task.first, inferred + task.epochs), task.observed)
    published = publish(ReleaseTask(task.source, inferred, inferred + task.epochs, task.mechanism))
    columns = _Columns(task.belief, known.visits, task.observed)
    n_estimates = len(ALONE) + len(task.strategies)
    sums = Recovered.nothing(n_estimates, known.visits.n_users, task.stop - task.start)
    for i, epoch in enumerate(range(task.start, task.stop)):
        truth, prior = (side.column(task.observed + epoch) for side in (known.visits, columns))
        aggregate = Aggregate(published[:, epoch], known.activity)
        for j, estimate in enumerate(_estimates(prior, aggregate, task.strategies)):
            sums.add(j, i, compare(truth, estimate, task.threshold), task.base)
    return sums.of_users(known.place)


@dataclass(frozen=True, slots=True, eq=False)
class _AllVisits:
    """Visits of all users by rank; ``place`` is the rank of each user, shape (user,)."""

    visits: Visits
    activity: Ids
    place: Ids


@lru_cache(maxsize=1)
def _read(source: Source, span: tuple[int, int], observed: int) -> _AllVisits:
    """Read the visits of all users once per process, ranked by their observed reports."""
    cube = open_source(source)
    (block,) = read_users(source, [(span, ())], (0, cube.n_users))
    traces = block.traces
    reports = np.concatenate([[0], np.cumsum(traces.cells % traces.n_epochs < observed)])
    activity = reports[traces.offsets[1:]] - reports[traces.offsets[:-1]]
    order = by_activity(activity, traces.n_users)
    return _AllVisits(Visits.of(traces, order), activity[order], np.argsort(order))


class _Columns:
    """Beliefs of a prior, computed once per season."""

    def __init__(self, belief: InferencePrior, visits: Visits, observed: int) -> None:
        self._belief, self._visits, self._observed = belief, visits, observed
        self._last: tuple[int, EpochBelief] | None = None

    def column(self, epoch: int) -> EpochBelief:
        """Return the belief about an epoch."""
        season = self._belief.season(epoch)
        if self._last is None or self._last[0] != season:
            self._last = season, self._belief.column(self._visits, self._observed, epoch)
        return self._last[1]


def _estimates(
    prior: EpochBelief, aggregate: Aggregate, strategies: tuple[InferenceStrategy, ...]
) -> Iterator[WeightedBelief]:
    yield WeightedBelief(prior, np.ones(prior.n_rois), normalised=False)
    yield WeightedBelief(
        EpochBelief.of_all(prior.n_rois, prior.n_users), crowd(aggregate), normalised=True
    )
    for strategy in strategies:
        yield strategy.estimate(prior, aggregate)
