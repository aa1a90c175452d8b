"""Why no adversary can do better: what a mechanism states, for what one person changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from clusterscale.analyses.certify.composition import Changes
from clusterscale.analyses.certify.laws import (
    loss_of_change,
    loss_of_noise,
    losses_of_counts,
    sample_loss,
)
from clusterscale.analyses.certify.loss import CellLoss, bounded_loss, mixed_loss
from clusterscale.contracts import Bounds, Guarantee, Mechanism, NoiseScope, stability_of
from clusterscale.mechanisms.accounting import ApproximateLoss, group_privacy
from clusterscale.mechanisms.base import Exact
from clusterscale.mechanisms.chain import Chain
from clusterscale.mechanisms.law import FiniteDistribution, OutputDistribution
from clusterscale.mechanisms.sampling import SampleTraces

_MOST_COUNTS = 1 << 17  # counts whose distributions are compared one by one
_EXACT = "each changed count is published with independent noise of a known distribution"
_POSTPROCESSED = "the noise on each changed count; what follows it can only lower the ceiling"
_SAMPLED = "each changed count is counted with some probability only"
_WORST = "each changed count is one of those that reveal most"


@dataclass(frozen=True, slots=True)
class Visits:
    """What one person changes in a release, or in several.

    Attributes
    ----------
    cells
        Number of counts that change by 1.
    rois
        Number of ROIs in which they are; None: unknown, at most ``cells``.
    series
        Largest number of them in one ROI; None: unknown, at most ``cells``.
    days
        Number of local days on which they are; None: unknown, at most ``cells``.
    day
        Largest number of them on one local day; None: unknown, at most ``cells``.
    releases
        Number of releases.
    """

    cells: int
    rois: int | None = None
    series: int | None = None
    days: int | None = None
    day: int | None = None
    releases: int = 1

    @property
    def bounds(self) -> Bounds:
        """The same as limits of a mechanism's sensitivity."""
        rois = self.cells if self.rois is None else self.rois
        series = self.cells if self.series is None else self.series
        day = self.cells if self.day is None else min(self.day, self.cells)
        return Bounds(1, day, self.cells, series, rois, False)

    def units(self, unit: str) -> int:
        """Return the largest number of privacy units that change if the person is added."""
        days = self.cells if self.days is None else min(self.days, self.cells)
        most = {"user": self.releases, "user_day": days, "roi_series": self.bounds.rois}
        return min(self.cells, most.get(unit, self.cells))


Substitutes = tuple[tuple[Visits, float], ...]
"""Visits of a user drawn at random, with their probabilities."""


class Basis(Protocol):
    """One reason why an adversary cannot do better.

    ``tight``: whether some adversary reaches the bound if the person is added; ``reason``: why it
    holds, as a clause.
    """

    @property
    def tight(self) -> bool:
        """Whether it is reached."""

    @property
    def reason(self) -> str:
        """Why it holds."""

    def added(self, visits: Visits) -> Changes | None:
        """Return what changes if a person is added or removed; None if that is not bounded."""

    def replaced(self, visits: Visits) -> Changes:
        """Return the same if a person is replaced, where one of the two has a visit."""

    def against(self, visits: Visits, others: Substitutes) -> Changes:
        """Return the same if a person is replaced by one drawn from ``others``."""


@dataclass(frozen=True, slots=True)
class CountBasis:
    """Independent noise on each changed count, of which the ``loss`` is known."""

    loss: CellLoss
    tight: bool
    reason: str

    def added(self, visits: Visits) -> Changes:
        """Return the loss of all changed counts."""
        return Changes(self.loss, visits.cells)

    def replaced(self, visits: Visits) -> Changes:
        """Return the larger loss of both directions."""
        return Changes(self.loss.either_way(), visits.cells)

    def against(self, visits: Visits, others: Substitutes) -> Changes:
        """Return the losses of the visits of both."""
        return Changes(self.loss, visits.cells, _shares([(v.cells, p) for v, p in others]))


@dataclass(frozen=True, slots=True)
class SeriesBasis:
    """Independent noise on each ROI, which has (``epsilon``, ``delta``) for one person."""

    epsilon: float
    delta: float
    reason: str
    tight: bool = False

    def added(self, visits: Visits) -> Changes:
        """Return the loss of all visited ROIs."""
        return self._changes(1, visits.bounds.rois)

    def replaced(self, visits: Visits) -> Changes:
        """Return the loss if both persons are in each of the ROIs."""
        return self._changes(2, visits.bounds.rois)

    def against(self, visits: Visits, others: Substitutes) -> Changes:
        """Return the loss if one visits all the ROIs that the other does, which is the worst."""
        own = visits.bounds.rois
        most = _shares([(max(own, other.bounds.rois), share) for other, share in others])
        return Changes(bounded_loss(*group_privacy(self.epsilon, self.delta, 2)), 0, most)

    def _changes(self, n_units: int, n_rois: int) -> Changes:
        return Changes(bounded_loss(*group_privacy(self.epsilon, self.delta, n_units)), n_rois)


