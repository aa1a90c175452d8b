"""Published values with their public description."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts.traces import Counts, Ints, Values

if TYPE_CHECKING:
    from clusterscale.contracts.protocols import Mechanism

__all__ = ["NO_NOISE", "CellLaw", "Noise", "Release", "publish"]


@dataclass(frozen=True, slots=True)
class Noise:
    """Distribution of the noise added to every count, independently, before clipping and rounding.

    ``scale`` is in visits: the scale b of the Laplace distribution and of its discrete analogue
    (two-sided geometric, P(n) ∝ exp(−|n| / b)), or the standard deviation of a Gaussian.
    """

    law: Literal["none", "laplace", "geometric", "gaussian"]
    scale: float = 0.0


NO_NOISE = Noise("none")
"""Counts are published as they are."""


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


def publish(
    counts: Counts, mechanism: Mechanism, *, group_size: int, rng: np.random.Generator
) -> Release:
    """Return ``counts`` published by ``mechanism``; unchanged counts are not copied."""
    values: Values | Counts = counts
    if mechanism.noise != NO_NOISE:
        values = mechanism.release(counts, group_size=group_size, rng=rng)
    law = mechanism.law(group_size)
    return Release(values, group_size, mechanism.label, mechanism.noise, law)
