"""Composition of privacy losses, and the curve of the best test of a whole release."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.analyses.certify.loss import CellLoss

Floats = NDArray[np.float64]

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
        if times == 1:
            return self
        if self.infinite >= 1:
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
        most = part.own + max((n for n, _ in part.others), default=0)
        loss, times = part.loss.repeated(most)
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
    return _single(one, step, removed).power(n)


@lru_cache(maxsize=64)
def _single(loss: CellLoss, step: float, removed: bool) -> LossGrid:
    return LossGrid.of(loss, step, removed=removed)


@lru_cache(maxsize=8)
def _substitute(
    loss: CellLoss, step: float, others: tuple[tuple[int, float], ...], removed: bool
) -> LossGrid:
    """Return the loss of the substitute's visits."""
    grids = [_power(loss, step, n, removed) for n, _ in others]
    return _mix(grids, [share for _, share in others])
