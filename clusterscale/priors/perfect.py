"""The adversary knows everything but the noise."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from clusterscale.contracts import (
    AuxiliaryDataAdversary,
    CellCoordinates,
    Even,
    Game,
    NamedModel,
    TargetKnowledge,
    Traces,
)
from clusterscale.groups import Pool, check_pool, count_visits

__all__ = ["Perfect"]


class Perfect(NamedModel):
    """The counts of the released groups themselves, and who is in them (NDSS18 §VII-B).

    Of ``groups`` groups of all users, half contain the target; the adversary trains on them and is
    asked about the same ones, published with fresh noise. A ``strategic`` adversary trains on
    releases with noise of its own, a ``passive`` one on the counts. It knows everyone's traces.
    """

    name: Literal["perfect"] = "perfect"
    groups: Even = 400
    adversary: Literal["strategic", "passive"] = "strategic"

    _label_always: ClassVar[tuple[str, ...]] = ("adversary",)
    needs_past: ClassVar[bool] = False
    gives_whereabouts: ClassVar[bool] = True
    adds_challenges: ClassVar[bool] = False

    @property
    def phrase(self) -> str:
        """What the adversary knows, in words."""
        seen = "noisy" if self.adversary == "strategic" else "exact"
        groups = f"{self.groups:,} groups"
        return f"adversary knows all of {groups} but the noise, trains on {seen} counts"

    @property
    def n_challenges(self) -> int:
        """All groups."""
        return self.groups

    def n_rows(self, n_past: int, *, validate: bool, control: bool) -> int:
        """Every group once, as training groups and challenges are the same, and as many new."""
        return self.groups * (1 + control)

    def studies(self, *, validate: bool, control: bool) -> tuple[int, int]:
        """None: the groups that it learns from are there beforehand."""
        return 0, 0

    def check(self, n_users: int, group_size: int, *, most: int = 0) -> None:
        """Raise :class:`~clusterscale.errors.PoolError` if too few users are there."""
        check_pool(n_users, size=group_size, n_groups=self.groups, name=self.name)

    def set_up(
        self,
        traces: Traces,
        target: int,
        *,
        frame: CellCoordinates | None = None,
        past: Sequence[Traces] = (),
        group_size: int,
        validate: bool = False,
        rng: np.random.Generator,
        control: np.random.Generator | None = None,
        more: np.random.Generator | None = None,
    ) -> Game:
        """Draw the groups and count them once.

        Raises
        ------
        PoolError
            If there are too few users for groups of that size.
        """
        everyone = np.arange(traces.n_users)
        pool = Pool(traces, everyone, target, group_size, self.name)
        groups, _ = pool.draw(self.groups, rng=rng)
        seen = count_visits(traces, everyone[None])[0]
        places = TargetKnowledge(traces.trace(target), True, seen, traces.n_users)
        passive = self.adversary == "passive"
        return Game(
            group_size=group_size,
            adversary=AuxiliaryDataAdversary(group_size, groups, places, passive=passive),
            challenge=groups,
            reuses_training_groups=True,
            absent=None if control is None else pool.fresh_control_groups(self.groups, rng=control),
        )
