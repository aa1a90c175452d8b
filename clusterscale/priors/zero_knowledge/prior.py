"""The prior of the zero-knowledge adversary and its groups of synthetic users (POPETS24)."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import (
    Count,
    Even,
    Game,
    GroupRequest,
    GroupSample,
    Ints,
    Knowledge,
    Mechanism,
    Release,
    Share,
    TargetKnowledge,
    Values,
)
from clusterscale.cube.transforms import with_null_roi
from clusterscale.errors import InputError
from clusterscale.groups import Pool, check_pool, count_visits
from clusterscale.priors.auxiliary import AuxiliaryDataAdversary
from clusterscale.priors.zero_knowledge import marginals, synthesis, target_information
from clusterscale.priors.zero_knowledge.occupancy import mix_rhythms
from clusterscale.validation_messages import exact_percent

_NOMINAL_USERS = 1_000_000  # nominal number of users behind an expectation of the model


class SyntheticUsers:
    """Synthetic users (POPETS24 §4.2): ``n`` of them, drawn from ``rng``."""

    def __init__(
        self,
        n: int,
        population: synthesis.SyntheticPopulation,
        graph: synthesis.Graph | None,
        trace: Ints,
        group_size: int,
        *,
        null_roi: bool,
        rng: np.random.Generator,
    ) -> None:
        traces = synthesis.synthetic_traces(n, population, graph, rng=rng)
        visits = trace[trace < traces.n_cells].astype(np.int64)
        offsets = np.append(traces.offsets, traces.offsets[-1] + len(visits))
        everyone = replace(traces, offsets=offsets, cells=np.append(traces.cells, visits))
        everyone = with_null_roi(everyone) if null_roi else everyone
        self._pool = Pool(everyone, np.arange(n + 1), n, group_size, "zero_knowledge reference")
        self._trace, self._n = trace, n

    def draw(self, n_groups: int, *, rng: np.random.Generator, paired: bool = False) -> GroupSample:
        """Return new distinct groups, every second one with the target."""
        sample, _ = self._pool.draw(n_groups, rng=rng, paired=paired)
        return sample

    def whereabouts(self, *, complete: bool) -> TargetKnowledge:
        """Return the target's trace and how many synthetic users are in each cell."""
        visits = count_visits(self._pool.traces, np.arange(self._n)[None])[0]
        return TargetKnowledge(self._trace, complete, visits, self._n)


@dataclass(frozen=True, slots=True, eq=False)
class PoissonCounts:
    """Independent Poisson counts instead of users, to which the target is added.

    Attacks that need only the distribution of counts, such as ``likelihood``, get that of the model
    exactly, without sampling. There is no null ROI.
    """

    population: synthesis.SyntheticPopulation
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
        visits = self.population.occupancy_probabilities * _NOMINAL_USERS
        return TargetKnowledge(self.trace, False, visits, _NOMINAL_USERS)


ReferencePopulation = SyntheticUsers | PoissonCounts
"""Synthetic population from which groups with and without the target are formed."""


Law = Annotated[synthesis.ActivityLaw, synthesis.ACTIVITIES.entry()]


