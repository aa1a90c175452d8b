"""The adversary knows the whereabouts of some users during the very period of the release."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field, Strict

from clusterscale.contracts import Component, Game, Share, Traces
from clusterscale.groups import check_pool, count_visits, draw_groups, mean_trace

__all__ = ["KnownSubset"]

Even = Annotated[int, Strict(), Field(ge=4, multiple_of=2)]


class KnownSubset(Component):
    """Traces of a random share of users, the target among them (NDSS18 §VI-A).

    Training groups are drawn from the known users; challenges from all the others and the target,
    so that no one but the target appears in both. ``training`` and ``challenges`` are the numbers
    of groups, half of them with the target.
    """

    name: Literal["known_subset"] = "known_subset"
    alpha: Share
    training: Even = 400
    challenges: Even = 100

    @property
    def n_groups(self) -> int:
        """Training groups and challenges."""
        return self.training + self.challenges

    def n_known(self, n_users: int) -> int:
        """Return round(alpha · users), the target counted."""
        return max(1, round(self.alpha * n_users))

    def check(self, n_users: int, group_size: int) -> None:
        """Raise :class:`~clusterscale.errors.PoolError` if a pool is too small for the groups."""
        n_known = self.n_known(n_users)
        pools = (
            ("training", n_known, self.training),
            ("challenge", n_users - n_known + 1, self.challenges),
        )
        for name, n_pool, n_groups in pools:
            check_pool(n_pool, size=group_size, n_groups=n_groups, name=f"{self.name} {name}")

    def set_up(
        self, traces: Traces, target: int, *, group_size: int, rng: np.random.Generator
    ) -> Game:
        """Draw the known users, then training and challenge groups, and count them.

        Raises
        ------
        PoolError
            If a pool is too small for groups of that size.
        """
        others = rng.permutation(np.delete(np.arange(traces.n_users), target))
        n_others = self.n_known(traces.n_users) - 1
        known, rest = np.sort(others[:n_others]), np.sort(others[n_others:])
        training, training_labels = draw_groups(
            known,
            target,
            size=group_size,
            n_groups=self.training,
            name=f"{self.name} training",
            rng=rng,
        )
        challenge, challenge_labels = draw_groups(
            rest,
            target,
            size=group_size,
            n_groups=self.challenges,
            name=f"{self.name} challenge",
            rng=rng,
        )
        return Game(
            group_size=group_size,
            training_counts=count_visits(traces, training),
            training_labels=training_labels,
            challenge_counts=count_visits(traces, challenge),
            challenge_labels=challenge_labels,
            trace=traces.trace(target),
            mean_trace=mean_trace(traces, np.append(known, target)),
        )
