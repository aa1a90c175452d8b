"""Why no adversary can do better: what a mechanism states, for what one person changes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from clusterscale import contracts
from clusterscale.analyses.certify.loss import (
    CellLoss,
    Changes,
    GaussianShift,
    LaplaceShift,
    Pair,
    PairLoss,
    SampledLoss,
    bounded_loss,
    mixed_loss,
)
from clusterscale.contracts.mechanism import group_privacy
from clusterscale.foreign import is_foreign
from clusterscale.mechanisms.accounting import ApproximateLoss, needs_equal_numbers, scope_of_noise
from clusterscale.mechanisms.base import Exact
from clusterscale.mechanisms.chain import Chain
from clusterscale.mechanisms.declared_noise import noise_fault
from clusterscale.mechanisms.law import FiniteDistribution, OutputDistribution
from clusterscale.mechanisms.noise import DiscreteLaplaceNoise, GaussianNoise, LaplaceNoise
from clusterscale.mechanisms.sampling import SampleTraces
from clusterscale.study.foreign_code import classes_in

_EXACT = "each changed count is published with independent noise of a known distribution"
_POSTPROCESSED = "the noise on each changed count; what follows it can only lower the ceiling"
_SAMPLED = "each changed count is counted with some probability only"
_WORST = "each changed count is one of those that reveal most"


def loss_of_noise(noise: contracts.Noise) -> CellLoss | None:
    """Return the loss of a count with independent noise; None if it is not bounded or not known.

    Parameters
    ----------
    noise
        The noise; NO_NOISE bounds nothing.
    """
    if noise == contracts.NO_NOISE or not np.isfinite(noise.scale) or noise.scale <= 0:
        return None
    if isinstance(noise, LaplaceNoise):
        return LaplaceShift(noise.scale)
    if isinstance(noise, GaussianNoise):
        return GaussianShift(1 / noise.scale)
    if isinstance(noise, DiscreteLaplaceNoise):  # only whether the value exceeds the count matters
        return bounded_loss(1 / noise.scale)
    if not noise.whole:
        return None
    # 1e-16: probability of noise beyond which a loss is counted as infinite
    far = int(-noise.quantile(np.array([1e-16]))[0]) + 1
    values = np.arange(-far, far + 2.0)
    without, inside = noise.density(values), noise.density(values - 1)
    rest = [max(0.0, 1 - float(side.sum())) for side in (without, inside)]
    pair = (*without.tolist(), rest[0], 0.0), (*inside.tolist(), 0.0, rest[1])
    return PairLoss((pair,))


def loss_of_change(change: contracts.CellChange) -> CellLoss | None:
    """Return the loss of a stated change; None if nothing bounds it.

    Parameters
    ----------
    change
        As the mechanism states it.
    """
    if change.inside:
        return PairLoss(((change.without, change.inside),))
    if change.noise is None:
        return None
    return sample_loss(loss_of_noise(change.noise), change.kept)


def sample_loss(loss: CellLoss | None, kept: float) -> CellLoss | None:
    """Return the loss of a visit that is counted with probability ``kept``.

    Parameters
    ----------
    loss
        If it is counted; None: nothing bounds it, and then only that it may not be counted.
    kept
        From 0 to 1.
    """
    if kept == 1:
        return loss
    if kept == 0:
        return PairLoss((((1.0,), (1.0,)),))
    if loss is None:
        return PairLoss((((1.0, 0.0), (1 - kept, kept)),))
    if isinstance(loss, PairLoss):
        return PairLoss(tuple(_sample(pair, kept) for pair in loss.pairs))
    return SampledLoss(loss, kept)


def _sample(pair: Pair, kept: float) -> Pair:
    without, inside = (np.array(side) for side in pair)
    return pair[0], tuple((kept * inside + (1 - kept) * without).tolist())


def losses_of_counts(law: FiniteDistribution, group_size: int) -> PairLoss:
    """Return the loss of the count that a visit changes most, of a finite output distribution.

    Parameters
    ----------
    law
        Possible values of each count.
    group_size
        The largest count.
    """
    counts = np.arange(group_size + 1)
    values, probabilities = law.published(counts)
    values = np.round(values.reshape(len(counts), -1) - counts[:, None], 9)
    next_values = np.round(values[1:] + 1, 9)
    rows = np.hstack(
        [values[:-1], next_values, probabilities[:-1].reshape(group_size, -1),
         probabilities[1:].reshape(group_size, -1)]
    )  # fmt: skip
    n_values = 2 * values.shape[1]
    pairs: dict[Pair, None] = {}
    for row in np.unique(rows, axis=0):
        distinct, which = np.unique(row[:n_values], return_inverse=True)
        own = np.zeros((2, len(distinct)))
        np.add.at(own[0], which[: n_values // 2], row[n_values : n_values * 3 // 2])
        np.add.at(own[1], which[n_values // 2 :], row[n_values * 3 // 2 :])
        own = own[:, own.any(axis=0)]
        pairs[tuple(own[0].tolist()), tuple(own[1].tolist())] = None
    return PairLoss(tuple(pairs))


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
    n_units
        Number of privacy units, events or days, that the person has, exactly; None: not known. If
        the person is replaced, so many of the other take their place: a guarantee about replaced
        units says nothing if the two have different numbers of them.
    """

    cells: int
    rois: int | None = None
    series: int | None = None
    days: int | None = None
    day: int | None = None
    releases: int = 1
    n_units: int | None = None

    @property
    def bounds(self) -> contracts.Bounds:
        """The same as limits of a mechanism's sensitivity."""
        rois = self.cells if self.rois is None else self.rois
        series = self.cells if self.series is None else self.series
        day = self.cells if self.day is None else min(self.day, self.cells)
        return contracts.Bounds(1, day, self.cells, series, rois, False)

    def units(self, unit: str) -> int:
        """Return the largest number of privacy units that change if the person is added."""
        days = self.cells if self.days is None else min(self.days, self.cells)
        most = {"user": self.releases, "user_day": days, "roi_series": self.bounds.rois}
        return min(self.cells, most.get(unit, self.cells))