class ZeroKnowledge(target_information.TargetPrior):
    """Knows a release, its public description and the target's trace (POPETS24 §2.5, §4).

    Challenges are groups of all users. From the release of a challenge the adversary estimates the
    marginals in space, time and activity, generates a ``reference`` number of synthetic users from
    them, and trains on groups of these, published by the same mechanism. Defaults: as in the paper.

    Attributes
    ----------
    reference
        Number of synthetic users.
    training
        Number of training groups.
    challenges
        Number of challenge groups.
    validation
        Number of validation groups.
    refit
        Train for each release (``per_release``) or once (``shared``).
    sampling
        Whether training groups are ``independent`` or in pairs (``paired``).
    known_fraction
        Share of the target's visits that is known.
    knows
        Whether the target's ``trace`` is known, or only its ``rois``.
    top_rois
        Number of the target's most visited ROIs that are known, e.g. ``5``; None: all.
    times
        How times are guessed in known ROIs: all (``greedy``) or some at ``random``.
    activity
        Distribution of the number of visits of a user.
    correction
        How a mechanism's effect on the marginals is corrected: ``paper``, ``matched`` or ``none``.
    rhythm
        Whether all ROIs share one daily rhythm (``common``) or mix several (``mixed``).
    rank
        Number of rhythms that are mixed.
    crowd
        Whether groups are of synthetic ``users`` or of independent ``counts``.
    positions
        Whether the positions of ROIs are ``known``, and synthetic users stay among neighbours
        (Delaunay triangulation), or ``unknown``: ROIs whose published series correlate then are
        neighbours, and users go anywhere if none do (POPETS24 §7.3).
    """

    name: Literal["zero_knowledge"] = "zero_knowledge"
    reference: Count = 5000
    training: Even = 400
    challenges: Even = 100
    validation: Even = 100
    refit: Literal["per_release", "shared"] = "per_release"
    sampling: Literal["independent", "paired"] = "paired"
    known_fraction: Share = 1.0
    knows: target_information.Knows = "trace"
    top_rois: Count | None = None
    times: target_information.Times = "greedy"
    activity: Law = synthesis.Exponential()
    correction: marginals.Correction = "paper"
    rhythm: Literal["common", "mixed"] = "common"
    rank: Count = 3
    crowd: Literal["users", "counts"] = "users"
    positions: Literal["known", "unknown"] = "known"

    guesses_cells: ClassVar[bool] = True

    @property
    def phrase(self) -> str:
        """What the adversary knows, and each option that differs from the paper, in words."""
        known = "the target’s trace"
        if self.knows == "rois":
            known = target_information.name_places(self.top_rois)
        if self.known_fraction < 1:
            known = f"{exact_percent(self.known_fraction)} of {known}"
        others = {
            "reference": f"{self.reference:,} synthetic users",
            "challenges": f"{self.challenges:,} challenges",
            "validation": f"{self.validation:,} validation groups",
            "refit": "trained once",
            "sampling": "not in pairs",
            "times": "times at random",
            "activity": f"{self.activity.phrase} activity",
            "correction": "no correction" if self.correction == "none" else "matched correction",
            "rhythm": "mixed rhythms",
            "rank": f"rank {self.rank:,}",
            "crowd": "synthetic counts",
            "positions": "positions of places unknown",
        }
        changed = self.model_dump(exclude_defaults=True)
        parts = [f"adversary knows only {known}", f"trains on {self.training:,} groups"]
        return ", ".join([*parts, *(others[name] for name in others if name in changed)])

    def n_rows(self, n_past: int, *, validate: bool, control: bool) -> int:
        """Return the number of challenges and controls."""
        return self.challenges + self.challenges // 2 * control

    def studies(self, *, validate: bool, control: bool) -> tuple[int, int]:
        """Return the number of releases studied (one or all), and of synthetic groups for each."""
        n_groups = self.training + self.validation * validate
        n_releases = self.n_rows(0, validate=validate, control=control)
        return (n_releases if self.refit == "per_release" else 1), n_groups

    def n_candidates(self, n_users: int) -> int:
        """Return the number of all other users."""
        return n_users - 1

    def check(self, n_users: int, group_size: int, *, most: int = 0) -> None:
        """Raise :class:`~clusterscale.errors.PoolError` if a pool is too small for the groups."""
        pools = [("challenge", n_users, max(self.challenges, most))]
        if self.crowd == "users":
            n, n_groups = self.reference + 1, self.training + self.validation
            pools += [("training", n, self.training), ("validation", n, n_groups)]
        for name, n_pool, n_groups in pools:
            check_pool(n_pool, size=group_size, n_groups=n_groups, name=f"{self.name} {name}")

    def set_up(self, request: GroupRequest) -> Game:
        """Draw and count the challenges; the adversary gets the target's trace.

        Raises PoolError if there are too few users for groups of that size, and InputError
        if ``frame`` is missing, or ``crowd`` is ``counts`` and there is a null ROI.
        """
        traces, frame = request.traces, request.frame
        if frame is None:
            raise InputError("this prior needs the days, and the positions of ROIs: give a frame")
        if traces.null_roi and self.crowd == "counts":
            raise InputError(
                f"{self.name}: a null ROI counts users without a visit, which independent counts "
                "cannot give: set crowd to users, or null_roi to false"
            )
        size, name = request.group_size, f"{self.name} challenge"
        pool = Pool(traces, np.arange(traces.n_users), request.target, size, name, request.lists)
        challenge, absent = pool.draw_challenges(
            self.challenges, rng=request.rng, control=request.control
        )
        unplaced = self.crowd == "counts" and not np.isfinite(frame.lat + frame.lon).all()
        unplaced |= self.positions == "unknown"
        adversary = ZeroKnowledgeAdversary(
            size,
            (traces.n_rois, traces.n_epochs),
            traces.null_roi,
            None if unplaced else synthesis.triangulate(frame),
            frame.days,
            target_information.describe_target(traces, request.target, self, rng=request.rng),
            self,
            request.validate,
            request.mean_weight,
        )
        return Game(
            group_size=size,
            adversary=adversary,
            challenge=challenge,
            absent=absent,
            more=None if request.more is None else partial(pool.draw_more, request.more),
        )


