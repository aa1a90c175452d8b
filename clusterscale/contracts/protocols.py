"""Priors and attacks: what each must have, and what it may."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from clusterscale.contracts.bounds import CellCoordinates
from clusterscale.contracts.component import NamedModel
from clusterscale.contracts.game import Game
from clusterscale.contracts.knowledge import Knowledge
from clusterscale.contracts.release import Release
from clusterscale.contracts.traces import Scores, Traces

__all__ = ["Attack", "Distinguisher", "GroupRequest", "Prior"]


@dataclass(frozen=True, slots=True, eq=False)
class GroupRequest:
    """Groups that a prior has to draw and count for one target.

    Attributes
    ----------
    traces, target, group_size
        Users of the period of the release, the index of the target, and members of a group.
    frame, past
        Coordinates of the cells of ``traces``; traces of the same users in the observed periods
        before the release.
    lists
        Membership lists, as indices of users, that released groups are drawn from; None: from all
        users. An adversary's own training groups are drawn from whom it knows.
    validate
        Whether to draw groups for choosing a threshold.
    mean_weight
        Mean weight of all users, which is public; NaN if not known.
    rng, control, more
        Draw the groups; control groups with a substitute for the target, if given; and the
        challenges that are added later, if any. What is drawn from ``rng`` depends on no other.
    """

    traces: Traces
    target: int
    group_size: int
    rng: np.random.Generator
    frame: CellCoordinates | None = None
    past: Sequence[Traces] = ()
    lists: Sequence[Sequence[int]] | None = None
    validate: bool = False
    control: np.random.Generator | None = None
    more: np.random.Generator | None = None
    mean_weight: float = np.nan


class Prior(NamedModel):
    """An adversary's knowledge before the release.

    A subclass defines ``n_challenges``, ``n_rows`` and ``set_up``, and sets ``needs_past`` if it
    learns from releases of past periods, ``gives_whereabouts`` if it includes where the target was,
    and ``adds_challenges`` if more challenges can be added later. ``trains_on_weights`` is False if
    its training groups have no sums of weights even where users have weights.
    """

    _registry: ClassVar[str] = "clusterscale.priors:PRIORS"

    needs_past: ClassVar[bool] = False
    gives_whereabouts: ClassVar[bool] = False
    adds_challenges: ClassVar[bool] = False
    trains_on_weights: ClassVar[bool] = True

    @property
    @abstractmethod
    def n_challenges(self) -> int:
        """Number of initial challenges."""

    @property
    def n_groups(self) -> int:
        """Number of released groups that are drawn initially: by default the challenges."""
        return self.n_challenges

    @abstractmethod
    def n_rows(self, n_past: int, *, validate: bool, control: bool) -> int:
        """Return how many groups, each in one period, are counted initially."""

    @abstractmethod
    def set_up(self, request: GroupRequest) -> Game:
        """Draw and count the groups of one target."""

    def studies(self, *, validate: bool, control: bool) -> tuple[int, int]:
        """Return the number of releases it studies, and the number of synthetic groups for each.

        Both per mechanism; 0 if the adversary has its groups beforehand.
        """
        return 0, 0

    def check(self, n_users: int, group_size: int, *, most: int = 0) -> None:
        """Raise :class:`~clusterscale.errors.PoolError` if groups of that size cannot be drawn.

        ``most`` is the largest number of challenges that may be needed.
        """


class Distinguisher(Protocol):
    """A trained attack on one target.

    Scores at or above ``threshold``, which is chosen in training, mean *inside*.
    """

    @property
    def threshold(self) -> float:
        """Lowest score for which the answer is *inside*."""

    def score(self, release: Release) -> Scores:
        """Return one score per group, shape (group,); higher = more likely inside."""


class Attack(NamedModel):
    """Learns to distinguish releases with the target from those without.

    A subclass defines ``fit``, sets ``needs_whereabouts`` if it must know where the target was, and
    ``validates`` if it chooses its threshold on validation groups, where there are any.
    """

    _registry: ClassVar[str] = "clusterscale.attacks:ATTACKS"

    needs_whereabouts: ClassVar[bool] = False
    validates: ClassVar[bool] = False

    @abstractmethod
    def fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> Distinguisher:
        """Train on ``knowledge``."""