NO_LIMITS = Visits(0)


def widest(visits: Sequence[Visits]) -> Visits:
    """Return visits that are nowhere fewer than any of these."""
    cells = max((one.cells for one in visits), default=0)
    limits = replace(visits[0], n_units=None) if visits else NO_LIMITS
    if any(one.rois is None or one.series is None for one in visits):
        return replace(limits, cells=cells, rois=None, series=None)
    rois = max((one.rois or 0 for one in visits), default=0)
    series = max((one.series or 0 for one in visits), default=0)
    return replace(limits, cells=cells, rois=rois, series=series)


def needs_series(mechanism: contracts.Mechanism) -> bool:
    """Return whether the ceiling depends on the places of visits, not only on their number."""
    return mechanism.noise_scope == "series" or mechanism.guarantee.unit == "roi_series"


Substitutes = tuple[tuple[Visits, float], ...]
"""Visits of a user drawn at random, with their probabilities."""


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

    guarantee: contracts.Guarantee
    tight: bool = False

    @property
    def reason(self) -> str:
        """The reason of the guarantee."""
        return f"its guarantee: {self.guarantee.reason}"

    def added(self, visits: Visits) -> Changes | None:
        """Return the loss of all units of the person; None if units are only replaced."""
        return self._mixed([((0, visits.units(self.guarantee.unit)), 1.0)])

    def replaced(self, visits: Visits) -> Changes | None:
        """Return the loss if each unit is removed and another added, except events."""
        counted = self.guarantee.unit == "event" or self.guarantee.neighbours == "replace"
        other = replace(visits, cells=0) if counted else visits  # these are the cells of both
        return self._mixed([(self._exchanged(visits, other), 1.0)])

    def against(self, visits: Visits, others: Substitutes) -> Changes | None:
        """Return the loss of all units of both."""
        return self._mixed([(self._exchanged(visits, other), share) for other, share in others])

    def _exchanged(self, own: Visits, other: Visits) -> tuple[int, int]:
        """Return how many units are removed, and how many are added, if one replaces the other."""
        unit = self.guarantee.unit
        if self.guarantee.neighbours == "add_remove":
            return own.units(unit), other.units(unit)
        if unit == "user":  # each is one of the members in every release
            return (min(own.releases, own.cells + other.cells),) * 2
        return own.n_units or 0, other.n_units or -1  # not equal if one of them is not known

    def _mixed(self, changed: list[tuple[tuple[int, int], float]]) -> Changes | None:
        """Return the loss of changes with their shares; None if nothing follows for any of them."""
        losses = _shares([(self.guarantee.imply(*units), share) for units, share in changed])
        if all(epsilon == np.inf for (epsilon, _), _ in losses):
            return None
        return Changes(mixed_loss([(*pair, share) for pair, share in losses]), 1)


