"""The parts of an audit as others see them: one small Protocol each."""

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
"""What one count can change of what is published: its own cell, the series of its ROI, anything."""

REACHES: tuple[NoiseScope, ...] = ("cell", "series", "release")
"""From near to far."""


@runtime_checkable
class Prior(Protocol):
    """What the adversary knows before the release."""

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
        """Whether it knows where the target was."""

    @property
    def n_challenges(self) -> int:
        """How many groups are asked about at first."""

    @property
    def adds_challenges(self) -> bool:
        """Whether more groups can be asked about after those."""

    def n_rows(self, n_past: int, *, validate: bool, control: bool) -> int:
        """Return how many groups, each in one period, are counted before any are added."""

    def studies(self, *, validate: bool, control: bool) -> tuple[int, int]:
        """Return how many releases the adversary studies, and how many groups it makes up of each.

        For each mechanism; none where it has its groups beforehand.
        """

    def check(self, n_users: int, group_size: int, *, most: int = 0) -> None:
        """Raise :class:`~clusterscale.errors.PoolError` if groups of that size cannot be drawn.

        ``most``: up to so many challenges are asked for.
        """

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
        """Draw the groups of one target and count them.

        ``traces`` are those of the period of the release, ``past`` of the observed periods before
        it, of the same users; ``frame`` says where and when their cells are. ``validate``: some
        attack wants groups to choose a threshold on. From ``control``, where given, groups with a
        stand-in for the target are drawn; from ``more`` any challenges that are added later.
        Neither changes what is drawn from ``rng``.
        """


@runtime_checkable
class TraceStep(Protocol):
    """Changes traces before they are counted: once for a cube and period, not for each group."""

    @property
    def id(self) -> str:
        """Stable id: keys random streams, journals and coordinates."""

    @property
    def label(self) -> str:
        """Title, or name with its settings: for people only."""

    def apply(
        self, traces: Traces, frame: CellCoordinates, *, rng: np.random.Generator
    ) -> tuple[Traces, CellCoordinates]:
        """Return other traces, without a null ROI, and where and when their cells are."""

    def limit(self, bounds: Bounds) -> Bounds:
        """Return what holds of traces so changed, whatever they were."""

    def expand(self, values: Values, frame: CellCoordinates) -> Values:
        """Return ``values`` of the changed cells on the cells of ``frame``, from before the step.

        Shapes (…, roi, epoch); a last ROI more than there are positions is the null ROI.
        """


@runtime_checkable
class Mechanism(Protocol):
    """Turns counts into what is published."""

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
        """What is promised."""

    @property
    def noise(self) -> Noise | None:
        """Law of the noise, if the mechanism adds independent noise to every count."""

    def law(self, group_size: int) -> CellLaw | None:
        """Return how each count is published, if that does not hang on the others."""

    @property
    def trace_steps(self) -> tuple[TraceStep, ...]:
        """What is done to traces before counting."""

    @property
    def reach(self) -> NoiseScope:
        """What of a release can change when one count changes."""

    @property
    def noise_is_count_independent(self) -> bool:
        """Whether the same generator gives the same noise to any counts of one shape."""

    @property
    def publishes_float_noise(self) -> bool:
        """Whether continuous noise is published unrounded: low-order bits may reveal counts."""

    def bind(self, bounds: Bounds) -> Mechanism:
        """Return the mechanism with a sensitivity from ``bounds`` where none was given.

        Raises
        ------
        ConfigError
            If its definition does not hold for such counts.
        """

    def required_sensitivity(self, bounds: Bounds) -> float:
        """Return the sensitivity that the guarantee asks for, not a number where it asks none."""

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLossSpec | None:
        """Return what the release of all of one user spends, None where it is without limit."""

    def check(self, *, group_size: int, n_rois: int, n_epochs: int) -> None:
        """Raise :class:`~clusterscale.errors.ConfigError` if such counts make no sense for it."""

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return published values of the shape of ``counts``, float64."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a mechanism promises, or why it promises nothing.

    ``epsilon`` and ``delta`` hold for neighbouring inputs that differ in one ``unit`` (``event``,
    ``user_day``, ``user``, ``roi_series``: one user in the series of one ROI) under ``neighbours``
    (``add_remove`` or ``replace``), if the unit changes the counts by no more than
    ``sensitivity`` (L1 or L2 norm, as ``reason`` says; not a number where none is asked for).
    An infinite ``epsilon`` of the unit ``none`` is no guarantee.
    """

    unit: Literal["event", "user_day", "user", "roi_series", "none"]
    epsilon: float
    delta: float
    neighbours: Literal["add_remove", "replace"]
    reason: str
    sensitivity: float = np.nan


@dataclass(frozen=True, slots=True)
class PrivacyLossSpec:
    """What one user spends, as ``n`` independent parts that are composed.

    A part is ``laplace`` or ``gaussian`` noise on a change of ``ratio`` times its scale, or
    ``approximate``: anything (``epsilon``, ``delta``)-DP.
    """

    law: Literal["laplace", "gaussian", "approximate"]
    n: int
    ratio: float = np.nan
    epsilon: float = np.nan
    delta: float = 0.0


class Distinguisher(Protocol):
    """A trained attack on one target.

    ``threshold`` is the score from which on the adversary says *inside*, chosen in training.
    """

    @property
    def threshold(self) -> float:
        """Score from which on the answer is *inside*."""

    def score(self, release: Release) -> Scores:
        """Return one score a group, shape (group,); higher = more likely inside."""


@runtime_checkable
class Attack(Protocol):
    """Learns to tell releases with the target from those without."""

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
        """Whether it asks where the target was."""

    @property
    def validates(self) -> bool:
        """Whether it chooses its threshold on validation groups, where there are any."""

    def fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> Distinguisher:
        """Train on ``knowledge``."""
