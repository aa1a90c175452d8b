"""Noise, published values with their public description, and verdicts on a release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts.traces import Counts, Ints, Values

__all__ = ["NO_NOISE", "VERDICT_LEVELS", "CellLaw", "Level", "Noise", "NoiseSource", "Reason"]
__all__ += ["CellChange", "Release", "Support"]


@dataclass(frozen=True, slots=True)
class Noise(ABC):
    """Distribution of the noise added to every count, independently, before clipping and rounding.

    It is symmetric about 0.

    Attributes
    ----------
    scale
        In visits; NaN if the sensitivity is not known yet.
    whole
        Whether noise is whole numbers.
    exponential
        Whether the probability of x is proportional to exp(−abs(x) / scale).
    """

    scale: float = 0.0

    whole: ClassVar[bool] = False
    exponential: ClassVar[bool] = False

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance, in visits squared."""

    @abstractmethod
    def sample(self, n: int, *, rng: np.random.Generator) -> NDArray[Any]:
        """Draw ``n`` independent values, shape (n,)."""

    @abstractmethod
    def cdf(self, x: Values) -> Values:
        """Return the probability of noise of at most ``x``, without loss of precision below 0."""

    @abstractmethod
    def density(self, x: Values) -> Values:
        """Return the density at ``x``; if noise is whole numbers, the probability of ``x``."""

    @abstractmethod
    def quantile(self, probability: Values) -> Values:
        """Return the smallest noise whose :meth:`cdf` is at least each probability."""


@runtime_checkable
class NoiseSource(Protocol):
    """A generator of random numbers that draws noise by other means than :meth:`Noise.sample`.

    A mechanism that adds noise takes it from such a generator, as that of a real release is.
    """

    def draw(self, noise: Noise, n: int) -> NDArray[Any]:
        """Draw ``n`` independent values of a distribution, shape (n,)."""


class _NoNoise(Noise):
    whole = True

    @property
    def variance(self) -> float:
        return 0.0

    def sample(self, n: int, *, rng: np.random.Generator) -> Values:
        return np.zeros(n)

    def cdf(self, x: Values) -> Values:
        return np.asarray(x >= 0, np.float64)

    def density(self, x: Values) -> Values:
        return np.asarray(x == 0, np.float64)

    def quantile(self, probability: Values) -> Values:
        return np.zeros_like(probability)


NO_NOISE: Noise = _NoNoise()
"""Counts are published as they are."""


@dataclass(frozen=True, slots=True)
class Support:
    """Values that can be published.

    Attributes
    ----------
    low, high, step
        Multiples of ``step`` from ``low`` to ``high``; if ``step`` is 0, all real numbers between.
    per_series
        Most different values that are published for one ROI; None: any number.
    """

    low: float
    high: float
    step: float
    per_series: int | None = None

    @property
    def limited(self) -> bool:
        """Whether some numbers cannot be published."""
        return self.step > 0 or np.isfinite(self.low) or np.isfinite(self.high)

    def __str__(self) -> str:
        kind = {1.0: "whole numbers", 0.5: "multiples of ½"}.get(self.step, "numbers")
        low = f" from {self.low:g}" if np.isfinite(self.low) else ""
        high = f" up to {self.high:g}" if np.isfinite(self.high) else ""
        return kind + low + high


@dataclass(frozen=True, slots=True)
class CellChange:
    """How one more visit changes the distribution of a published value, for the worst count.

    Without noise and probabilities, nothing bounds the change.

    Attributes
    ----------
    noise
        Noise that is added to the count; None if there is another distribution.
    kept
        Probability that the visit is counted, before noise is added.
    without, inside
        Otherwise, probabilities of the same values without and with the visit.
    tight
        Whether some count is changed like this, so that there is no better bound.
    """

    noise: Noise | None = None
    kept: float = 1.0
    without: tuple[float, ...] = ()
    inside: tuple[float, ...] = ()
    tight: bool = True


class CellLaw(Protocol):
    """Output distribution of each count, independent of the other counts."""

    @property
    def revised(self) -> bool:
        """Whether a count is changed by more than noise: rounded, or suppressed if small."""

    def likelihood(self, values: NDArray[Any], counts: NDArray[Any]) -> Values:
        """Return the likelihood of each count, (group, cell, count), up to a factor per value.

        ``values``, shape (group, cell), are the published values; ``counts``, shape (cell, count),
        the candidate counts.
        """

    def moments(self, counts: NDArray[Any]) -> tuple[Values, Values]:
        """Return the mean and the variance of the published value of each count, (count,)."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Release:
    """Published values of one or many groups, with their public description.

    Compared by identity, so that several attacks can share values derived from it.

    Attributes
    ----------
    values
        float64, or int32 for unchanged counts, shape (group, roi, epoch).
    group_size
        Members in each group.
    mechanism
        Public description of the mechanism, e.g. ``laplace(epsilon=1.0)``.
    noise
        Its noise distribution, or None if it does not simply add independent noise.
    law
        Output distribution of each count, or None if unknown or dependent on other counts.
    """

    values: Values | Counts
    group_size: int
    mechanism: str
    noise: Noise | None = None
    law: CellLaw | None = None

    @property
    def flat(self) -> Values | Counts:
        """``values`` as shape (group, roi * epoch), without a copy."""
        return self.values.reshape(len(self.values), -1)

    def take(self, rows: Ints) -> Release:
        """Return the release of some of the groups; their values are copied."""
        return replace(self, values=self.values[rows])


Level = Literal["pass", "warn", "fail"]
VERDICT_LEVELS: tuple[Level, ...] = ("pass", "warn", "fail")
"""From best to worst."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Result of one check.

    Attributes
    ----------
    check
        Name of the check.
    level
        ``unknown`` if it could not be made, ``error`` if a rule of the policy could not be applied
        because its number is missing.
    measured, limit
        The number, and the limit that it exceeded; NaN if there is none.
    text
        A sentence.
    """

    check: str
    level: Level | Literal["unknown", "error"]
    measured: float
    limit: float
    text: str
