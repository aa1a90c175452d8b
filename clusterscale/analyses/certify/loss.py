"""The privacy loss of a count that changes by 1, its composition, and the best test of a release.

δ(ε) is the hockey-stick divergence of the published value with a visit from that without it: the
sum of max(0, P − e^ε Q), for ε of any sign. It decides how well any test can tell the two apart.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import scipy

from clusterscale.contracts import Floats

Pair = tuple[tuple[float, ...], tuple[float, ...]]

_SAME = 1e-9  # losses, and probabilities, that differ by less are equal


class CellLoss(ABC):
    """The privacy loss of one count that changes by 1; equal objects have equal distributions."""

    n_steps: int = 200
    """Steps of a grid in the largest loss; the error falls with their square."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest finite loss, in either direction."""

    @property
    def lattice(self) -> float | None:
        """A number of which all finite losses are multiples; None if there is none."""
        return None

    @abstractmethod
    def delta(self, epsilon: Floats, *, removed: bool = False) -> Floats:
        """Return δ at each ε: of the value with the visit from that without it, or the reverse.

        Parameters
        ----------
        epsilon
            float64, any shape, of either sign.
        removed
            Whether the divergence is of the value without the visit.
        """

    def repeated(self, times: int) -> tuple["CellLoss", int]:
        """Return a loss and a number: that many of it are ``times`` of this."""
        return self, times

    def either_way(self) -> "CellLoss":
        """Return the larger of both directions: of a count that loses or gains a visit."""
        return self


@dataclass(frozen=True)
class LaplaceShift(CellLoss):
    """Laplace noise of the given scale, in visits, on a count that changes by 1."""

    scale: float

    @property
    def largest(self) -> float:
        """1/scale."""
        return 1 / self.scale

    def delta(self, epsilon: Floats, *, removed: bool = False) -> Floats:
        """Return δ, the same in both directions: 1 − exp((ε − 1/scale)/2) within ±1/scale."""
        inside = -np.expm1((np.minimum(epsilon, self.largest) - self.largest) / 2)
        return np.asarray(np.where(epsilon < -self.largest, -np.expm1(epsilon), inside))


@dataclass(frozen=True)
class GaussianShift(CellLoss):
    """Normal noise on a count that changes by ``shift`` of its deviations."""

    shift: float
    n_steps = 1 << 14

    @property
    def largest(self) -> float:
        """The loss that normal noise exceeds with negligible probability."""
        # 8.3: deviations beyond which normal noise has a probability of 1e-16
        return self.shift * (self.shift / 2 + 8.3)

    def delta(self, epsilon: Floats, *, removed: bool = False) -> Floats:
        """Return δ, the same in both directions (Balle and Wang, ICML 2018, Theorem 5)."""
        middle, away = self.shift / 2, epsilon / self.shift
        own = scipy.special.ndtr(middle - away)
        return np.asarray(own - np.exp(epsilon + scipy.special.log_ndtr(-middle - away)))

    def repeated(self, times: int) -> tuple[CellLoss, int]:
        """Return one loss of a shift that is √times as large."""
        return GaussianShift(self.shift * times**0.5), 1


