"""How many visits a user makes: the activity marginal (POPETS24 §4.3.2)."""

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

__all__ = ["ACTIVITIES", "ActivityLaw", "Constant", "Exponential", "LogNormal", "VisitCounts"]

Floats = NDArray[np.float64]


class ActivityLaw(ConfigModel):
    """A law of whole numbers from 1 on that is told its mean."""

    name: str

    @property
    def phrase(self) -> str:
        """A short phrase for people."""
        return self.name

    def draw(self, mean: float, n: int, *, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return how many visits each of ``n`` users makes, int64, shape (n,), at least 1.

        The law has that ``mean`` before it is rounded and kept from falling below 1. Equal
        generators give users who are the more active the larger the mean.

        Raises
        ------
        InputError
            If ``mean`` is negative or not a number.
        """
        if not (np.isfinite(mean) and mean >= 0):
            raise InputError(f"a mean of {mean} visits is none")
        return np.maximum(np.rint(self._scaled(mean, n, rng)), 1).astype(np.int64)

    def _scaled(self, mean: float, n: int, rng: np.random.Generator) -> Floats:
        raise NotImplementedError


class Exponential(ActivityLaw):
    """The paper's choice: it needs nothing but the mean."""

    name: Literal["exponential"] = "exponential"

    def _scaled(self, mean: float, n: int, rng: np.random.Generator) -> Floats:
        return rng.exponential(1.0, n) * mean


class LogNormal(ActivityLaw):
    """What people's activity is like; ``sigma`` is the standard deviation of its logarithm.

    It is about 1 in the data of POPETS24 (Fig. 6), and must be known from elsewhere: an aggregate
    does not tell it.
    """

    name: Literal["lognormal"] = "lognormal"
    sigma: Positive = Field(default=1.0, le=5)

    @property
    def phrase(self) -> str:
        """The name with its deviation."""
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
    """How many visits users make: the ``mean`` and the ``law`` around it."""

    mean: float
    law: ActivityLaw = field(default_factory=Exponential)

    def draw(self, n: int, *, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return how many visits each of ``n`` users makes, int64, shape (n,), at least 1."""
        return self.law.draw(self.mean, n, rng=rng)
