"""Priors: the adversary has labelled releases of past periods (NDSS18 §IV-A, §VI-B)."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, Strict

from clusterscale.contracts import (
    AuxiliaryDataAdversary,
    Even,
    Game,
    GroupRequest,
    GroupSample,
    Members,
    Prior,
    Traces,
)
from clusterscale.errors import InputError
from clusterscale.groups import Counter, Pool, check_pool

__all__ = ["DifferentGroups", "SameGroups"]


class _PastGroups(Prior):
    """Groups of all users, observed in every past period; no knowledge of locations.

    Of ``beta`` groups, the first ``_n_seen`` are observed in the past, and the last ``_n_asked``
    are challenges. The two can overlap.
    """

    name: str
    beta: int

    needs_past: ClassVar[bool] = True

    @property
    def n_challenges(self) -> int:
        """Number of challenge groups."""
        return self._n_asked

    @property
    def _n_seen(self) -> int:
        raise NotImplementedError

    @property
    def _n_asked(self) -> int:
        raise NotImplementedError

    @property
    def _n_absent(self) -> int:
        """Number of control groups: new groups of both kinds if challenges are training groups."""
        return self._n_asked // (1 if self._asks_again else 2)

    @property
    def _asks_again(self) -> bool:
        """Whether challenge groups are also training groups."""
        return self._n_seen + self._n_asked > self.beta

    def n_rows(self, n_past: int, *, validate: bool, control: bool) -> int:
        """Return the number of rows: training groups in every past period, the others once."""
        return self._n_seen * n_past + self._n_asked + self._n_absent * control

    def check(self, n_users: int, group_size: int, *, most: int = 0) -> None:
        """Raise :class:`~clusterscale.errors.PoolError` if there are too few users."""
        check_pool(n_users, size=group_size, n_groups=self.beta, name=self.name)

    def set_up(self, request: GroupRequest) -> Game:
        """Draw the groups; count training groups in past periods and challenges in the present.

        Raises
        ------
        PoolError
            If there are too few users for groups of that size.
        InputError
            If no past period is given.
        """
        if not request.past:
            raise InputError("this prior trains on releases of past periods, but there are none")
        traces, size, control = request.traces, request.group_size, request.control
        pool = Pool(traces, np.arange(traces.n_users), request.target, size, self.name)
        challenge_numbers, ranks = range(self.beta - self._n_asked, self.beta), None
        if control is not None and not self._asks_again:
            ranks = pool.rank_stand_ins(self.beta, rng=control)
        # Groups are in random order with alternating labels, so that splitting by number is fair.
        training = _Rows(request.past, pool, range(self._n_seen))
        challenges = _Rows([traces], pool, challenge_numbers)
        stand_ins = []
        for some in pool.slices(self.beta, rng=request.rng, ranks=ranks):
            training.add(some.members)
            challenges.add(some.members)
            stand_ins.append(some.stand_ins)
        challenge = challenges.sample()
        absent = None
        if ranks is not None:
            inside = challenge.take(np.flatnonzero(challenge.labels))
            first = challenge_numbers.start // 2
            absent = pool.substitute_target(inside, np.concatenate(stand_ins)[first:])
        elif control is not None:
            absent = pool.fresh_control_groups(self._n_asked, rng=control)
        return Game(
            group_size=size,
            adversary=AuxiliaryDataAdversary(size, training.sample()),
            challenge=challenge,
            reuses_training_groups=self._asks_again,
            absent=absent,
        )


class SameGroups(_PastGroups):
    """The groups of the release, observed in past periods (NDSS18 §VI-B, prior 2a).

    ``beta`` groups are drawn, half with the target. Every group in every past period is a
    training row; the challenges are the same groups in the period of the release.
    """

    name: Literal["same_groups"] = "same_groups"
    beta: Even = 150

    @property
    def phrase(self) -> str:
        """What the adversary knows, in words."""
        return f"adversary saw past releases of the same {self.beta:,} groups"

    @property
    def _n_seen(self) -> int:
        return self.beta

    @property
    def _n_asked(self) -> int:
        return self.beta


class DifferentGroups(_PastGroups):
    """Past releases of groups other than the released ones (NDSS18 §VI-B, prior 2b).

    Of ``beta`` groups, half with the target, three quarters of each kind are observed in every past
    period; the others are the challenges, in the period of the release.
    """

    name: Literal["different_groups"] = "different_groups"
    beta: Annotated[int, Strict(), Field(ge=16, multiple_of=8)] = 400

    @property
    def phrase(self) -> str:
        """What the adversary knows, in words."""
        return f"adversary saw past releases of {self._n_seen:,} other groups"

    @property
    def _n_seen(self) -> int:
        return self.beta - self._n_asked

    @property
    def _n_asked(self) -> int:
        return self.beta // 4


class _Rows:
    """Counts of the groups with given numbers in each of several periods, as they are drawn."""

    def __init__(self, periods: Sequence[Traces], pool: Pool, numbers: range) -> None:
        self._counters = [Counter(traces, pool.size, pool.users) for traces in periods]
        cells = periods[0].n_rois, periods[0].n_epochs
        self._counts = np.empty((len(periods), len(numbers), *cells), np.int32)
        self._numbers, self._n_drawn = numbers, 0

    def add(self, members: Members) -> None:
        """Count the next drawn groups, if their numbers are included."""
        first, stop = self._n_drawn, self._n_drawn + len(members)
        low, high = max(first, self._numbers.start), min(stop, self._numbers.stop)
        if low < high:
            rows = slice(low - self._numbers.start, high - self._numbers.start)
            for counter, counts in zip(self._counters, self._counts, strict=True):
                counter.count(members[low - first : high - first], counts[rows])
        self._n_drawn = stop

    def sample(self) -> GroupSample:
        """Return the counted groups, period by period; rows of one group form a block."""
        n_periods, n_groups, *cells = self._counts.shape
        groups = np.arange(n_groups)
        inside = np.asarray(self._numbers) % 2 == 0
        counts = self._counts.reshape(n_periods * n_groups, *cells)
        return GroupSample(counts, np.tile(inside, n_periods), np.tile(groups, n_periods))
