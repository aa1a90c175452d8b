"""Prior: the adversary knows everything except the noise."""

from typing import ClassVar, Literal

import numpy as np

from clusterscale.contracts import Even, Game, GroupRequest, Prior, TargetKnowledge
from clusterscale.groups import Pool, check_pool, count_visits
from clusterscale.priors.auxiliary import AuxiliaryDataAdversary, target_weights


class Perfect(Prior):
    """Knows the raw counts and the membership of the released groups (NDSS18 §VII-B).

    Of ``groups`` groups of all users, half contain the target. The adversary trains on them, and
    the challenges are the same groups published with fresh noise. A ``strategic`` adversary trains
    on counts with noise of its own, a ``passive`` one on raw counts. It knows all traces.

    Attributes
    ----------
    groups
        Number of groups.
    adversary
        Trains on counts with noise (``strategic``) or on raw counts (``passive``).
    """

    name: Literal["perfect"] = "perfect"
    groups: Even = 400
    adversary: Literal["strategic", "passive"] = "strategic"

    _label_always: ClassVar[tuple[str, ...]] = ("adversary",)
    gives_whereabouts: ClassVar[bool] = True

    @property
    def phrase(self) -> str:
        """What the adversary knows, in words."""
        counts = "noisy" if self.adversary == "strategic" else "raw"
        groups = f"{self.groups:,} groups"
        return f"adversary knows all about {groups} except the noise, trains on {counts} counts"

    @property
    def trains_on_weights(self) -> bool:  # type: ignore[override]
        """Whether it trains on published values, not on raw counts."""
        return self.adversary == "strategic"

    @property
    def n_challenges(self) -> int:
        """The field ``groups``."""
        return self.groups

    def n_rows(self, n_past: int, *, validate: bool, control: bool) -> int:
        """Return the number of groups, which are training groups and challenges, plus controls."""
        return self.groups * (1 + control)

    def n_candidates(self, n_users: int) -> int:
        """Return the number of all other users."""
        return n_users - 1

    def check(self, n_users: int, group_size: int, *, most: int = 0) -> None:
        """Raise :class:`~clusterscale.errors.PoolError` if there are too few users."""
        check_pool(n_users, size=group_size, n_groups=self.groups, name=self.name)

    def set_up(self, request: GroupRequest) -> Game:
        """Draw the groups and count them once.

        Raises PoolError if there are too few users for groups of that size.
        """
        traces, size = request.traces, request.group_size
        everyone = np.arange(traces.n_users)
        pool = Pool(traces, everyone, request.target, size, self.name, request.lists)
        groups, _ = pool.draw(self.groups, rng=request.rng)
        visits = count_visits(traces, everyone[None])[0]
        trace = traces.trace(request.target)
        weights = target_weights(traces, request.target, everyone)
        target_knowledge = TargetKnowledge(trace, True, visits, traces.n_users, weights)
        passive = self.adversary == "passive"
        return Game(
            group_size=size,
            adversary=AuxiliaryDataAdversary(size, groups, target_knowledge, passive=passive),
            challenge=groups,
            reuses_training_groups=True,
            absent=None
            if request.control is None
            else pool.fresh_control_groups(self.groups, rng=request.control),
        )