Key = TypeVar("Key", int, tuple[float, float])


def _shares(numbers: list[tuple[Key, float]]) -> tuple[tuple[Key, float], ...]:
    """Return the distinct numbers, increasing, with the sum of the shares of each."""
    shares: dict[Key, float] = {}
    for n, share in numbers:
        shares[n] = shares.get(n, 0.0) + share
    return tuple(sorted(shares.items()))


# One reason why an adversary cannot do better. ``tight``: whether some adversary reaches the bound
# if the person is added; ``reason``: why it holds, as a clause. ``added`` returns what changes if a
# person is added or removed, None if that is not bounded; ``replaced`` the same if a person is
# replaced, where one of the two has a visit; ``against`` if by one who is drawn from others. Of a
# guarantee about replaced events or days, both are None unless the numbers are known and equal.
Basis = CountBasis | SeriesBasis | GuaranteeBasis


def bases(mechanism: contracts.Mechanism, group_size: int, visits: Visits) -> Iterator[Basis]:
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
    if mechanism.uses_weights or contracts.stability_of(mechanism.trace_steps) is None:
        return
    if false_statement(mechanism):
        return
    if (basis := _of_cells(mechanism, group_size)) is not None:
        yield basis
        if basis.tight:
            return
    stated, by_series = mechanism.guarantee, scope_of_noise(mechanism) == "series"
    needed = 1.0 if stated.unit == "event" else mechanism.required_sensitivity(visits.bounds)
    covered = not needed > stated.sensitivity * (1 + 1e-9)
    if stated.unit != "none" and np.isfinite(stated.epsilon) and stated.delta < 1 and covered:
        group = GuaranteeBasis(stated)
        if by_series and stated.unit == "roi_series" and stated.neighbours == "add_remove":
            yield SeriesBasis(stated.epsilon, stated.delta, group.reason)
        else:
            yield group
    if needs_equal_numbers(mechanism):
        return
    known = mechanism.user_privacy_loss(visits.bounds)
    if isinstance(known, ApproximateLoss) and by_series and known.n <= visits.bounds.rois:
        reason = "its privacy loss for each place that the person visits"
        yield SeriesBasis(known.epsilon, known.delta, reason)


def false_statement(mechanism: contracts.Mechanism) -> str:
    """Return what a mechanism of another package declares falsely of its noise; empty if none."""
    if not any(map(is_foreign, classes_in(mechanism))):
        return ""
    if mechanism.n_tables > 1:
        return "it publishes several tables, whose noise is not compared with what is declared"
    return noise_fault(mechanism)


def _of_cells(mechanism: contracts.Mechanism, group_size: int) -> CountBasis | None:
    """Return the basis from the distribution of each published count; None if that is unknown."""
    kept = _share_kept(mechanism)
    if scope_of_noise(mechanism) != "cell":
        sampled = sample_loss(None, kept)
        return None if sampled is None else CountBasis(sampled, False, _SAMPLED)
    law, reason = mechanism.law(group_size), _POSTPROCESSED
    loss: CellLoss | None
    if (stated := mechanism.cell_change(group_size)) is not None:
        loss, tight = loss_of_change(stated), stated.tight
    # 1 << 17: counts up to which distributions are compared one by one
    elif isinstance(law, FiniteDistribution) and group_size <= 1 << 17:
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


def _share_kept(mechanism: contracts.Mechanism) -> float:
    """Return the probability that the last trace steps of a mechanism keep a visit."""
    kept = 1.0
    for step in reversed(mechanism.trace_steps):
        if not isinstance(step, SampleTraces):
            break
        kept *= 1 - step.remove
    return kept


def without_sampling(mechanism: contracts.Mechanism) -> contracts.Mechanism:
    """Return the mechanism if all visits are kept: then an adversary does no worse."""
    if isinstance(mechanism, Chain):
        left = tuple(step for step in mechanism.steps if not isinstance(step, SampleTraces))
        return Chain(steps=left) if left else Exact()
    return Exact() if isinstance(mechanism, SampleTraces) else mechanism
