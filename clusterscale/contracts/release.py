"""What is published, and what the publisher says of it."""

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
    """The law of what is added to every count, independently, before clipping and rounding.

    ``scale`` is in visits: the scale b of a Laplace law and of its whole-numbered kin (two-sided
    geometric, P(n) ∝ exp(−|n| / b)), the standard deviation of a Gaussian.
    """

    law: Literal["none", "laplace", "geometric", "gaussian"]
    scale: float = 0.0


NO_NOISE = Noise("none")
"""Counts are published as they are."""


class CellLaw(Protocol):
    """How each count is published, whatever the others are."""

    @property
    def revised(self) -> bool:
        """Whether noise is not all that a count meets: it is rounded, or hidden where small."""

    def likelihood(self, values: NDArray[Any], counts: NDArray[Any]) -> Values:
        """Return how likely each value is, shape (group, cell, count), up to a factor a value.

        ``values``, shape (group, cell), may have been published of ``counts``, shape (cell,
        count).
        """

    def moments(self, counts: NDArray[Any]) -> tuple[Values, Values]:
        """Return the mean and the variance of what is published of each count, (count,)."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Release:
    """What is published of one or many groups, with what the publisher says about it.

    Compared by identity, so that what several attacks derive from it is derived once.

    Attributes
    ----------
    values
        float64, or int32 where the counts themselves are published, shape (group, roi, epoch).
    group_size
        Members in each group.
    mechanism
        Public description of the mechanism, e.g. ``laplace(epsilon=1.0)``.
    noise
        Its law of noise, or None where it does not simply add independent noise.
    law
        How each count is published, or None where that is not known of a count by itself.
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
    """Return what ``mechanism`` makes of ``counts``; untouched counts are not copied."""
    values: Values | Counts = counts
    if mechanism.noise != NO_NOISE:
        values = mechanism.release(counts, group_size=group_size, rng=rng)
    law = mechanism.law(group_size)
    return Release(values, group_size, mechanism.label, mechanism.noise, law)
