"""The adversary has seen labelled releases of past periods (NDSS18 §IV-A, §VI-B)."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Strict

from clusterscale.contracts import Component, Even, Game, Labels, Members, Sample, Traces
from clusterscale.errors import InputError
from clusterscale.groups import Pool, check_pool, count_visits, draw_groups

__all__ = ["DifferentGroups", "SameGroups"]


class _PastGroups(Component):
    """Groups of all users, seen in every observed period; tells nothing of whereabouts.

    A prior says how many of the groups are seen in the past, from the first on, and how many are
    asked about, to the last.
    """

    name: str
    beta: int

    needs_past: ClassVar[bool] = True
    gives_whereabouts: ClassVar[bool] = False
    adds_challenges: ClassVar[bool] = False

    @property
    def n_challenges(self) -> int:
        """As many groups as are asked about."""
        return self._n_asked

    @property
    def _n_seen(self) -> int:
        raise NotImplementedError

    @property
    def _n_asked(self) -> int:
        raise NotImplementedError

    @property
    def _n_absent(self) -> int:
        """Groups with a stand-in, and others beside them that are as new to the adversary."""
        return self._n_asked // (1 if self._asks_again else 2)

    @property
    def _asks_again(self) -> bool:
        """Whether groups that were seen are asked about."""
        return self._n_seen + self._n_asked > self.beta

    def n_rows(self, n_past: int, *, validate: bool, control: bool) -> int:
        """Seen groups in every observed period, the others once."""
        return self._n_seen * n_past + self._n_asked + self._n_absent * control

    def check(self, n_users: int, group_size: int, *, most: int = 0) -> None:
        """Raise :class:`~clusterscale.errors.PoolError` if too few users are there."""
        check_pool(n_users, size=group_size, n_groups=self.beta, name=self.name)

    def set_up(
        self,
        traces: Traces,
        target: int,
        *,
        past: Sequence[Traces] = (),
        group_size: int,
        validate: bool = False,
        rng: np.random.Generator,
        control: np.random.Generator | None = None,
        more: np.random.Generator | None = None,
    ) -> Game:
        """Draw the groups; count what is seen in the past, what is asked in the present.

        Raises
        ------
        PoolError
            If there are too few users for groups of that size.
        InputError
            If no past period is given.
        """
        everyone = np.arange(traces.n_users)
        members, labels = draw_groups(
            everyone,
            target,
            size=group_size,
            n_groups=self.beta,
            name=self.name,
            rng=rng,
        )
        # Groups come in random order with alternating labels: either end is a fair split.
        seen, asked = slice(0, self._n_seen), slice(self.beta - self._n_asked, None)
        challenge = _count([traces], members[asked], labels[asked])
        absent = None
        if control is not None:
            pool = Pool(traces, everyone, target, group_size, self.name)
            absent = self._stand_in(pool, challenge, members[asked], control)
        return Game(
            group_size=group_size,
            training=_count(past, members[seen], labels[seen]),
            challenge=challenge,
            asks_again=self._asks_again,
            absent=absent,
        )

    def _stand_in(
        self, pool: Pool, asked: Sample, members: Members, rng: np.random.Generator
    ) -> Sample:
        """Return challenges with another user in the target's place, new to the adversary."""
        if self._asks_again:
            return pool.strangers(self._n_asked, rng=rng)
        inside = np.flatnonzero(asked.labels)
        return pool.without_target(asked.take(inside), members[inside], rng=rng)


class SameGroups(_PastGroups):
    """The very groups of the release, seen in past periods (NDSS18 §VI-B, prior 2a).

    ``beta`` groups are drawn, half with the target. Every group in every observed period is a
    training row; the challenges are the same groups in the period of the release.
    """

    name: Literal["same_groups"] = "same_groups"
    beta: Even = 150

    @property
    def _n_seen(self) -> int:
        return self.beta

    @property
    def _n_asked(self) -> int:
        return self.beta


class DifferentGroups(_PastGroups):
    """Past releases of other groups than the released ones (NDSS18 §VI-B, prior 2b).

    Of ``beta`` groups, half with the target, three quarters of either kind are seen in every
    observed period; the others are the challenges, in the period of the release.
    """

    name: Literal["different_groups"] = "different_groups"
    beta: Annotated[int, Strict(), Field(ge=16, multiple_of=8)] = 400

    @property
    def _n_seen(self) -> int:
        return self.beta - self._n_asked

    @property
    def _n_asked(self) -> int:
        return self.beta // 4


def _count(periods: Sequence[Traces], members: Members, labels: Labels) -> Sample:
    """Count the same groups in several periods; rows of one group form a block."""
    if not periods:
        raise InputError("this prior learns from releases of past periods, and none is given")
    n_groups, n_periods = len(members), len(periods)
    first = periods[0]
    counts = np.empty((n_periods, n_groups, first.n_rois, first.n_epochs), np.int32)
    everyone = np.arange(first.n_users)
    for period, traces in enumerate(periods):
        counts[period] = count_visits(traces, members, pool=everyone)
    blocks: NDArray[np.int64] = np.tile(np.arange(n_groups), n_periods)
    rows = counts.reshape(n_periods * n_groups, first.n_rois, first.n_epochs)
    return Sample(rows, np.tile(labels, n_periods), blocks)
