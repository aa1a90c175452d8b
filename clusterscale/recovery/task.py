"""One task of a recovery: a prior, a mechanism and some epochs, all users, all strategies."""

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
"""Epochs of a task."""

ALONE = ("prior", "release")
"""Estimates that need no strategy: what is known before, and the crowd's profile for everybody."""


@dataclass(frozen=True, slots=True)
class RecoveryTask:
    """An address and a few numbers; see :class:`~clusterscale.recovery.RecoveryPlan`.

    Epochs ``start`` up to ``stop`` are counted from the first that is inferred.
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
        int32, shape (estimate, reading, user).
    true
        int32, shape (estimate, user): the same for all.
    by_epoch
        float64, shape (estimate, 1 + reading, epoch): means over users of the profiling error, and
        localization errors of all users' ROIs together.
    """

    distance: Values
    hits: NDArray[np.int32]
    told: NDArray[np.int32]
    true: NDArray[np.int32]
    by_epoch: Values

    @classmethod
    def nothing(cls, n_estimates: int, n_users: int, n_epochs: int) -> Self:
        """Return sums to which all is still to be added."""
        n_readings = len(DECISION_RULES)
        hits, told = (np.zeros((n_estimates, n_readings, n_users), np.int32) for _ in range(2))
        true = np.zeros((n_estimates, n_users), np.int32)
        by_epoch = np.empty((n_estimates, 1 + n_readings, n_epochs))
        return cls(np.zeros((n_estimates, n_users)), hits, told, true, by_epoch)

    def add(self, estimate: int, epoch: int, found: EstimateErrors, base: float) -> None:
        """Add what was found of an estimate and epoch, both by their place."""
        errors = to_base(found.distance, base)
        self.distance[estimate] += errors
        self.hits[estimate] += found.hits
        self.told[estimate] += found.told
        self.true[estimate] += found.n_true
        sums = found.hits.sum(axis=1), found.told.sum(axis=1), found.n_true.sum()
        self.by_epoch[estimate, :, epoch] = errors.mean(), *one_minus_f1(*sums)

    def of_users(self, place: Ids) -> Recovered:
        """Return the sums of users at these places."""
        return Recovered(
            self.distance[:, place],
            self.hits[:, :, place],
            self.told[:, :, place],
            self.true[:, place],
            self.by_epoch,
        )

    def plus(self, later: Recovered) -> Recovered:
        """Add the epochs that follow."""
        return Recovered(
            self.distance + later.distance,
            self.hits + later.hits,
            self.told + later.told,
            self.true + later.true,
            np.concatenate([self.by_epoch, later.by_epoch], axis=2),
        )


def recover(task: RecoveryTask) -> Recovered:
    """Infer where everybody was, and compare with where they were; pure.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read or is another one than was planned for.
    """
    inferred = task.first + task.observed
    known = _read(task.source, (task.first, inferred + task.epochs), task.observed)
    published = publish(ReleaseTask(task.source, inferred, inferred + task.epochs, task.mechanism))
    columns = _Columns(task.belief, known.visits, task.observed)
    n_estimates = len(ALONE) + len(task.strategies)
    sums = Recovered.nothing(n_estimates, known.visits.n_users, task.stop - task.start)
    for i, epoch in enumerate(range(task.start, task.stop)):
        truth, prior = (each.column(task.observed + epoch) for each in (known.visits, columns))
        aggregate = Aggregate(published[:, epoch], known.activity)
        for j, estimate in enumerate(_estimates(prior, aggregate, task.strategies)):
            sums.add(j, i, compare(truth, estimate, task.threshold), task.base)
    return sums.of_users(known.place)


@dataclass(frozen=True, slots=True, eq=False)
class _AllVisits:
    """Everybody's visits by rank; ``place`` is the rank of each user, shape (user,)."""

    visits: Visits
    activity: Ids
    place: Ids


@lru_cache(maxsize=1)
def _read(source: Source, span: tuple[int, int], observed: int) -> _AllVisits:
    """Read the visits of all users once a process, ranked by what is observed of them."""
    cube = open_source(source)
    (block,) = read_users(source, [(span, ())], (0, cube.n_users))
    traces = block.traces
    seen = np.concatenate([[0], np.cumsum(traces.cells % traces.n_epochs < observed)])
    activity = seen[traces.offsets[1:]] - seen[traces.offsets[:-1]]
    order = by_activity(activity, traces.n_users)
    return _AllVisits(Visits.of(traces, order), activity[order], np.argsort(order))


class _Columns:
    """The columns of a prior, each season's made once."""

    def __init__(self, belief: InferencePrior, visits: Visits, observed: int) -> None:
        self._belief, self._visits, self._observed = belief, visits, observed
        self._last: tuple[int, EpochBelief] | None = None

    def column(self, epoch: int) -> EpochBelief:
        """Return the column of an epoch."""
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
