"""Prior: the adversary knows the traces of some users in the period of the release."""

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from clusterscale.contracts import (
    Even,
    Game,
    GroupRequest,
    GroupSample,
    Ints,
    Prior,
    Share,
    TargetKnowledge,
)
from clusterscale.groups import Pool, check_pool, count_visits, subsample_trace
from clusterscale.priors.auxiliary import AuxiliaryDataAdversary, target_weights
from clusterscale.validation_messages import exact_percent


class KnownSubset(Prior):
    """Knows the traces of a random share of users, including the target (NDSS18 §VI-A).

    Training groups are drawn from the known users, challenges from all others and the target, so
    that only the target appears in both. ``training``, ``challenges`` and ``validation`` are
    numbers of groups, half of them with the target; validation groups, drawn like training groups
    but never paired, are only created for attacks that choose a threshold on them.

    ``sampling: paired`` trains on pairs that differ in one member and share their noise (POPETS24
    §4.4). With a ``known_fraction`` below 1 the adversary knows only that share of the target's
    visits (POPETS24 §6.3); challenges contain the whole trace. Where the plan has membership lists,
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
    """

    name: Literal["known_subset"] = "known_subset"
    alpha: Share
    training: Even = 400
    challenges: Even = 100
    validation: Even = 100
    sampling: Literal["independent", "paired"] = "independent"
    known_fraction: Share = 1.0
    weights: Literal["known", "unknown"] = "known"

    gives_whereabouts: ClassVar[bool] = True
    adds_challenges: ClassVar[bool] = True

    @property
    def phrase(self) -> str:
        """What the adversary knows, in words."""
        text = f"adversary knows {exact_percent(self.alpha)} of users"
        if self.known_fraction < 1:
            text += f" and {exact_percent(self.known_fraction)} of the target’s visits"
        others = {
            "sampling": "in pairs",
            "challenges": f"{self.challenges:,} challenges",
            "validation": f"{self.validation:,} validation groups",
            "weights": "weights of users unknown",
        }
        changed = self.model_dump(exclude_defaults=True)
        parts = [f"{text}, trains on {self.training:,} groups"]
        return ", ".join([*parts, *(others[name] for name in others if name in changed)])

    @property
    def n_challenges(self) -> int:
        """The field ``challenges``."""
        return self.challenges

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
        trace = full = traces.trace(target)
        if self.known_fraction < 1:  # drawn last, as it depends on whether the target is held
            trace = subsample_trace(full, traces, self.known_fraction, rng=rng)
        for sample in (training, validation):
            if sample is not None and trace is not full:
                _swap(sample, full, trace, traces.weight(target))
        weights = target_weights(traces, target, known)
        visits = count_visits(traces, known[None])[0]
        target_knowledge = TargetKnowledge(
            trace, self.known_fraction == 1, visits, len(known), weights
        )
        adversary = AuxiliaryDataAdversary(
            size,
            training,
            target_knowledge,
            validation,
            paired,
            mean_weight=request.mean_weight if self.weights == "unknown" else None,
        )
        return Game(
            group_size=size,
            adversary=adversary,
            challenge=challenge,
            absent=absent,
            more=None if request.more is None else partial(challenge_pool.draw_more, request.more),
        )


def _swap(sample: GroupSample, old: Ints, new: Ints, weight: float) -> None:
    """Replace the target's trace by another in the groups with the target, in place."""
    inside = np.flatnonzero(sample.labels)[:, None]
    for values, unit in ((sample.counts, 1), (sample.sums, weight)):
        if values is not None:
            flat: Any = values.reshape(len(values), -1)
            flat[inside, old] -= unit
            flat[inside, new] += unit
