"""Priors: the adversary has labelled releases of past periods (NDSS18 §IV-A, §VI-B)."""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, Strict

from clusterscale.contracts import Even, Game, GroupRequest, Prior
from clusterscale.errors import InputError
from clusterscale.groups import Pool, Rows, check_pool
from clusterscale.priors.auxiliary import AuxiliaryDataAdversary


class _PastGroups(Prior):
    """Groups of all users, observed in every past period; no knowledge of locations.

    Of ``beta`` groups, the first ``_n_training`` are observed in the past, and the last
    ``n_challenges`` are challenges: the same groups or other ones.

    Attributes
    ----------
    beta
        Number of groups.
    """

    name: str
    beta: int

    _same: ClassVar[bool]
    needs_past: ClassVar[bool] = True

    @property
    def n_challenges(self) -> int:
        """Number of challenge groups."""
        return self.beta if self._same else self.beta // 4

    @property
    def n_groups(self) -> int:
        """The field ``beta``."""
        return self.beta

    @property
    def _n_training(self) -> int:
        return self.beta if self._same else self.beta - self.n_challenges

    def n_rows(self, n_past: int, *, validate: bool, control: bool) -> int:
        """Return the number of rows: training groups in every past period, the others once."""
        # New groups of both kinds are the controls if the challenges are training groups.
        n_control = self.n_challenges // (1 if self._same else 2)
        return self._n_training * n_past + self.n_challenges + n_control * control

    def n_candidates(self, n_users: int) -> int:
        """Return the number of all other users."""
        return n_users - 1

    def check(self, n_users: int, group_size: int, *, most: int = 0) -> None:
        """Raise :class:`~clusterscale.errors.PoolError` if there are too few users."""
        check_pool(n_users, size=group_size, n_groups=self.beta, name=self.name)

    def set_up(self, request: GroupRequest) -> Game:
        """Draw the groups; count training groups in past periods and challenges in the present.

        Raises PoolError if there are too few users for groups of that size, and InputError
        if no past period is given.
        """
        if not request.past:
            raise InputError("this prior trains on releases of past periods, but there are none")
        traces, size, control = request.traces, request.group_size, request.control
        everyone = np.arange(traces.n_users)
        pool = Pool(traces, everyone, request.target, size, self.name, request.lists)
        challenge_numbers, ranks = range(self.beta - self.n_challenges, self.beta), None
        if control is not None and not self._same:
            ranks = pool.rank_substitutes(self.beta, rng=control)
        # Groups are in random order with alternating labels, so that splitting by number is fair.
        training = Rows(request.past, pool, range(self._n_training))
        challenges = Rows([traces], pool, challenge_numbers)
        substitutes = []
        for members, replacing in pool.slices(self.beta, rng=request.rng, ranks=ranks):
            training.add(members)
            challenges.add(members)
            substitutes.append(replacing)
        challenge = challenges.sample()
        absent = None
        if ranks is not None:
            inside = challenge.take(np.flatnonzero(challenge.labels))
            first = challenge_numbers.start // 2
            absent = pool.substitute_target(inside, np.concatenate(substitutes)[first:])
        elif control is not None:
            absent = pool.fresh_control_groups(self.n_challenges, rng=control)
        return Game(
            group_size=size,
            adversary=AuxiliaryDataAdversary(size, training.sample()),
            challenge=challenge,
            reuses_training_groups=self._same,
            absent=absent,
        )


class SameGroups(_PastGroups):
    """The groups of the release, observed in past periods (NDSS18 §VI-B, prior 2a).

    ``beta`` groups are drawn, half with the target. Every group in every past period is a
    training row; the challenges are the same groups in the period of the release.

    Attributes
    ----------
    beta
        Number of groups.
    """

    name: Literal["same_groups"] = "same_groups"
    beta: Even = 150
    _same: ClassVar[bool] = True

    @property
    def phrase(self) -> str:
        """What the adversary knows, in words."""
        return f"adversary saw past releases of the same {self.beta:,} groups"


class DifferentGroups(_PastGroups):
    """Past releases of groups other than the released ones (NDSS18 §VI-B, prior 2b).

    Of ``beta`` groups, half with the target, three quarters of each kind are observed in every past
    period; the others are the challenges, in the period of the release.

    Attributes
    ----------
    beta
        Number of groups.
    """

    name: Literal["different_groups"] = "different_groups"
    beta: Annotated[int, Strict(), Field(ge=16, multiple_of=8, lt=2**63)] = 400
    _same: ClassVar[bool] = False

    @property
    def phrase(self) -> str:
        """What the adversary knows, in words."""
        return f"adversary saw past releases of {self._n_training:,} other groups"
