"""The adversary has seen labelled releases of past periods (NDSS18 §IV-A, §VI-B)."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Strict

from clusterscale.contracts import Component, Even, Game, Labels, Members, Sample, Traces
from clusterscale.errors import InputError
from clusterscale.groups import check_pool, count_visits, draw_groups

__all__ = ["DifferentGroups", "SameGroups"]


class _PastGroups(Component):
    """Groups of all users, seen in every observed period; tells nothing of whereabouts."""

    name: str
    beta: int

    needs_past: ClassVar[bool] = True
    gives_whereabouts: ClassVar[bool] = False

    def check(self, n_users: int, group_size: int) -> None:
        """Raise :class:`~clusterscale.errors.PoolError` if too few users are there."""
        check_pool(n_users, size=group_size, n_groups=self.beta, name=self.name)

    def _draw(
        self, traces: Traces, target: int, group_size: int, rng: np.random.Generator
    ) -> tuple[Members, Labels]:
        return draw_groups(
            np.arange(traces.n_users),
            target,
            size=group_size,
            n_groups=self.beta,
            name=self.name,
            rng=rng,
        )


class SameGroups(_PastGroups):
    """The very groups of the release, seen in past periods (NDSS18 §VI-B, prior 2a).

    ``beta`` groups are drawn, half with the target. Every group in every observed period is a
    training row; the challenges are the same groups in the period of the release.
    """

    name: Literal["same_groups"] = "same_groups"
    beta: Even = 150

    def n_rows(self, n_past: int, *, validate: bool) -> int:
        """Every group in every period."""
        return self.beta * (n_past + 1)

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
        """Draw the groups and count them in every period.

        Raises
        ------
        PoolError
            If there are too few users for groups of that size.
        InputError
            If no past period is given.
        """
        members, labels = self._draw(traces, target, group_size, rng)
        return Game(
            group_size=group_size,
            training=_count(past, members, labels),
            challenge=_count([traces], members, labels),
        )


class DifferentGroups(_PastGroups):
    """Past releases of other groups than the released ones (NDSS18 §VI-B, prior 2b).

    Of ``beta`` groups, half with the target, three quarters of either kind are seen in every
    observed period; the others are the challenges, in the period of the release.
    """

    name: Literal["different_groups"] = "different_groups"
    beta: Annotated[int, Strict(), Field(ge=16, multiple_of=8)] = 400

    def n_rows(self, n_past: int, *, validate: bool) -> int:
        """Three quarters of the groups in every observed period, the others once."""
        n_challenges = self.beta // 4
        return (self.beta - n_challenges) * n_past + n_challenges

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
        """Draw the groups and count some in the past, the others in the period of the release.

        Raises
        ------
        PoolError
            If there are too few users for groups of that size.
        InputError
            If no past period is given.
        """
        members, labels = self._draw(traces, target, group_size, rng)
        # Groups come in random order with alternating labels: the last quarter is a fair split.
        seen, asked = slice(0, self.beta // 4 * 3), slice(self.beta // 4 * 3, None)
        return Game(
            group_size=group_size,
            training=_count(past, members[seen], labels[seen]),
            challenge=_count([traces], members[asked], labels[asked]),
        )


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
