"""Groups for the zero-knowledge adversary: of synthetic users, or of simulated counts."""

from dataclasses import dataclass

import numpy as np

from clusterscale.contracts import GroupSample, Ints, TargetKnowledge, Traces
from clusterscale.groups import Pool, count_visits
from clusterscale.priors.zero_knowledge.synthesis import (
    Graph,
    SyntheticPopulation,
    synthetic_traces,
)

_NOMINAL_USERS = 1_000_000  # nominal number of users behind an expectation of the model


class SyntheticUsers:
    """Synthetic users (POPETS24 §4.2): ``n`` of them, drawn from ``rng``."""

    def __init__(
        self,
        n: int,
        population: SyntheticPopulation,
        graph: Graph | None,
        trace: Ints,
        group_size: int,
        *,
        null_roi: bool,
        rng: np.random.Generator,
    ) -> None:
        traces = synthetic_traces(n, population, graph, rng=rng, null_roi=null_roi)
        everyone = _append_user(traces, trace)
        self._pool = Pool(everyone, np.arange(n + 1), n, group_size, "zero_knowledge reference")
        self._traces, self._trace, self._n = traces, trace, n

    def draw(self, n_groups: int, *, rng: np.random.Generator, paired: bool = False) -> GroupSample:
        """Return new distinct groups, every second one with the target."""
        sample, _ = self._pool.draw(n_groups, rng=rng, paired=paired)
        return sample

    def whereabouts(self, *, complete: bool) -> TargetKnowledge:
        """Return the target's trace and how many synthetic users are in each cell."""
        visits = count_visits(self._traces, np.arange(self._n)[None])[0]
        return TargetKnowledge(self._trace, complete, visits, self._n)


@dataclass(frozen=True, slots=True, eq=False)
class PoissonCounts:
    """Independent Poisson counts instead of users, to which the target is added.

    Attacks that need only the distribution of counts, such as ``likelihood``, get that of the model
    exactly, without sampling. There is no null ROI.
    """

    population: SyntheticPopulation
    trace: Ints
    group_size: int

    def draw(self, n_groups: int, *, rng: np.random.Generator, paired: bool = False) -> GroupSample:
        """Return counts of groups, every second one with the target."""
        occupancy = self.population.occupancy_probabilities
        others, half = (self.group_size - 1) * occupancy, (n_groups // 2, *occupancy.shape)
        if paired:
            counts = np.repeat(rng.poisson(others, half), 2, axis=0)
        else:
            counts = rng.poisson(others, (n_groups, *occupancy.shape))
        counts[1::2] += rng.random(half) < occupancy  # the user in place of the target
        counts.reshape(n_groups, -1)[0::2, self.trace] += 1
        np.minimum(counts, self.group_size, out=counts)
        labels, blocks = np.arange(n_groups) % 2 == 0, np.arange(n_groups) // (2 if paired else 1)
        return GroupSample(counts.astype(np.int32), labels, blocks)

    def whereabouts(self, *, complete: bool) -> TargetKnowledge:
        """Return the target's trace and the occupancy probability of each cell.

        The trace is marked as incomplete, so that attacks use only the target's own cells: the
        errors of the model in the many other cells would add up.
        """
        return TargetKnowledge(
            self.trace,
            False,
            self.population.occupancy_probabilities * _NOMINAL_USERS,
            _NOMINAL_USERS,
        )


ReferencePopulation = SyntheticUsers | PoissonCounts
"""Synthetic population from which groups with and without the target are formed."""


def _append_user(traces: Traces, trace: Ints) -> Traces:
    """Return ``traces`` with the target appended as the last user."""
    n_rois, n_epochs = traces.n_rois, traces.n_epochs
    n_real = n_rois - traces.null_roi
    visits = trace[trace < n_real * n_epochs].astype(np.int64)
    offsets = np.append(traces.offsets, traces.offsets[-1] + len(visits))
    idle = traces.idle
    if idle is not None:
        absent = np.ones(n_epochs, np.bool_)
        absent[visits % n_epochs] = False
        idle = np.vstack([idle, absent])
    cells = np.concatenate([traces.cells, visits])
    return Traces(offsets, cells, n_rois, n_epochs, idle)
