"""Distributions of additive noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.contracts import Noise, Values

__all__ = ["DiscreteLaplaceNoise", "GaussianNoise", "LaplaceNoise"]


class LaplaceNoise(Noise):
    """The Laplace distribution of scale b: density exp(−|x| / b) / 2b."""

    exponential = True

    @property
    def variance(self) -> float:
        """Variance, in visits squared."""
        return 2 * self.scale**2

    def sample(self, n: int, *, rng: np.random.Generator) -> Values:
        """Draw ``n`` independent values, shape (n,)."""
        return rng.laplace(0.0, self.scale, n)

    def cdf(self, x: Values) -> Values:
        """Return the probability of noise of at most ``x``."""
        half = np.exp(-np.abs(x) / self.scale) / 2
        return np.asarray(np.where(x < 0, half, 1 - half))

    def density(self, x: Values) -> Values:
        """Return the density at ``x``."""
        return np.asarray(np.exp(-np.abs(x) / self.scale) / (2 * self.scale))

    def quantile(self, probability: Values) -> Values:
        """Return the quantile of each probability."""
        return np.asarray(self.scale * scipy.stats.laplace.ppf(probability), np.float64)


class DiscreteLaplaceNoise(Noise):
    """The discrete Laplace, or two-sided geometric, distribution: P(n) ∝ exp(−|n| / scale)."""

    exponential = whole = True

    @property
    def variance(self) -> float:
        """Variance 2q/(1 − q)² with q = exp(−1/scale), in visits squared."""
        return float(0.5 / np.sinh(0.5 / self.scale) ** 2)

    def sample(self, n: int, *, rng: np.random.Generator) -> NDArray[Any]:
        """Draw ``n`` independent values, int64, shape (n,): differences of two geometrics."""
        success = -np.expm1(-1.0 / self.scale)
        return np.asarray(rng.geometric(success, n) - rng.geometric(success, n))

    def cdf(self, x: Values) -> Values:
        """Return the probability of noise of at most ``x``, a whole number."""
        tail = np.exp(np.where(x < 0, x, -x - 1) / self.scale) / (1 + np.exp(-1 / self.scale))
        return np.asarray(np.where(x < 0, tail, 1 - tail))

    def density(self, x: Values) -> Values:
        """Return the probability of ``x``, a whole number."""
        return np.asarray(np.tanh(0.5 / self.scale) * np.exp(-np.abs(x) / self.scale))

    def quantile(self, probability: Values) -> Values:
        """Return the quantile of each probability, a whole number."""
        return np.asarray(scipy.stats.dlaplace.ppf(probability, 1 / self.scale), np.float64)


class GaussianNoise(Noise):
    """The normal distribution; ``scale`` is its standard deviation."""

    @property
    def variance(self) -> float:
        """Variance, in visits squared."""
        return self.scale**2

    def sample(self, n: int, *, rng: np.random.Generator) -> Values:
        """Draw ``n`` independent values, shape (n,)."""
        return rng.normal(0.0, self.scale, n)

    def cdf(self, x: Values) -> Values:
        """Return the probability of noise of at most ``x``."""
        return np.asarray(scipy.special.ndtr(x / self.scale))

    def density(self, x: Values) -> Values:
        """Return the density at ``x``."""
        return np.asarray(scipy.stats.norm.pdf(x / self.scale) / self.scale)

    def quantile(self, probability: Values) -> Values:
        """Return the quantile of each probability."""
        return np.asarray(self.scale * scipy.stats.norm.ppf(probability), np.float64)