@dataclass(frozen=True)
class PairLoss(CellLoss):
    """A few published values, of which the probabilities without and with a visit are known.

    Several ``pairs`` (without, with) are the changes of different counts: δ is the largest of all,
    which no count exceeds.
    """

    pairs: tuple[Pair, ...]
    n_steps = 1 << 14

    @property
    def largest(self) -> float:
        """The largest finite loss of any pair."""
        return float(np.abs(self._losses).max(initial=0.0))

    @property
    def lattice(self) -> float | None:
        """The smallest loss other than 0, if all are multiples of it."""
        losses = np.abs(self._losses)
        losses = losses[losses > _SAME]
        if not losses.size:
            return 1.0
        ratios = losses / losses.min()
        return float(losses.min()) if (np.abs(ratios - np.rint(ratios)) < _SAME).all() else None

    def either_way(self) -> "PairLoss":
        """Return the loss of all pairs in both directions; itself if these are equal."""
        breaks = np.unique(np.concatenate([self._losses, -self._losses]))
        ways = self.delta(breaks), self.delta(breaks, removed=True)
        if np.allclose(*ways, rtol=0, atol=1e-13):
            return self
        return PairLoss(tuple(dict.fromkeys([*self.pairs, *(pair[::-1] for pair in self.pairs)])))

    @property
    def tight(self) -> bool:
        """Whether one pair has the largest δ for every ε."""
        breaks = np.unique(self._losses)  # δ is linear in e^ε between them
        of_each = np.array([_hockey_stick(pair, breaks) for pair in self.pairs])
        return bool((of_each >= of_each.max(axis=0) - 1e-12).all(axis=1).any())

    def delta(self, epsilon: Floats, *, removed: bool = False) -> Floats:
        """Return the largest δ of all pairs."""
        pairs = [pair[::-1] if removed else pair for pair in self.pairs]
        return np.asarray(np.max([_hockey_stick(pair, epsilon) for pair in pairs], axis=0))

    @cached_property
    def _losses(self) -> Floats:
        losses = []
        for without, inside in (np.array(pair) for pair in self.pairs):
            both = (without > 0) & (inside > 0)
            losses.append(np.log(inside[both] / without[both]))
        return np.concatenate([*losses, np.zeros(1)])


@dataclass(frozen=True)
class SampledLoss(CellLoss):
    """The loss of a visit that is counted with probability ``kept``, before noise is added.

    ``either``: the larger of both directions, for each ε.
    """

    whole: CellLoss
    kept: float
    either: bool = False

    n_steps = 1 << 12

    @property
    def largest(self) -> float:
        """Largest loss of either direction: ln(1 + kept·(e^ε − 1))."""
        ends = np.array([-1, 1]) * self.whole.largest
        return float(np.abs(np.log1p(self.kept * np.expm1(ends))).max())

    def delta(self, epsilon: Floats, *, removed: bool = False) -> Floats:
        """Return δ of kept·P + (1 − kept)·Q from Q, or the reverse (Balle et al., NeurIPS 2018)."""
        if self.either:
            one = replace(self, either=False)
            return np.maximum(*(one.delta(epsilon, removed=way) for way in (False, True)))
        factor = np.exp(epsilon)
        if removed:
            weight = 1 - factor * (1 - self.kept)
            ratio = factor * self.kept / np.where(weight > 0, weight, 1.0)
            return np.asarray(np.where(weight > 0, weight * self.whole.delta(np.log(ratio)), 0.0))
        rest = (factor - (1 - self.kept)) / self.kept
        inner = self.kept * self.whole.delta(np.log(np.where(rest > 0, rest, 1.0)))
        return np.asarray(np.where(rest > 0, inner, 1 - factor))

    def either_way(self) -> CellLoss:
        """Return the larger of both directions."""
        return replace(self, either=True)


def bounded_loss(epsilon: float, delta: float = 0.0) -> PairLoss:
    """Return the largest loss that (ε, δ)-differential privacy allows: that of randomised response.

    Parameters
    ----------
    epsilon, delta
        The guarantee; both are finite.

    Returns
    -------
    PairLoss
        Equal guarantees have equal losses.
    """
    return mixed_loss([(epsilon, delta, 1.0)])


def mixed_loss(guarantees: Sequence[tuple[float, float, float]]) -> PairLoss:
    """Return the largest loss if one of several guarantees holds, and the adversary knows which.

    Parameters
    ----------
    guarantees
        ε, δ and the probability of each.
    """
    without: list[float] = []
    inside: list[float] = []
    for epsilon, delta, share in guarantees:
        sure = delta if epsilon < 50.0 else 1.0  # ε above which a guarantee is counted as none
        high, low = (
            share * (1 - sure) * float(scipy.special.expit(e)) for e in (epsilon, -epsilon)
        )
        without += [0.0, low, high, share * sure]
        inside += [share * sure, high, low, 0.0]
    return PairLoss(((tuple(without), tuple(inside)),))


