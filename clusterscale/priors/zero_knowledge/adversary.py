"""Who has nothing but a release, and some of the places where the target was."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import (
    AuxiliaryDataAdversary,
    Ints,
    Knowledge,
    Mechanism,
    Release,
    Values,
)
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
    """How a release is studied: the numbers of made-up users and groups, and the choices.

    ``reference`` users are made up, or None where groups are of counts alone; ``training`` and
    ``validation`` groups are drawn. ``rank`` rhythms of the day are mixed, none where it is 0.
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
    """The zero-knowledge adversary (POPETS24 §4.1): all that it holds is here.

    It makes up a population that would be published as the release was, and plays the game with
    that. There is no cube here and no traces of anybody; what is known of the target is ``known``.

    Attributes
    ----------
    group_size
        Members of a released group.
    shape
        ROIs, the null ROI among them, and epochs of a release.
    null_roi
        Whether the last ROI is the virtual one.
    graph
        Which ROIs are neighbours, from their positions.
    days
        Number of the day in which each epoch begins, shape (epoch,).
    known
        What is known of where the target was.
    study_as
        How it goes about it.
    refits
        Whether it studies every release that it is asked about, or only the first.
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
        """Return groups of made-up people, with and without the target, published likewise."""
        population, how = self.estimate(release, mechanism, rng=rng), self.study_as
        crowd = self._gather(population, self.known.tell(population, rng=rng), rng)
        training = crowd.draw(how.training, rng=rng, paired=how.paired)
        places = crowd.whereabouts(complete=self.known.complete)
        own = AuxiliaryDataAdversary(self.group_size, training, places, paired=how.paired)
        knowledge = own.study(None, mechanism, rng=rng)
        if not how.validation:
            return knowledge
        # only now, so that an attack that asks for them changes nothing for others
        validation = crowd.draw(how.validation, rng=rng)
        checks = AuxiliaryDataAdversary(self.group_size, validation).study(None, mechanism, rng=rng)
        return replace(knowledge, validation=checks.training)

    def estimate(
        self, release: Release, mechanism: Mechanism, *, rng: np.random.Generator
    ) -> SyntheticPopulation:
        """Return where, when and how much people move, as far as the release tells."""
        how, m = self.study_as, self.group_size
        values = np.asarray(release.values[0, : self.shape[0] - self.null_roi], np.float64)
        population = estimate_marginals(
            values, m, mechanism, graph=self.graph, law=how.law, correction=how.correction, rng=rng
        )
        if not how.rank:
            return population
        undo = _as_is
        if how.correction == "matched":
            undo = explain(values, m, mechanism, rng=rng).invert
        return mix_rhythms(values, population, self.days, how.rank, undo=undo)

    def plus(self, other: ZeroKnowledgeAdversary) -> ZeroKnowledgeAdversary:
        """Add what is known of the target where its trace is held with other users'."""
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
