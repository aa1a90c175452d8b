"""The privacy loss of one count that changes by 1, for several kinds of output distributions.

δ(ε) is the hockey-stick divergence of the published value with a visit from that without it: the
sum of max(0, P − e^ε Q), for ε of any sign. It decides how well any test can tell the two apart.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]
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
    """The loss of a visit that is counted with probability ``kept``, before noise is added."""

    whole: CellLoss
    kept: float

    n_steps = 1 << 12

    @property
    def largest(self) -> float:
        """Largest loss of either direction: ln(1 + kept·(e^ε − 1))."""
        ends = np.array([-1, 1]) * self.whole.largest
        return float(np.abs(np.log1p(self.kept * np.expm1(ends))).max())

    def delta(self, epsilon: Floats, *, removed: bool = False) -> Floats:
        """Return δ of kept·P + (1 − kept)·Q from Q, or the reverse (Balle et al., NeurIPS 2018)."""
        factor = np.exp(epsilon)
        if removed:
            weight = 1 - factor * (1 - self.kept)
            ratio = factor * self.kept / np.where(weight > 0, weight, 1.0)
            return np.asarray(np.where(weight > 0, weight * self.whole.delta(np.log(ratio)), 0.0))
        rest = (factor - (1 - self.kept)) / self.kept
        inner = self.kept * self.whole.delta(np.log(np.where(rest > 0, rest, 1.0)))
        return np.asarray(np.where(rest > 0, inner, 1 - factor))

    def either_way(self) -> "EitherLoss":
        """Return the larger of both directions."""
        return EitherLoss(self)


@dataclass(frozen=True)
class EitherLoss(CellLoss):
    """The larger of both directions of a loss, for each ε."""

    loss: CellLoss

    @property
    def n_steps(self) -> int:  # type: ignore[override]
        """That of the loss."""
        return self.loss.n_steps

    @property
    def largest(self) -> float:
        """That of the loss."""
        return self.loss.largest

    def delta(self, epsilon: Floats, *, removed: bool = False) -> Floats:
        """Return the larger δ."""
        ways = (self.loss.delta(epsilon, removed=way) for way in (False, True))
        return np.maximum(*ways)


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
