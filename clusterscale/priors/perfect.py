"""The adversary knows everything but the noise."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from clusterscale.contracts import Component, Even, Game, Traces, Whereabouts
from clusterscale.groups import check_pool, draw_sample, mean_trace

__all__ = ["Perfect"]


class Perfect(Component):
    """The counts of the released groups themselves, and who is in them (NDSS18 §VII-B).

    Of ``groups`` groups of all users, half contain the target; the adversary trains on them and is
    asked about the same ones, published with fresh noise. A ``strategic`` adversary trains on
    releases with noise of its own, a ``passive`` one on the counts. It knows everyone's traces.
    """

    name: Literal["perfect"] = "perfect"
    groups: Even = 400
    adversary: Literal["strategic", "passive"] = "strategic"

    _told_always: ClassVar[tuple[str, ...]] = ("adversary",)
    needs_past: ClassVar[bool] = False
    gives_whereabouts: ClassVar[bool] = True

    def n_rows(self, n_past: int, *, validate: bool) -> int:
        """Every group once: training groups and challenges are the same."""
        return self.groups

    def check(self, n_users: int, group_size: int) -> None:
        """Raise :class:`~clusterscale.errors.PoolError` if too few users are there."""
        check_pool(n_users, size=group_size, n_groups=self.groups, name=self.name)

    def set_up(
        self,
        traces: Traces,
        target: int,
        *,
        past: Sequence[Traces] = (),
        group_size: int,
        validate: bool = False,
        rng: np.random.Generator,
    ) -> Game:
        """Draw the groups and count them once.

        Raises
        ------
        PoolError
            If there are too few users for groups of that size.
        """
        everyone = np.arange(traces.n_users)
        groups = draw_sample(
            traces,
            everyone,
            target,
            size=group_size,
            n_groups=self.groups,
            name=self.name,
            rng=rng,
        )
        whereabouts = Whereabouts(
            traces.trace(target), True, mean_trace(traces, everyone), traces.n_users
        )
        return Game(
            group_size=group_size,
            training=groups,
            challenge=groups,
            whereabouts=whereabouts,
            passive=self.adversary == "passive",
        )
