"""Protocols of priors, trace steps, mechanisms and attacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar, runtime_checkable

import numpy as np

from clusterscale.contracts.bounds import Bounds, CellCoordinates
from clusterscale.contracts.game import Game
from clusterscale.contracts.knowledge import Knowledge
from clusterscale.contracts.release import CellLaw, Noise, Release
from clusterscale.contracts.traces import Counts, Scores, Traces, Values

__all__ = [
    "REACHES",
    "Attack",
    "Distinguisher",
    "Guarantee",
    "Mechanism",
    "NoiseScope",
    "Prior",
    "PrivacyLossSpec",
    "TraceStep",
]

T = TypeVar("T")
P = TypeVar("P")
S = TypeVar("S")
R = TypeVar("R")

NoiseScope = Literal["cell", "series", "release"]
"""Published values that one count can affect: its own cell, the series of its ROI, or all."""

REACHES: tuple[NoiseScope, ...] = ("cell", "series", "release")
"""In order of increasing scope."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupRequest:
    """Groups that a prior has to draw and count for one target.

    Attributes
    ----------
    traces, target, group_size
        Users of the period of the release, the index of the target, and members of a group.
    rng
        Draws the groups.
    frame
        Coordinates of the cells of ``traces``.
    past
        Traces of the same users in the observed periods before the release.
    validate
        Whether to draw groups for choosing a threshold.
    control
        Draws control groups with a substitute for the target, if given.
    more
        Draws the challenges that are added later, if any. Neither this nor ``control`` changes what
        is drawn from ``rng``.
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


@runtime_checkable
class Prior(Protocol):
    """An adversary's knowledge before the release."""

    @property
    def name(self) -> str:
        """Key in the registry."""

    @property
    def id(self) -> str:
        """Stable id: keys random streams, journals and coordinates."""

    @property
    def label(self) -> str:
        """Title, or name with its settings: for people only."""

    @property
    def needs_past(self) -> bool:
        """Whether it learns from releases of past periods."""

    @property
    def gives_whereabouts(self) -> bool:
        """Whether it includes where the target was."""

    @property
    def n_challenges(self) -> int:
        """Number of initial challenges."""

    @property
    def adds_challenges(self) -> bool:
        """Whether more challenges can be added later."""

    def n_rows(self, n_past: int, *, validate: bool, control: bool) -> int:
        """Return how many groups, each in one period, are counted initially."""

    def studies(self, *, validate: bool, control: bool) -> tuple[int, int]:
        """Return the number of releases it studies, and the number of synthetic groups for each.

        Both per mechanism; 0 if the adversary has its groups beforehand.
        """

    def check(self, n_users: int, group_size: int, *, most: int = 0) -> None:
        """Raise :class:`~clusterscale.errors.PoolError` if groups of that size cannot be drawn.

        ``most`` is the largest number of challenges that may be needed.
        """

    def set_up(self, request: GroupRequest) -> Game:
        """Draw and count the groups of one target."""


@runtime_checkable
class TraceStep(Protocol):
    """A change to traces before counting, made once per cube and period, not once per group."""

    @property
    def id(self) -> str:
        """Stable id: keys random streams, journals and coordinates."""

    @property
    def label(self) -> str:
        """Title, or name with its settings: for people only."""

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


@runtime_checkable
class Mechanism(Protocol):
    """Turns counts into published values."""

    @property
    def name(self) -> str:
        """Key in the registry."""

    @property
    def id(self) -> str:
        """Stable id: keys random streams, journals and coordinates."""

    @property
    def label(self) -> str:
        """Public description."""

    @property
    def guarantee(self) -> Guarantee:
        """The privacy guarantee."""

    @property
    def noise(self) -> Noise | None:
        """Noise distribution if the mechanism adds independent noise to every count, else None."""

    def law(self, group_size: int) -> CellLaw | None:
        """Return the output distribution of a count; None if it depends on other counts."""

    @property
    def trace_steps(self) -> tuple[TraceStep, ...]:
        """Changes made to traces before counting."""

    @property
    def reach(self) -> NoiseScope:
        """Scope of the published values that can change when one count changes."""

    @property
    def noise_is_count_independent(self) -> bool:
        """Whether the same generator adds the same noise to all counts of one shape."""

    @property
    def publishes_float_noise(self) -> bool:
        """Whether continuous noise is published unrounded, so low-order bits may reveal counts."""

    def bind(self, bounds: Bounds) -> Mechanism:
        """Return the mechanism with a sensitivity from ``bounds`` if none was set.

        Raises
        ------
        ConfigError
            If its definition does not apply to such counts.
        """

    def required_sensitivity(self, bounds: Bounds) -> float:
        """Return the sensitivity that the guarantee requires; NaN if it requires none."""

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLossSpec | None:
        """Return the privacy loss of one user's data in a release; None if it is unbounded."""

    def check(self, *, group_size: int, n_rois: int, n_epochs: int) -> None:
        """Raise :class:`~clusterscale.errors.ConfigError` if it cannot publish such counts."""

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return published values of the shape of ``counts``, float64."""


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


@dataclass(frozen=True, slots=True)
class PrivacyLossSpec:
    """Privacy loss of one user as a composition of ``n`` independent parts.

    A part is ``laplace`` or ``gaussian`` noise on a change of ``ratio`` times the noise scale, or
    ``approximate``: any (``epsilon``, ``delta``)-DP mechanism.
    """

    law: Literal["laplace", "gaussian", "approximate"]
    n: int
    ratio: float = np.nan
    epsilon: float = np.nan
    delta: float = 0.0


class Distinguisher(Protocol):
    """A trained attack on one target.

    Scores at or above ``threshold``, which is chosen in training, mean *inside*.
    """

    @property
    def threshold(self) -> float:
        """Lowest score for which the answer is *inside*."""

    def score(self, release: Release) -> Scores:
        """Return one score per group, shape (group,); higher = more likely inside."""


@runtime_checkable
class Attack(Protocol):
    """Learns to distinguish releases with the target from those without."""

    @property
    def name(self) -> str:
        """Key in the registry."""

    @property
    def id(self) -> str:
        """Stable id: keys random streams, journals and coordinates."""

    @property
    def label(self) -> str:
        """Title, or name with its settings: for people only."""

    @property
    def needs_whereabouts(self) -> bool:
        """Whether it needs to know where the target was."""

    @property
    def validates(self) -> bool:
        """Whether it chooses its threshold on validation groups, if there are any."""

    def fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> Distinguisher:
        """Train on ``knowledge``."""
