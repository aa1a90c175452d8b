"""Groups of an adversary who knows nobody: of made-up users, or of counts alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from clusterscale.contracts import GroupSample, Ints, TargetKnowledge, Traces
from clusterscale.groups import Pool, count_visits
from clusterscale.priors.zero_knowledge.graph import Graph
from clusterscale.priors.zero_knowledge.synthesis import SyntheticPopulation, synthetic_traces

__all__ = ["PoissonCounts", "ReferencePopulation", "SyntheticUsers"]

_SURE = 1_000_000  # users that an expectation of the model counts as: more than it is good for


class ReferencePopulation(Protocol):
    """Other people, of whom groups are formed with and without the target."""

    def draw(self, n_groups: int, *, rng: np.random.Generator, paired: bool = False) -> GroupSample:
        """Return groups, every second one with the target, distinct from all drawn before."""

    def whereabouts(self, *, complete: bool) -> TargetKnowledge:
        """Return what is known of the target, and of the others."""


class SyntheticUsers:
    """Synthetic users (POPETS24 §4.2): ``n`` of them, drawn from ``rng``."""

    def __init__(
        self,
        n: int,
        population: SyntheticPopulation,
        graph: Graph,
        trace: Ints,
        *,
        group_size: int,
        null_roi: bool,
        rng: np.random.Generator,
    ) -> None:
        made_up = synthetic_traces(n, population, graph, rng=rng, null_roi=null_roi)
        everyone = _join(made_up, trace)
        self._pool = Pool(everyone, np.arange(n + 1), n, group_size, "zero_knowledge reference")
        self._made_up, self._trace, self._n = made_up, trace, n

    def draw(self, n_groups: int, *, rng: np.random.Generator, paired: bool = False) -> GroupSample:
        """Return groups of the users and the target."""
        sample, _ = self._pool.draw(n_groups, rng=rng, paired=paired)
        return sample

    def whereabouts(self, *, complete: bool) -> TargetKnowledge:
        """Return how often the users are in each cell."""
        seen = count_visits(self._made_up, np.arange(self._n)[None])[0]
        return TargetKnowledge(self._trace, complete, seen, self._n)


@dataclass(frozen=True, slots=True, eq=False)
class PoissonCounts:
    """Nobody: every count is Poisson, as of ever other people, and the target is added to it.

    Where the law of the counts is all that is asked for, as by ``likelihood``, it is the model's
    own and nothing is left to chance. There is no null ROI in it.
    """

    population: SyntheticPopulation
    trace: Ints
    group_size: int

    def draw(self, n_groups: int, *, rng: np.random.Generator, paired: bool = False) -> GroupSample:
        """Return counts; those of a pair have all but one member in common."""
        occupancy_probabilities = self.population.occupancy_probabilities
        others, half = (
            (self.group_size - 1) * occupancy_probabilities,
            (n_groups // 2, *occupancy_probabilities.shape),
        )
        if paired:
            counts = np.repeat(rng.poisson(others, half), 2, axis=0)
        else:
            counts = rng.poisson(others, (n_groups, *occupancy_probabilities.shape))
        counts[1::2] += rng.random(half) < occupancy_probabilities  # the one in the target's place
        counts.reshape(n_groups, -1)[0::2, self.trace] += 1
        np.minimum(counts, self.group_size, out=counts)
        labels, blocks = np.arange(n_groups) % 2 == 0, np.arange(n_groups) // (2 if paired else 1)
        return GroupSample(counts.astype(np.int32), labels, blocks)

    def whereabouts(self, *, complete: bool) -> TargetKnowledge:
        """Return the chance of each cell.

        Only the target's own cells are asked about, for of the many others the model says little
        and all its errors would add up.
        """
        return TargetKnowledge(
            self.trace, False, self.population.occupancy_probabilities * _SURE, _SURE
        )


def _join(made_up: Traces, trace: Ints) -> Traces:
    """Return the made-up users with the target after the last."""
    n_rois, n_epochs = made_up.n_rois, made_up.n_epochs
    n_seen = n_rois - made_up.null_roi
    visits = trace[trace < n_seen * n_epochs].astype(np.int64)
    offsets = np.append(made_up.offsets, made_up.offsets[-1] + len(visits))
    idle = made_up.idle
    if idle is not None:
        absent = np.ones(n_epochs, np.bool_)
        absent[visits % n_epochs] = False
        idle = np.vstack([idle, absent])
    cells = np.concatenate([made_up.cells, visits])
    return Traces(offsets, cells, n_rois, n_epochs, idle)
