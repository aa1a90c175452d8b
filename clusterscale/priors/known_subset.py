"""Prior: the adversary knows the traces of some users in the period of the release."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np

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
)
from clusterscale.groups import Pool, add_idle, check_pool, count_visits
from clusterscale.priors.auxiliary import AuxiliaryDataAdversary, target_weights
from clusterscale.priors.zero_knowledge import SyntheticPopulation, VisitCounts, target_information
from clusterscale.priors.zero_knowledge.marginals import normalise
from clusterscale.validation_messages import exact_percent


class KnownSubset(target_information.TargetPrior):
    """Knows the traces of a random share of users, including the target (NDSS18 §VI-A).

    Training groups are drawn from the known users, challenges from all others and the target, so
    that only the target appears in both. ``training``, ``challenges`` and ``validation`` are
    numbers of groups, half of them with the target; validation groups, drawn like training groups
    but never paired, are only created for attacks that choose a threshold on them.

    ``sampling: paired`` trains on pairs that differ in one member and share their noise (POPETS24
    §4.4). With a ``known_fraction`` below 1 the adversary knows only that share of the target's
    visits (POPETS24 §6.3), and one that ``knows: rois`` only places, whose times it guesses
    (POPETS24 D.3); challenges contain the whole trace. Where the plan has membership lists,
    challenges are drawn from these, and may contain known users.

    Where sums of the weights of users are published, an adversary with ``weights: unknown`` trains
    on groups in which everyone has the mean weight of all users, which is public. Challenges have
    the true weights in any case.

    Attributes
    ----------
    alpha
        Share of users whose traces are known, from 0 to 1, e.g. ``0.5``.
    training
        Number of training groups.
    challenges
        Number of challenge groups.
    validation
        Number of validation groups.
    sampling
        Whether training groups are ``independent`` or in pairs (``paired``).
    known_fraction
        Share of the target's visits that is known.
    weights
        Whether the weights of users are ``known``, or only their mean (``unknown``).
    knows
        Whether the target's ``trace`` is known, or only its ``rois``.
    top_rois
        Number of the target's most visited ROIs that are known, e.g. ``5``; None: all.
    times
        How times are guessed in known ROIs: all (``greedy``) or some at ``random``.
    """

    name: Literal["known_subset"] = "known_subset"
    alpha: Share
    training: Even = 400
    challenges: Even = 100
    validation: Even = 100
    sampling: Literal["independent", "paired"] = "independent"
    known_fraction: Share = 1.0
    weights: Literal["known", "unknown"] = "known"
    knows: target_information.Knows = "trace"
    top_rois: Count | None = None
    times: target_information.Times = "greedy"

    @property
    def phrase(self) -> str:
        """What the adversary knows, in words."""
        text = f"adversary knows {exact_percent(self.alpha)} of users"
        if self.known_fraction < 1:
            text += f" and {exact_percent(self.known_fraction)} of the target’s visits"
        elif self.knows == "rois":
            text += f" and {target_information.name_places(self.top_rois)}"
        others = {
            "sampling": "in pairs",
            "challenges": f"{self.challenges:,} challenges",
            "validation": f"{self.validation:,} validation groups",
            "weights": "weights of users unknown",
            "times": "times at random",
        }
        changed = self.model_dump(exclude_defaults=True)
        parts = [f"{text}, trains on {self.training:,} groups"]
        return ", ".join([*parts, *(others[name] for name in others if name in changed)])

    @property
    def guesses_cells(self) -> bool:  # type: ignore[override]
        """Whether the target's trace is not known, or not all of it."""
        return self.knows != "trace" or self.known_fraction < 1

    def n_rows(self, n_past: int, *, validate: bool, control: bool) -> int:
        """Return the number of training groups, challenges, validation groups and controls."""
        n_control = self.challenges // 2 * control
        return self.training + self.challenges + self.validation * validate + n_control

    def n_known(self, n_users: int) -> int:
        """Return round(alpha · users), at least 1, including the target."""
        return max(1, round(self.alpha * n_users))

    def n_candidates(self, n_users: int) -> int:
        """Return the number of users whose traces are not known."""
        return n_users - self.n_known(n_users)

    def check(self, n_users: int, group_size: int, *, most: int = 0) -> None:
        """Raise :class:`~clusterscale.errors.PoolError` if a pool is too small for the groups."""
        n_known = self.n_known(n_users)
        pools = (
            ("training", n_known, self.training),
            ("validation", n_known, self.validation),
            ("challenge", n_users - n_known + 1, max(self.challenges, most)),
        )
        for name, n_pool, n_groups in pools:
            check_pool(n_pool, size=group_size, n_groups=n_groups, name=f"{self.name} {name}")

    def set_up(self, request: GroupRequest) -> Game:
        """Draw the known users, then training, challenge and validation groups, and count them.

        Raises PoolError if a pool is too small for groups of that size, and InputError if
        the target is not one of the users.
        """
        traces, target, size, rng = request.traces, request.target, request.group_size, request.rng
        traces.check_user(target)
        others = rng.permutation(np.delete(np.arange(traces.n_users), target))
        n_others = self.n_known(traces.n_users) - 1
        known, rest = (
            np.append(np.sort(part), target) for part in (others[:n_others], others[n_others:])
        )
        paired = self.sampling == "paired"

        def pool(users: Ints, name: str) -> Pool:
            return Pool(traces, users, target, size, f"{self.name} {name}")

        training, _ = pool(known, "training").draw(self.training, rng=rng, paired=paired)
        challenge_pool = pool(rest, "challenge")
        if request.lists is not None:
            everyone = np.arange(traces.n_users)
            challenge_pool = replace(challenge_pool, users=everyone, lists=request.lists)
        challenge, absent = challenge_pool.draw_challenges(
            self.challenges, rng=rng, control=request.control
        )
        validation = None
        if request.validate:
            validation, _ = pool(known, "validation").draw(self.validation, rng=rng)
        # Drawn last, as it depends on whether the target is held.
        found = target_information.describe_target(traces, target, self, rng=rng)
        full, visits = traces.trace(target), count_visits(traces, known[None])
        trace = found.where if isinstance(found, target_information.KnownCells) else full[:0]
        if not found.complete:
            for sample in filter(None, (training, validation)):
                _swap(sample, full, trace, traces.weight(target))
        weights = target_weights(traces, target, known)
        target_knowledge = TargetKnowledge(trace, found.complete, visits[0], len(known), weights)
        make: Callable[..., AuxiliaryDataAdversary] = AuxiliaryDataAdversary
        if isinstance(found, target_information.KnownPlaces):
            visits.reshape(-1)[full] -= 1
            make = partial(PlacesAdversary, places=found, null_roi=traces.null_roi)
        mean_weight = request.mean_weight if self.weights == "unknown" else None
        return Game(
            group_size=size,
            adversary=make(
                size, training, target_knowledge, validation, paired, mean_weight=mean_weight
            ),
            challenge=challenge,
            absent=absent,
            more=None if request.more is None else partial(challenge_pool.draw_more, request.more),
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PlacesAdversary(AuxiliaryDataAdversary):
    """An adversary who knows the traces of others, but of the target only places.

    In its groups the target is a member without visits; ``whereabouts`` are those of the other
    users that it knows.

    Attributes
    ----------
    places
        The target's places.
    null_roi
        Whether the last ROI is the virtual one.
    """

    places: target_information.KnownPlaces
    null_roi: bool

    def study(
        self, release: Release | None, mechanism: Mechanism, *, rng: np.random.Generator
    ) -> Knowledge:
        """Return its groups with the target in the cells that it assumes, published likewise.

        The visits of an average user, and their times, are those of the others.
        """
        others = self.whereabouts
        assert others is not None
        shape = others.occupancy.shape
        visits = others.occupancy[: shape[0] - self.null_roi]
        space, time = (normalise(visits.sum(axis=axis).astype(np.float64)) for axis in (1, 0))
        mean = VisitCounts(float(visits.sum()) / max(others.n_users - 1, 1))
        cells = self.places.assume_cells(SyntheticPopulation(space, time, mean), rng=rng)
        if self.null_roi:
            cells = add_idle(cells, *shape)
        occupancy = others.occupancy.copy()
        occupancy.reshape(-1)[cells] += 1
        weight = 1.0 if others.weights is None else others.weights[0]
        fill = partial(_with_target, cells=cells, weight=weight)
        own = replace(
            self,
            training=fill(self.training),
            validation=self.validation and fill(self.validation),
            whereabouts=replace(others, trace=cells, occupancy=occupancy),
        )
        return AuxiliaryDataAdversary.study(own, release, mechanism, rng=rng)

    def plus(self, other: Self) -> Self:
        """Add the counts of the users that follow these, in the same groups."""
        places = target_information.join(self.places, other.places)
        return replace(AuxiliaryDataAdversary.plus(self, other), places=places)


def _with_target(sample: GroupSample, cells: Ints, weight: float) -> GroupSample:
    """Return a copy in which the target was in these cells, in the groups with the target."""
    filled = sample.take(np.arange(len(sample)))
    _swap(filled, cells[:0], cells, weight)
    return filled


def _swap(sample: GroupSample, old: Ints, new: Ints, weight: float) -> None:
    """Replace the target's trace by another in the groups with the target, in place."""
    inside = np.flatnonzero(sample.labels)[:, None]
    for values, unit in ((sample.counts, 1), (sample.sums, weight)):
        if values is not None:
            flat: Any = values.reshape(len(values), -1)
            flat[inside, old] -= unit
            flat[inside, new] += unit