@dataclass(frozen=True, slots=True, eq=False)
class ZeroKnowledgeAdversary:
    """The zero-knowledge adversary (POPETS24 §4.1), with everything it knows.

    It generates a synthetic population that would be published like the release, and trains on
    groups of that. It has no cube and no traces.

    Attributes
    ----------
    group_size
        Members of a released group.
    shape
        Numbers of ROIs, including the null ROI, and epochs of a release.
    null_roi
        Whether the last ROI is the virtual one.
    graph
        Neighbours of each ROI; None if positions are not known.
    days
        Number of the day in which each epoch begins, shape (epoch,).
    known
        Information on where the target was.
    settings
        How it studies a release.
    validate
        Whether it generates groups for choosing a threshold.
    mean_weight
        Mean weight of the users, which it takes for that of everyone.
    """

    group_size: int
    shape: tuple[int, int]
    null_roi: bool
    graph: synthesis.Graph | None
    days: NDArray[np.int64]
    known: target_information.TargetInformation
    settings: ZeroKnowledge
    validate: bool
    mean_weight: float

    @property
    def retrains_per_release(self) -> bool:
        """Whether it studies every challenge release, or only the first."""
        return self.settings.refit == "per_release"

    def study(
        self, release: Release, mechanism: Mechanism, *, rng: np.random.Generator
    ) -> Knowledge:
        """Return synthetic groups with and without the target, published by ``mechanism``."""
        settings, paired = self.settings, self.settings.sampling == "paired"
        graph = self.find_neighbours(release)
        population = self.estimate(release, mechanism, graph, rng=rng)
        trace = self.known.assume_cells(population, rng=rng)
        size, null_roi = self.group_size, self.null_roi
        reference: ReferencePopulation
        if settings.crowd == "counts":
            reference = PoissonCounts(population, trace, size)
        else:
            some = settings.reference, population, graph, trace, size
            reference = SyntheticUsers(*some, null_roi=null_roi, rng=rng)
        training = reference.draw(settings.training, rng=rng, paired=paired)
        target = reference.whereabouts(complete=self.known.complete)
        make = partial(AuxiliaryDataAdversary, size, mean_weight=self.mean_weight)
        knowledge = make(training, target, paired=paired).study(None, mechanism, rng=rng)
        if not self.validate:
            return knowledge
        # Drawn last, so that attacks without validation groups get the same draws.
        sample = reference.draw(settings.validation, rng=rng)
        validation = make(sample).study(None, mechanism, rng=rng)
        return replace(knowledge, validation=validation.training)

    def find_neighbours(self, release: Release) -> synthesis.Graph | None:
        """Return the neighbours of each ROI; None if users go anywhere."""
        if self.settings.positions == "known":
            return self.graph
        return synthesis.correlated_rois(self._values(release), self.days)

    def estimate(
        self,
        release: Release,
        mechanism: Mechanism,
        graph: synthesis.Graph | None,
        *,
        rng: np.random.Generator,
    ) -> synthesis.SyntheticPopulation:
        """Return the population marginals (space, time, activity) estimated from the release."""
        settings, m, values = self.settings, self.group_size, self._values(release)
        mechanism = mechanism.at_weight(self.mean_weight)
        law, correction = settings.activity, settings.correction
        population = marginals.estimate_marginals(
            values, m, mechanism, graph=graph, law=law, correction=correction, rng=rng
        )
        if settings.rhythm == "common":
            return population
        undo = None
        if correction == "matched":
            undo = marginals.response_curve(values, m, mechanism, rng=rng).invert
        return mix_rhythms(values, population, self.days, settings.rank, undo=undo)

    def _values(self, release: Release) -> Values:
        """Return the published values of real ROIs, float64, shape (roi, epoch)."""
        return np.asarray(release.values[0, : self.shape[0] - self.null_roi], np.float64)

    def plus(self, other: "ZeroKnowledgeAdversary") -> "ZeroKnowledgeAdversary":
        """Add the information on the target from another block of users."""
        return replace(self, known=target_information.join(self.known, other.known))