@dataclass(frozen=True, slots=True)
class GuaranteeBasis:
    """A stated guarantee, and nothing about how noise is shared: group privacy."""

    guarantee: Guarantee
    tight: bool = False

    @property
    def reason(self) -> str:
        """The reason of the guarantee."""
        return f"its guarantee: {self.guarantee.reason}"

    def added(self, visits: Visits) -> Changes | None:
        """Return the loss of all units of the person; None if units are only replaced."""
        if self.guarantee.neighbours == "replace":
            return None
        return self._mixed([(visits.units(self.guarantee.unit), 1.0)])

    def replaced(self, visits: Visits) -> Changes:
        """Return the loss if each unit is removed and another added, except events."""
        twice = self.guarantee.unit != "event" and self.guarantee.neighbours == "add_remove"
        return self._mixed([(visits.units(self.guarantee.unit) * (1 + twice), 1.0)])

    def against(self, visits: Visits, others: Substitutes) -> Changes:
        """Return the loss of all units of both."""
        unit, own = self.guarantee.unit, visits.units(self.guarantee.unit)
        if self.guarantee.neighbours == "replace" and unit == "user":
            return self._mixed([(max(own, other.units(unit)), share) for other, share in others])
        return self._mixed([(own + other.units(unit), share) for other, share in others])

    def _mixed(self, shares: list[tuple[int, float]]) -> Changes:
        stated = self.guarantee
        losses = [
            (*group_privacy(stated.epsilon, stated.delta, n), share) for n, share in _shares(shares)
        ]
        return Changes(mixed_loss(losses), 1)


def _shares(numbers: list[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Return the distinct numbers, increasing, with the sum of the shares of each."""
    shares: dict[int, float] = {}
    for n, share in numbers:
        shares[n] = shares.get(n, 0.0) + share
    return tuple(sorted(shares.items()))


def bases(mechanism: Mechanism, group_size: int, visits: Visits) -> Iterator[Basis]:
    """Yield the reasons that a mechanism gives why nobody can do better, up to one that is tight.

    Parameters
    ----------
    mechanism
        A bound mechanism.
    group_size
        Members of a group.
    visits
        What the person changes.
    """
    if mechanism.uses_weights or stability_of(mechanism.trace_steps) is None:
        return
    if (basis := _of_cells(mechanism, group_size)) is not None:
        yield basis
        if basis.tight:
            return
    stated, by_series = mechanism.guarantee, _scope(mechanism) == "series"
    needed = 1.0 if stated.unit == "event" else mechanism.required_sensitivity(visits.bounds)
    covered = not needed > stated.sensitivity * (1 + 1e-9)
    if stated.unit != "none" and np.isfinite(stated.epsilon) and stated.delta < 1 and covered:
        group = GuaranteeBasis(stated)
        if by_series and stated.unit == "roi_series" and stated.neighbours == "add_remove":
            yield SeriesBasis(stated.epsilon, stated.delta, group.reason)
        else:
            yield group
    known = mechanism.user_privacy_loss(visits.bounds)
    if isinstance(known, ApproximateLoss) and by_series and known.n <= visits.bounds.rois:
        reason = "its privacy loss for each place that the person visits"
        yield SeriesBasis(known.epsilon, known.delta, reason)


def _of_cells(mechanism: Mechanism, group_size: int) -> CountBasis | None:
    """Return the basis from the distribution of each published count; None if that is unknown."""
    kept = _share_kept(mechanism)
    if _scope(mechanism) != "cell":
        sampled = sample_loss(None, kept)
        return None if sampled is None else CountBasis(sampled, False, _SAMPLED)
    law, reason = mechanism.law(group_size), _POSTPROCESSED
    loss: CellLoss | None
    if (stated := mechanism.cell_change(group_size)) is not None:
        loss, tight = loss_of_change(stated), stated.tight
    elif isinstance(law, FiniteDistribution) and group_size <= _MOST_COUNTS:
        loss, reason = losses_of_counts(law, group_size), _WORST
        tight = loss.tight
    else:
        noise = law.noise if isinstance(law, OutputDistribution) else mechanism.noise
        loss = None if noise is None else loss_of_noise(noise)
        tight = law is not None and not law.revised
    if (loss := sample_loss(loss, kept)) is None:
        return None
    tight = tight and mechanism.noise_scope == "cell"
    return CountBasis(loss, tight, _EXACT if tight else reason)


def _share_kept(mechanism: Mechanism) -> float:
    """Return the probability that the last trace steps of a mechanism keep a visit."""
    kept = 1.0
    for step in reversed(mechanism.trace_steps):
        if not isinstance(step, SampleTraces):
            break
        kept *= 1 - step.remove
    return kept


def without_sampling(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism if all visits are kept: then an adversary does no worse."""
    if isinstance(mechanism, Chain):
        left = tuple(step for step in mechanism.steps if not isinstance(step, SampleTraces))
        return Chain(steps=left) if left else Exact()
    return Exact() if isinstance(mechanism, SampleTraces) else mechanism


def _scope(mechanism: Mechanism) -> NoiseScope:
    """Return how far the same noise reaches: what a chain does after noise does not matter."""
    if isinstance(mechanism, Chain):
        drawing = [step for step in mechanism.steps if step.stage in ("sample", "noise")]
        if drawing:
            return Chain(steps=tuple(drawing)).noise_scope
    return mechanism.noise_scope
