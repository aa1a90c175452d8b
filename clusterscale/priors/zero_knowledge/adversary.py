"""Who has nothing but a release, and some of the places where the target was."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from clusterscale.contracts import (
    Informed,
    Ints,
    Knowledge,
    Mechanism,
    Release,
    Traces,
    Whereabouts,
)
from clusterscale.groups import Pool, count_visits
from clusterscale.priors.zero_knowledge.activity import Activity
from clusterscale.priors.zero_knowledge.graph import Graph
from clusterscale.priors.zero_knowledge.marginals import Correction, estimate_marginals
from clusterscale.priors.zero_knowledge.synthesis import Population, synthetic_traces

__all__ = ["Forger", "Study"]


@dataclass(frozen=True, slots=True)
class Study:
    """How a release is studied: the numbers of made-up users and groups, and the choices.

    ``reference`` users are made up, ``training`` and ``validation`` groups drawn from them.
    """

    reference: int
    training: int
    validation: int
    paired: bool
    law: Activity
    correction: Correction


@dataclass(frozen=True, slots=True, eq=False)
class Forger:
    """The zero-knowledge adversary (POPETS24 §4.1): all that it holds is here.

    It makes up a population that would be published as the release was, and plays the game with
    that. There is no cube here and no traces of anybody; what it knows of the target is ``trace``.

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
    trace
        Flat cells where the target is known to have been, sorted, shape (event,).
    complete
        Whether that is all of the target's cells.
    study_as
        How it goes about it.
    refits
        Whether it studies every release that it is asked about, or only the first.
    """

    group_size: int
    shape: tuple[int, int]
    null_roi: bool
    graph: Graph
    trace: Ints
    complete: bool
    study_as: Study
    refits: bool

    def study(
        self, release: Release, mechanism: Mechanism, *, rng: np.random.Generator
    ) -> Knowledge:
        """Return groups of made-up users, with and without the target, published likewise."""
        population = self.estimate(release, mechanism, rng=rng)
        how, n = self.study_as, self.study_as.reference
        made_up = synthetic_traces(n, population, self.graph, rng=rng, null_roi=self.null_roi)
        traces = self._join(made_up)
        pool = Pool(traces, np.arange(n + 1), n, self.group_size, "zero_knowledge reference")
        training, _ = pool.draw(how.training, rng=rng, paired=how.paired)
        validation = None
        if how.validation:
            validation, _ = pool.draw(how.validation, rng=rng)
        seen = count_visits(made_up, np.arange(n)[None])[0]
        places = Whereabouts(self.trace, self.complete, seen, n)
        own = Informed(self.group_size, training, places, validation, how.paired)
        return own.study(None, mechanism, rng=rng)

    def estimate(
        self, release: Release, mechanism: Mechanism, *, rng: np.random.Generator
    ) -> Population:
        """Return where, when and how much people move, as far as the release tells."""
        n_seen = self.shape[0] - self.null_roi
        return estimate_marginals(
            release.values[0, :n_seen],
            self.group_size,
            mechanism,
            graph=self.graph,
            law=self.study_as.law,
            correction=self.study_as.correction,
            rng=rng,
        )

    def plus(self, other: Forger) -> Forger:
        """Add what is known of the target where its trace is held with other users'."""
        return replace(self, trace=np.concatenate([self.trace, other.trace]))

    def _join(self, made_up: Traces) -> Traces:
        """Return the made-up users with the target after the last."""
        n_rois, n_epochs = self.shape
        n_seen = n_rois - self.null_roi
        visits = self.trace[self.trace < n_seen * n_epochs].astype(np.int64)
        offsets = np.append(made_up.offsets, made_up.offsets[-1] + len(visits))
        idle = made_up.idle
        if idle is not None:
            absent = np.ones(n_epochs, np.bool_)
            absent[visits % n_epochs] = False
            idle = np.vstack([idle, absent])
        cells = np.concatenate([made_up.cells, visits])
        return Traces(offsets, cells, n_rois, n_epochs, idle)
