"""Distributions of the number of visits per user: the activity marginal (POPETS24 §4.3.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clusterscale.contracts import ConfigModel, Positive
from clusterscale.errors import InputError
from clusterscale.registry import Registry
from clusterscale.validation_messages import exact_number

Floats = NDArray[np.float64]


class ActivityLaw(ConfigModel):
    """A distribution of integers from 1 on with a given mean."""

    name: str

    @property
    def phrase(self) -> str:
        """Short display text."""
        return self.name

    def draw(self, mean: float, n: int, *, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw the number of visits of each of ``n`` users, int64, shape (n,), at least 1.

        The distribution has this ``mean`` before rounding and clipping to 1. With the same
        generator state, numbers increase with the mean.

        Raises
        ------
        InputError
            If ``mean`` is negative or not finite.
        """
        if not (np.isfinite(mean) and mean >= 0):
            raise InputError(f"the mean of visits is {mean}: it must be finite and not negative")
        return np.maximum(np.rint(self._scaled(mean, n, rng)), 1).astype(np.int64)

    def _scaled(self, mean: float, n: int, rng: np.random.Generator) -> Floats:
        raise NotImplementedError


class Exponential(ActivityLaw):
    """Exponential distribution, as in the paper; its only parameter is the mean."""

    name: Literal["exponential"] = "exponential"

    def _scaled(self, mean: float, n: int, rng: np.random.Generator) -> Floats:
        return rng.exponential(1.0, n) * mean


class LogNormal(ActivityLaw):
    """Log-normal distribution, typical of real activity; ``sigma`` is its log-sd.

    ``sigma`` is about 1 in the data of POPETS24 (Fig. 6). It cannot be estimated from an aggregate.

    Attributes
    ----------
    sigma
        Standard deviation of the natural logarithm of a user's number of visits.
    """

    name: Literal["lognormal"] = "lognormal"
    sigma: Positive = Field(default=1.0, le=5)

    @property
    def phrase(self) -> str:
        """The name with sigma."""
        return f"log-normal (σ {exact_number(self.sigma)})"

    def _scaled(self, mean: float, n: int, rng: np.random.Generator) -> Floats:
        return np.exp(rng.normal(-(self.sigma**2) / 2, self.sigma, n)) * mean


class Constant(ActivityLaw):
    """Everyone makes the mean number of visits."""

    name: Literal["constant"] = "constant"

    def _scaled(self, mean: float, n: int, rng: np.random.Generator) -> Floats:
        return np.full(n, mean)


ACTIVITIES: Registry[ActivityLaw] = Registry("activity", Constant, Exponential, LogNormal)


@dataclass(frozen=True, slots=True)
class VisitCounts:
    """Distribution of the number of visits per user.

    Attributes
    ----------
    mean
        Mean number of visits.
    law
        The distribution.
    """

    mean: float
    law: ActivityLaw = field(default_factory=Exponential)

    def draw(self, n: int, *, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw the number of visits of each of ``n`` users, int64, shape (n,), at least 1."""
        return self.law.draw(self.mean, n, rng=rng)
