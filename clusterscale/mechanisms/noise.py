"""Distributions of noise, and the base class of mechanisms that add it."""

from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from math import hypot
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.contracts import (
    Bounds,
    Counts,
    Ints,
    Noise,
    NoiseScope,
    NoiseSource,
    Support,
    Values,
)
from clusterscale.errors import ConfigError
from clusterscale.mechanisms.base import BaseMechanism, Margin, Stage
from clusterscale.mechanisms.law import OutputDistribution
from clusterscale.validation_messages import exact_number

_BLOCK = 1 << 15  # values: drawn, post-processed and written while they are in cache


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


class DiscreteGaussianNoise(Noise):
    """The normal distribution on whole numbers: P(n) ∝ exp(−n² / 2σ²), ``scale`` is σ.

    For σ below 3, the variance is less than σ² by no more than rounding to whole numbers adds
    (Canonne, Kamath and Steinke, NeurIPS 2020, §3). Raises ConfigError for σ above 10⁵.
    """

    whole = True

    @property
    def variance(self) -> float:
        """Variance, in visits squared."""
        values, probabilities, _ = _whole_normal(self.scale)
        return float(probabilities @ values**2)

    def sample(self, n: int, *, rng: np.random.Generator) -> NDArray[Any]:
        """Draw ``n`` independent values, int64, shape (n,), by inversion."""
        return self.quantile(rng.random(n)).astype(np.int64)

    def cdf(self, x: Values) -> Values:
        """Return the probability of noise of at most ``x``, a whole number."""
        values, _, sums = _whole_normal(self.scale)
        place = np.searchsorted(values, np.floor(x), side="right")
        return np.asarray(np.append(0.0, sums)[place])

    def density(self, x: Values) -> Values:
        """Return the probability of ``x``, a whole number."""
        values, probabilities, _ = _whole_normal(self.scale)
        most = probabilities[len(values) // 2]
        return np.asarray(most * np.exp(-((np.asarray(x) / self.scale) ** 2) / 2))

    def quantile(self, probability: Values) -> Values:
        """Return the quantile of each probability, a whole number."""
        values, _, sums = _whole_normal(self.scale)
        return np.asarray(values[np.minimum(np.searchsorted(sums, probability), len(values) - 1)])


_LARGEST_SIGMA = 1e5  # of noise in a table


@lru_cache(maxsize=16)
def _whole_normal(sigma: float) -> tuple[Values, Values, Values]:
    """Return whole numbers about 0, their probabilities, and the sums of these."""
    if not sigma <= _LARGEST_SIGMA:
        raise ConfigError(
            f"discrete Gaussian noise of deviation {sigma:g} is above {_LARGEST_SIGMA:g}: choose a "
            "larger ε, or set discrete: false"
        )
    far = np.ceil(9.0 * sigma) + 1  # deviations; beyond them are 2e-19 of the probability
    values = np.arange(-far, far + 1)
    weights = np.exp(-((values / sigma) ** 2) / 2)
    probabilities = weights / weights.sum()
    return values, probabilities, np.cumsum(probabilities)


class AdditiveNoise(BaseMechanism):
    """A mechanism that adds noise, then optionally clips and rounds.

    ``clip`` limits values to 0 … group size; ``integers`` then rounds to the nearest (``round``,
    half to even), rounds down (``floor``) or does nothing (``none``). Neither weakens a guarantee:
    both depend only on the noisy value. A guarantee for real numbers does not cover floating-point
    numbers, whose low-order bits can reveal the count (Mironov, CCS 2012): where these bits are
    published too, publish integers or use discrete noise.

    Attributes
    ----------
    clip
        Whether values are limited to 0 … group size.
    integers
        How values are rounded: ``round``, ``floor`` or ``none``.
    """

    clip: bool = False
    integers: Literal["round", "floor", "none"] = "none"

    stage: ClassVar[Stage] = "noise"
    noise_scope: ClassVar[NoiseScope] = "cell"
    noise_is_count_independent: ClassVar[bool] = True
    _sensitivity: ClassVar[str] = ""
    _label_last: ClassVar[tuple[str, ...]] = ("l2_sensitivity", "clip", "integers")

    @property
    def phrase(self) -> str:
        """The noise, its sensitivity and its post-processing, for display."""
        size = getattr(self, self._sensitivity) if self._sensitivity else None
        parts = [self._noise_phrase]
        parts += [] if size is None else [f"sensitivity {exact_number(size)}"]
        parts += {"round": ["rounded"], "floor": ["rounded down"]}.get(self.integers, [])
        return ", ".join([*parts, "from 0 to the group size"] if self.clip else parts)

    @property
    def _noise_phrase(self) -> str:
        raise NotImplementedError

    @property
    def publishes_float_noise(self) -> bool:
        """Whether noise is published as drawn: neither rounded nor discrete."""
        return super().publishes_float_noise and self.integers == "none" and not self._is_whole

    @property
    def _is_whole(self) -> bool:
        return self.noise is not None and self.noise.whole

    def bind(self, bounds: Bounds) -> Self:
        """Return the mechanism with the sensitivity of the cube, if none was given."""
        if not self._sensitivity or getattr(self, self._sensitivity) is not None:
            return self
        return self.model_copy(update={self._sensitivity: self.required_sensitivity(bounds)})

    @property
    def hides_more_in_larger_groups(self) -> bool:
        """Whether noise is added and rounded at most: rounding commutes with whole counts."""
        own = type(self)
        whole = own.release is AdditiveNoise.release and own.finish is AdditiveNoise.finish
        return whole and not self.clip

    def _norm(self) -> float:
        """Return the sensitivity; raises ConfigError if it was neither given nor bound."""
        norm = self._known_norm
        if np.isnan(norm):
            raise ConfigError(
                f"{self.label}: {self._sensitivity} is not known: give it, or bind the mechanism "
                "to the bounds of a cube, as an audit does"
            )
        return norm

    @property
    def _known_norm(self) -> float:
        """The sensitivity; NaN if not known."""
        value = getattr(self, self._sensitivity)
        return np.nan if value is None else float(value)

    def law(self, group_size: int) -> OutputDistribution | None:
        """Return the distribution of noise, clipping and rounding; None if that is not known."""
        noise = self.noise
        if noise is None or self.noise_scope != "cell" or not np.isfinite(noise.scale):
            return None
        law = OutputDistribution(noise)
        if self.clip or self.integers != "none":
            law = law.then(partial(self.finish, group_size=group_size))
        return law

    def widen(self, margin: Margin) -> Margin | None:
        """Return the margin with that of 95 % of the noise, or little more."""
        noise = self.noise
        if noise is None or self.noise_scope != "cell" or not np.isfinite(noise.scale):
            return None
        size = noise.quantile(np.array([0.975]))
        share = 2 * float(noise.cdf(size)[0]) - 1  # all noise is symmetric
        rounded = {"none": 0.0, "round": 0.5, "floor": 1.0}[self.integers]
        scale = hypot(margin.scale, noise.variance**0.5, rounded)
        whole = bool(rounded) or (noise.whole and margin.whole)
        return Margin(margin.size + float(size[0]) + rounded, margin.share * share, scale, whole)

    def support(self, before: Support, group_size: int) -> Support:
        """Return all values of the noise, clipped and rounded."""
        after = self._noisy(before, group_size)
        if self.clip:
            low, high = (float(np.clip(end, 0, group_size)) for end in (after.low, after.high))
            after = replace(after, low=low, high=high)
        if self.integers == "none":
            return after
        return Support(np.floor(after.low), np.ceil(after.high), 1.0)  # rounded beyond the ends

    def _noisy(self, before: Support, group_size: int) -> Support:
        """Return the values before clipping and rounding."""
        return Support(-np.inf, np.inf, before.step if self._is_whole else 0.0)

    def finish(self, values: Values, group_size: int) -> None:
        """Clip and round ``values`` in place."""
        if self.clip:
            np.clip(values, 0, group_size, out=values)
        if self.integers != "none":
            (np.rint if self.integers == "round" else np.floor)(values, out=values)

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return noisy counts, float64, the same shape (…, roi, epoch).

        Raises ConfigError or InputError if a sensitivity is not known, or the counts are
        not (…, roi, epoch).
        """
        if self._sensitivity:
            self._norm()
        self._check_shape(counts, group_size)
        values: Values = np.empty(counts.shape)
        flat, raw = values.reshape(-1), counts.reshape(-1)
        for start in range(0, len(flat), _BLOCK):
            block = flat[start : start + _BLOCK]
            np.add(self._draw(len(block), rng), raw[start : start + _BLOCK], out=block)
            self.finish(block, group_size)
        return values

    def noise_at(self, cells: Ints, n_cells: int, *, rng: np.random.Generator) -> Values | None:
        """Return the noise that :meth:`release` adds in some cells, float64, shape (cell,).

        ``cells`` are flat, int64, shape (cell,), increasing, of ``n_cells``; ``rng`` is in
        the state in which it would be given to :meth:`release`. None if a release is more
        than noise and :meth:`finish`.
        """
        if type(self).release is not AdditiveNoise.release:
            return None
        noise = np.empty(len(cells))
        ends = np.searchsorted(cells, np.arange(0, n_cells + _BLOCK, _BLOCK))
        for i, (first, stop) in enumerate(pairwise(ends)):
            drawn = self._draw(min(_BLOCK, n_cells - i * _BLOCK), rng)
            noise[first:stop] = drawn[cells[first:stop] - i * _BLOCK]
        return noise

    def _draw(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return ``n`` values of the noise."""
        noise = self.noise
        if noise is None:
            raise NotImplementedError
        if isinstance(rng, NoiseSource):
            return rng.draw(noise, n)
        return noise.sample(n, rng=rng)
