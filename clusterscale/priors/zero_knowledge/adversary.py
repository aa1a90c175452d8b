"""The zero-knowledge adversary, with only a release and information on the target."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints, Knowledge, Mechanism, Release, Values
from clusterscale.priors.auxiliary import AuxiliaryDataAdversary
from clusterscale.priors.zero_knowledge.activity import ActivityLaw
from clusterscale.priors.zero_knowledge.graph import Graph
from clusterscale.priors.zero_knowledge.marginals import Correction, estimate_marginals
from clusterscale.priors.zero_knowledge.moment_matching import explain
from clusterscale.priors.zero_knowledge.reference_population import (
    PoissonCounts,
    ReferencePopulation,
    SyntheticUsers,
)
from clusterscale.priors.zero_knowledge.synthesis import SyntheticPopulation
from clusterscale.priors.zero_knowledge.target_information import TargetInformation
from clusterscale.priors.zero_knowledge.time_factors import mix_rhythms

__all__ = ["SimulationSettings", "ZeroKnowledgeAdversary"]


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """Settings for studying a release: numbers of synthetic users and groups, and options.

    ``reference`` is the number of synthetic users, None if only counts are simulated; ``training``
    and ``validation`` are numbers of groups. ``rank`` is the number of mixed daily rhythms, 0 for
    none.
    """

    reference: int | None
    training: int
    validation: int
    paired: bool
    law: ActivityLaw
    correction: Correction
    rank: int


@dataclass(frozen=True, slots=True, eq=False)
class ZeroKnowledgeAdversary:
    """The zero-knowledge adversary (POPETS24 §4.1), with everything it knows.

    It generates a synthetic population that would be published like the release, and trains on
    groups of that. It has no cube and no traces; its information on the target is ``known``.

    Attributes
    ----------
    group_size
        Members of a released group.
    shape
        Numbers of ROIs, including the null ROI, and epochs of a release.
    null_roi
        Whether the last ROI is the virtual one.
    graph
        Neighbours of each ROI, from their positions.
    days
        Number of the day in which each epoch begins, shape (epoch,).
    known
        Information on where the target was.
    study_as
        Settings for studying a release.
    retrains_per_release
        Whether it studies every challenge release, or only the first.
    """

    group_size: int
    shape: tuple[int, int]
    null_roi: bool
    graph: Graph
    days: NDArray[np.int64]
    known: TargetInformation
    study_as: SimulationSettings
    retrains_per_release: bool

    def study(
        self, release: Release, mechanism: Mechanism, *, rng: np.random.Generator
    ) -> Knowledge:
        """Return synthetic groups with and without the target, published by ``mechanism``."""
        population, settings = self.estimate(release, mechanism, rng=rng), self.study_as
        reference = self._gather(population, self.known.tell(population, rng=rng), rng)
        training = reference.draw(settings.training, rng=rng, paired=settings.paired)
        target = reference.whereabouts(complete=self.known.complete)
        simulated = AuxiliaryDataAdversary(
            self.group_size, training, target, paired=settings.paired
        )
        knowledge = simulated.study(None, mechanism, rng=rng)
        if not settings.validation:
            return knowledge
        # Drawn last, so that attacks without validation groups get the same draws.
        sample = reference.draw(settings.validation, rng=rng)
        validation = AuxiliaryDataAdversary(self.group_size, sample).study(None, mechanism, rng=rng)
        return replace(knowledge, validation=validation.training)

    def estimate(
        self, release: Release, mechanism: Mechanism, *, rng: np.random.Generator
    ) -> SyntheticPopulation:
        """Return the population marginals (space, time, activity) estimated from the release."""
        settings, m = self.study_as, self.group_size
        values = np.asarray(release.values[0, : self.shape[0] - self.null_roi], np.float64)
        population = estimate_marginals(
            values,
            m,
            mechanism,
            graph=self.graph,
            law=settings.law,
            correction=settings.correction,
            rng=rng,
        )
        if not settings.rank:
            return population
        undo = _as_is
        if settings.correction == "matched":
            undo = explain(values, m, mechanism, rng=rng).invert
        return mix_rhythms(values, population, self.days, settings.rank, undo=undo)

    def plus(self, other: ZeroKnowledgeAdversary) -> ZeroKnowledgeAdversary:
        """Add the information on the target from another block of users."""
        return replace(self, known=self.known.plus(other.known))

    def _gather(
        self, population: SyntheticPopulation, trace: Ints, rng: np.random.Generator
    ) -> ReferencePopulation:
        size, n = self.group_size, self.study_as.reference
        if n is None:
            return PoissonCounts(population, trace, size)
        return SyntheticUsers(
            n, population, self.graph, trace, group_size=size, null_roi=self.null_roi, rng=rng
        )


def _as_is(sums: Values, weights: Values) -> Values:
    return sums
