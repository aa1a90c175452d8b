"""The adversary has seen labelled releases of past periods (NDSS18 §IV-A, §VI-B)."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, Strict

from clusterscale.contracts import (
    AuxiliaryDataAdversary,
    CellCoordinates,
    Even,
    Game,
    GroupSample,
    Members,
    NamedModel,
    Traces,
)
from clusterscale.errors import InputError
from clusterscale.groups import Counter, Pool, check_pool

__all__ = ["DifferentGroups", "SameGroups"]


class _PastGroups(NamedModel):
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

    def studies(self, *, validate: bool, control: bool) -> tuple[int, int]:
        """None: the groups that it learns from are there beforehand."""
        return 0, 0

    def check(self, n_users: int, group_size: int, *, most: int = 0) -> None:
        """Raise :class:`~clusterscale.errors.PoolError` if too few users are there."""
        check_pool(n_users, size=group_size, n_groups=self.beta, name=self.name)

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
        """Draw the groups; count what is seen in the past, what is asked in the present.

        Raises
        ------
        PoolError
            If there are too few users for groups of that size.
        InputError
            If no past period is given.
        """
        if not past:
            raise InputError("this prior learns from releases of past periods, and none is given")
        pool = Pool(traces, np.arange(traces.n_users), target, group_size, self.name)
        numbers, ranks = range(self.beta - self._n_asked, self.beta), None
        if control is not None and not self._asks_again:
            ranks = pool.rank_stand_ins(self.beta, rng=control)
        # Groups come in random order with alternating labels: either end is a fair split.
        seen, asked = _Rows(past, pool, range(self._n_seen)), _Rows([traces], pool, numbers)
        stand_ins = []
        for some in pool.slices(self.beta, rng=rng, ranks=ranks):
            seen.add(some.members)
            asked.add(some.members)
            stand_ins.append(some.stand_ins)
        challenge = asked.sample()
        absent = None
        if ranks is not None:
            inside = challenge.take(np.flatnonzero(challenge.labels))
            absent = pool.substitute_target(inside, np.concatenate(stand_ins)[numbers.start // 2 :])
        elif control is not None:
            absent = pool.fresh_control_groups(self._n_asked, rng=control)
        return Game(
            group_size=group_size,
            adversary=AuxiliaryDataAdversary(group_size, seen.sample()),
            challenge=challenge,
            reuses_training_groups=self._asks_again,
            absent=absent,
        )


class SameGroups(_PastGroups):
    """The very groups of the release, seen in past periods (NDSS18 §VI-B, prior 2a).

    ``beta`` groups are drawn, half with the target. Every group in every observed period is a
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
    """Past releases of other groups than the released ones (NDSS18 §VI-B, prior 2b).

    Of ``beta`` groups, half with the target, three quarters of either kind are seen in every
    observed period; the others are the challenges, in the period of the release.
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
    """Groups of some numbers, counted in every one of some periods as they are drawn."""

    def __init__(self, periods: Sequence[Traces], pool: Pool, numbers: range) -> None:
        self._counters = [Counter(traces, pool.size, pool.users) for traces in periods]
        cells = periods[0].n_rois, periods[0].n_epochs
        self._counts = np.empty((len(periods), len(numbers), *cells), np.int32)
        self._numbers, self._n_drawn = numbers, 0

    def add(self, members: Members) -> None:
        """Count those of the groups drawn next that are wanted here."""
        first, stop = self._n_drawn, self._n_drawn + len(members)
        low, high = max(first, self._numbers.start), min(stop, self._numbers.stop)
        if low < high:
            place = slice(low - self._numbers.start, high - self._numbers.start)
            for counter, counts in zip(self._counters, self._counts, strict=True):
                counter.count(members[low - first : high - first], counts[place])
        self._n_drawn = stop

    def sample(self) -> GroupSample:
        """Return what was counted, period by period; rows of one group form a block."""
        n_periods, n_groups, *cells = self._counts.shape
        groups = np.arange(n_groups)
        inside = np.asarray(self._numbers) % 2 == 0
        counts = self._counts.reshape(n_periods * n_groups, *cells)
        return GroupSample(counts, np.tile(inside, n_periods), np.tile(groups, n_periods))