def _hockey_stick(pair: Pair, epsilon: Floats) -> Floats:
    """Return the sum of max(0, inside − e^ε without), from sums over the values sorted by loss."""
    without, inside = (np.array(side) for side in pair)
    only = inside[without == 0].sum()
    both = (without > 0) & (inside > 0)
    loss = np.log(inside[both] / without[both])
    order = np.argsort(loss)
    own, other = (
        np.append(np.cumsum(values[both][order][::-1])[::-1], 0.0) for values in (inside, without)
    )
    first = np.searchsorted(loss[order], epsilon, side="right")
    return np.asarray(np.maximum(only + own[first] - np.exp(epsilon) * other[first], 0.0))


_TAIL = 1e-15  # probability of losses that may be counted as infinite


@dataclass(frozen=True, slots=True)
class Changes:
    """Counts that change by 1 and have the same loss.

    Attributes
    ----------
    loss
        The loss of each.
    own
        Number of those that have a visit of the target.
    others
        Numbers of those that have a visit of the substitute, and their shares: the substitute is
        drawn at random, and the adversary knows who it is.
    """

    loss: CellLoss
    own: int
    others: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, eq=False)
class LossGrid:
    """Distribution of a privacy loss on multiples of ``step``, rounded towards exposure.

    Attributes
    ----------
    step
        Distance of the losses.
    first
        Index of the first loss.
    mass
        Probability of each loss, float64, shape (loss,).
    infinite
        Probability of an infinite loss.
    """

    step: float
    first: int
    mass: Floats
    infinite: float

    @classmethod
    def of(cls, loss: CellLoss, step: float, *, removed: bool) -> "LossGrid":
        """Return the loss of one count: by straight lines between δ at multiples of the step.

        δ is convex in e^ε, so the lines are above it (Doroshenko et al., PoPETs 2022).

        Parameters
        ----------
        loss
            The loss.
        step
            Distance of the losses on the grid.
        removed
            Whether the published value is that without the visit.
        """
        last = int(np.ceil(loss.largest / step - 1e-9))
        epsilon = step * np.arange(-last, last + 1, dtype=np.float64)
        delta = np.clip(loss.delta(epsilon, removed=removed), 0.0, 1.0)
        slopes = -np.diff(delta)
        up = np.append(1 - delta[0], slopes / -np.expm1(-step))
        down = np.append(slopes / np.expm1(step), 0.0)
        return cls(step, -last, up - down, float(delta[-1]))

    def power(self, times: int) -> "LossGrid":
        """Return the loss of ``times`` independent ones."""
        if times == 0:
            return LossGrid(self.step, 0, np.ones(1), 0.0)
        if times == 1 or self.infinite >= 1:
            return self
        low, high = self._range(times)
        if low > high:  # the tail has all that is finite
            return LossGrid(self.step, 0, np.zeros(1), 1.0)
        size = scipy.fft.next_fast_len(max(high - low + 1, len(self.mass)), real=True)
        mass = scipy.fft.irfft(scipy.fft.rfft(self.mass, size) ** times, size)
        mass = np.roll(mass, -low)[: high - low + 1]
        infinite = _TAIL - float(np.expm1(times * np.log1p(-self.infinite)))
        return LossGrid(self.step, self.first * times + low, mass, min(infinite, 1.0))

    def _range(self, times: int) -> tuple[int, int]:
        """Return the first and last index of the sum of ``times``, but for a tail (Chernoff)."""
        low, high = 0, (len(self.mass) - 1) * times
        bounds = (times * self._log_moments + np.log(2 / _TAIL)) / self._orders
        half = len(bounds) // 2
        low = max(low, int(np.floor(bounds[:half].max())))
        return low, min(high, int(np.ceil(bounds[half:].min())))

    @cached_property
    def _orders(self) -> Floats:
        positive = np.geomspace(1e-3, 20, 40)
        return np.concatenate([-positive, positive]) / len(self.mass)

    @cached_property
    def _log_moments(self) -> Floats:
        """Logarithm of the mean of exp(order · index), at each order."""
        exponents = np.outer(self._orders, np.arange(len(self.mass)))
        return np.asarray(np.log((np.exp(exponents) * self.mass).sum(axis=1)))  # at most e^20

    def plus(self, other: "LossGrid") -> "LossGrid":
        """Return the loss of both together."""
        mass = scipy.signal.fftconvolve(self.mass, other.mass)
        infinite = self.infinite + other.infinite - self.infinite * other.infinite
        return LossGrid(self.step, self.first + other.first, mass, infinite)


