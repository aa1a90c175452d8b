"""Priors, trace steps, mechanisms and attacks: what each must have, and what it may."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, Self, runtime_checkable

import numpy as np

from clusterscale.contracts.bounds import Bounds, CellCoordinates
from clusterscale.contracts.component import Component, NamedModel
from clusterscale.contracts.game import Game
from clusterscale.contracts.knowledge import Knowledge
from clusterscale.contracts.release import CellLaw, Noise, Release, Support
from clusterscale.contracts.traces import Counts, Scores, Traces, Values

__all__ = ["Attack", "Distinguisher", "GroupRequest", "Guarantee", "Mechanism", "NoiseScope"]
__all__ += ["Prior", "PrivacyLoss", "TraceStep"]

NoiseScope = Literal["cell", "series", "release"]
"""Published values that one count can affect: its own cell, the series of its ROI, or all."""


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
    validate
        Whether to draw groups for choosing a threshold.
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
    validate: bool = False
    control: np.random.Generator | None = None
    more: np.random.Generator | None = None


class Prior(NamedModel):
    """An adversary's knowledge before the release.

    A subclass defines ``n_challenges``, ``n_rows`` and ``set_up``, and sets ``needs_past`` if it
    learns from releases of past periods, ``gives_whereabouts`` if it includes where the target was,
    and ``adds_challenges`` if more challenges can be added later.
    """

    needs_past: ClassVar[bool] = False
    gives_whereabouts: ClassVar[bool] = False
    adds_challenges: ClassVar[bool] = False

    @property
    @abstractmethod
    def n_challenges(self) -> int:
        """Number of initial challenges."""

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


@runtime_checkable
class TraceStep(Component, Protocol):
    """A change to traces before counting, made once per cube and period, not once per group."""

    def apply(
        self, traces: Traces, frame: CellCoordinates, *, rng: np.random.Generator
    ) -> tuple[Traces, CellCoordinates]:
        """Return the changed traces, without a null ROI, and the coordinates of their cells."""

    def limit(self, bounds: Bounds) -> Bounds:
        """Return ``bounds`` with those that the step enforces for any data."""

    def expand(self, values: Values, frame: CellCoordinates) -> Values:
        """Return ``values`` of the changed cells on the cells of ``frame``, those before the step.

        Shapes (…, roi, epoch); a last ROI without a position is the null ROI.
        """


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The privacy guarantee of a mechanism, or why it has none.

    ``epsilon`` and ``delta`` hold for neighbouring inputs that differ in one ``unit`` (``event``,
    ``user_day``, ``user``, ``roi_series``: one user in the series of one ROI) under ``neighbours``
    (``add_remove`` or ``replace``), if the unit changes the counts by no more than
    ``sensitivity`` (L1 or L2 norm, as ``reason`` says; NaN if none is required). An infinite
    ``epsilon`` with the unit ``none`` means no guarantee.
    """

    unit: Literal["event", "user_day", "user", "roi_series", "none"]
    epsilon: float
    delta: float
    neighbours: Literal["add_remove", "replace"]
    reason: str
    sensitivity: float = np.nan


class PrivacyLoss(Protocol):
    """Privacy loss of one user's data in a release, as a composition of independent parts.

    It is hashable.
    """

    def __hash__(self) -> int: ...

    def total(self, times: int) -> tuple[float, float]:
        """Return ε and δ by basic composition of all parts, ``times`` over."""

    def accountant(self, times: int) -> Callable[[float], float]:
        """Return the function from δ to the smallest known ε of all parts, ``times`` over."""

    @property
    def least_delta(self) -> float:
        """The smallest δ at which all parts together have a finite ε; 0 if any will do."""


class Mechanism(NamedModel):
    """Turns counts into published values: a subclass defines ``guarantee`` and ``release``.

    All else is optional. A mechanism that does not state how its output is distributed, or how far
    a change reaches, runs in every analysis that does not need it and is refused by the others.
    """

    noise_scope: ClassVar[NoiseScope] = "release"
    """Scope of the published values that can change when one count changes."""

    noise_is_count_independent: ClassVar[bool] = False
    """Whether the same generator adds the same noise to all counts of one shape."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The privacy guarantee."""

    @abstractmethod
    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return published values of the shape of ``counts``, (…, roi, epoch), float64."""

    @property
    def publishes_float_noise(self) -> bool:
        """Whether continuous noise is published unrounded, so low-order bits may reveal counts."""
        return self.guarantee.unit != "none"

    @property
    def noise(self) -> Noise | None:
        """Distribution of independent noise on every count; None if it is not just that."""
        return None

    def law(self, group_size: int) -> CellLaw | None:
        """Return the output distribution of a count; None if unknown or of several counts."""
        return None

    def support(self, before: Support, group_size: int) -> Support:
        """Return the values that it can publish for values in ``before``: any, if unknown."""
        return Support(-np.inf, np.inf, 0.0)

    @property
    def trace_steps(self) -> tuple[TraceStep, ...]:
        """Changes made to traces before counting."""
        return ()

    def bind(self, bounds: Bounds) -> Self:
        """Return the mechanism with a sensitivity from ``bounds`` if none was set.

        Raises
        ------
        ConfigError
            If its definition does not apply to such counts.
        """
        return self

    def required_sensitivity(self, bounds: Bounds) -> float:
        """Return the sensitivity that the guarantee requires; NaN if it requires none.

        Unless overridden, the L1 norm of the unit of the guarantee, which is never too small.
        """
        stated = self.guarantee
        if stated.unit == "none" or np.isnan(stated.sensitivity):
            return np.nan
        return float(getattr(bounds, "series" if stated.unit == "roi_series" else stated.unit))

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLoss | None:
        """Return the privacy loss of one user's data in a release; None if it is unbounded."""
        return None

    def check(self, *, group_size: int, n_rois: int, n_epochs: int) -> None:
        """Raise :class:`~clusterscale.errors.ConfigError` if it cannot publish such counts."""


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

    needs_whereabouts: ClassVar[bool] = False
    validates: ClassVar[bool] = False

    @abstractmethod
    def fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> Distinguisher:
        """Train on ``knowledge``."""