def _mix(grids: Sequence[LossGrid], shares: Sequence[float]) -> LossGrid:
    first = min(grid.first for grid in grids)
    mass = np.zeros(max(grid.first + len(grid.mass) for grid in grids) - first)
    for grid, share in zip(grids, shares, strict=True):
        start = grid.first - first
        mass[start : start + len(grid.mass)] += share * grid.mass
    infinite = sum(grid.infinite * share for grid, share in zip(grids, shares, strict=True))
    return LossGrid(grids[0].step, first, mass, float(infinite))


def best_test(parts: Sequence[Changes]) -> tuple[Floats, Floats]:
    """Return the ROC curve of the best test of whether the target is inside.

    Parameters
    ----------
    parts
        All counts that differ between a release with the target and one without.

    Returns
    -------
    tuple of ndarray
        False and true positive rates of its corners, float64, shape (corner,), increasing, from
        (0, ·) to (1, 1). The curve is above that of any test.
    """
    parts = [part for part in parts if part.own or any(n for n, _ in part.others)]
    if not parts:
        return np.array([0.0, 1.0]), np.array([0.0, 1.0])
    # 60.0: a loss with a larger bound for one count gives a person away
    if any(part.loss.largest > 60.0 for part in parts):
        return np.array([0.0, 1.0]), np.array([1.0, 1.0])
    step = _common_step(parts)
    inside = _total(parts, step, removed=False)
    outside = _total(parts, step, removed=True)
    hits, alarms = _tail(inside)
    correct, misses = _tail(outside)
    fpr = np.concatenate([[0.0], alarms, 1 - correct[::-1], [1 - outside.infinite, 1.0]])
    tpr = np.concatenate([[inside.infinite], hits, 1 - misses[::-1], [1.0, 1.0]])
    return _increasing(fpr), _increasing(tpr)


def _increasing(values: Floats) -> Floats:
    return np.asarray(np.maximum.accumulate(np.clip(values, 0.0, 1.0)))


def _tail(grid: LossGrid) -> tuple[Floats, Floats]:
    """Return the probabilities of losses above 0, from the largest, on both sides."""
    start = max(0, 1 - grid.first)
    losses = (np.arange(start, len(grid.mass)) + grid.first)[::-1] * grid.step
    mass = grid.mass[start:][::-1]
    return grid.infinite + np.cumsum(mass), np.cumsum(mass * np.exp(-losses))


def _common_step(parts: Sequence[Changes]) -> float:
    """Return the step of a grid for all parts."""
    losses = {part.loss for part in parts}
    if len(losses) == 1 and (lattice := next(iter(losses)).lattice) is not None:
        return lattice
    finest, spread = np.inf, 0.0
    for part in parts:
        loss, times = part.loss.repeated(part.own + max((n for n, _ in part.others), default=0))
        finest = min(finest, loss.largest / loss.n_steps)
        spread += 2 * loss.largest * min(times, 12 * times**0.5)
    return max(float(finest), spread / (1 << 20))  # of the grid of all losses together


def _total(parts: Sequence[Changes], step: float, *, removed: bool) -> LossGrid:
    total = None
    for part in parts:
        grid = _power(part.loss, step, part.own, removed)
        if part.others:
            grid = grid.plus(_substitute(part.loss, step, part.others, not removed))
        total = grid if total is None else total.plus(grid)
    assert total is not None
    return total


def _power(loss: CellLoss, step: float, times: int, removed: bool) -> LossGrid:
    one, n = loss.repeated(times) if times else (loss, 0)
    return _grid_of(one, step, removed=removed).power(n)


_grid_of = lru_cache(maxsize=64)(LossGrid.of)


@lru_cache(maxsize=8)
def _substitute(
    loss: CellLoss, step: float, others: tuple[tuple[int, float], ...], removed: bool
) -> LossGrid:
    """Return the loss of the substitute's visits."""
    grids = [_power(loss, step, n, removed) for n, _ in others]
    return _mix(grids, [share for _, share in others])
