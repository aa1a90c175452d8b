"""Distribution of a published value given its count, and its mean and variance."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import NO_NOISE, Floats, Mechanism, Noise, Values
from clusterscale.errors import ConfigError

Revise = Callable[[Values], None]

_FAR, _HALVINGS = 1e7, 80  # limit of noisy counts; bisections to the last bit of a float
_QUANTILES = 1 << 14  # enough for the mean of clipped noise to 5e-5 of its scale
_POINT = 1e-6  # a shorter preimage is a single point


@dataclass(frozen=True, slots=True, eq=False)
class OutputDistribution:
    """Noise of a known distribution, followed by monotone functions of single values.

    Rounding, clipping, suppression of small counts, and ranges are such functions. The noisy values
    that give one published value are then an interval, which is found by bisection, so that no
    function needs an inverse.

    Attributes
    ----------
    noise
        Noise that is added to a count.
    revisions
        Each revises values, shape (…, roi, epoch), in place.
    """

    noise: Noise = NO_NOISE
    revisions: tuple[Revise, ...] = ()

    @property
    def revised(self) -> bool:
        """Whether any revision follows the noise."""
        return bool(self.revisions)

    @property
    def is_finite(self) -> bool:
        """Whether each count has a few possible values, as without noise."""
        return self.noise == NO_NOISE

    def published(self, counts: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return the published values of counts without noise and 1 as their probabilities."""
        rows = np.array(counts, np.float64).reshape(1, -1)
        self.revise(rows)
        values = rows.reshape(*np.shape(counts), 1)
        return values, np.ones(values.shape)

    def then(self, revise: Revise) -> "OutputDistribution":
        """Return the distribution with one more revision."""
        return replace(self, revisions=(*self.revisions, revise))

    def revise(self, values: Values) -> None:
        """Revise values in place."""
        for revise in self.revisions:
            revise(values)

    def likelihood(self, values: NDArray[Any], counts: NDArray[Any]) -> Floats:
        """Return the probability of each value, or its density if the value has one preimage.

        ``values`` have shape (group, cell), ``counts``, the candidates, whole numbers,
        shape (cell, count); the result is float64, shape (group, cell, count), and 0 for
        values that are never published.
        """
        distinct, which = np.unique(np.asarray(values, np.float64), return_inverse=True)
        low, high = self._preimages(distinct)
        which = which.reshape(values.shape)
        low, high = low[which][..., None] - counts, high[which][..., None] - counts
        if self.noise.whole:
            return self._between(low, high)
        likelihood = np.array(self.noise.density((low + high) / 2))
        several = (high - low)[..., 0] >= _POINT  # noisy values that are published alike
        likelihood[several] = self._between(low[several], high[several])
        return likelihood

    def moments(self, counts: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return the mean and the variance of the published value of each count, (count,).

        Computed from quantiles of the noise, without random draws.
        """
        middles = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
        noise = self.noise.quantile(middles) if self.noise != NO_NOISE else np.zeros(1)
        values = np.asarray(counts, np.float64)[:, None] + noise
        self.revise(values)
        return values.mean(axis=1), values.var(axis=1)

    def interval(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the ends of the noisy values that are published as ``low`` to ``high``, (value,).

        The second end may itself be published as more, unless noise is whole numbers.
        """
        first, last = self._edge(low, np.greater_equal), self._edge(high, np.greater)
        if not self.noise.whole:
            return first, last
        first, last = np.ceil(first - _POINT), np.floor(last + _POINT)
        return first + (self._published(first) < low), last - (self._published(last) > high)

    def most_likely(self, low: Floats, high: Floats) -> Floats:
        """Return the largest probability of values from ``low`` to ``high`` of any count, (value,).

        Noise is symmetric, and smaller noise is more likely: no count is better than the middle.
        """
        start, stop = self.interval(low, high)
        width = stop - start
        first = -(np.floor(width / 2) if self.noise.whole else width / 2)
        return self._between(first, first + width)

    def _preimages(self, values: Floats) -> tuple[Floats, Floats]:
        """Return the smallest and largest noisy value that is published as each value, (value,).

        For values that are never published, the largest is below the smallest.
        """
        low, high = self.interval(values, values)
        if not self.noise.whole:
            never = np.abs(self._published(low) - values) > _POINT
            high = np.where(never, -np.inf, high)
        return low, high

    def _edge(self, values: Floats, above: np.ufunc) -> Floats:
        """Return the smallest noisy value whose published value is ``above`` each value."""
        low, high = np.full(len(values), -_FAR), np.full(len(values), _FAR)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            beyond = above(self._published(middle), values)
            low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
        return high

    def _published(self, noisy: Floats) -> Floats:
        values = noisy[None].copy()
        self.revise(values)
        return np.asarray(values[0])

    def _between(self, low: Floats, high: Floats) -> Floats:
        """Return the probability of noise from ``low`` to ``high``, accurate in both tails."""
        mirrored = low > 0  # all noise is symmetric, and 1 − (1 − x) would lose a small x
        low, high = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
        before = low - 1 if self.noise.whole else low
        return np.asarray(np.maximum(self.noise.cdf(high) - self.noise.cdf(before), 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class FiniteDistribution:
    """A few possible values of each count, followed by functions of single values.

    Attributes
    ----------
    outcomes
        Takes counts of any shape (…,); returns the possible values of each and their
        probabilities, both float64, shape (…, outcome).
    revisions
        Each revises values, shape (…, roi, epoch), in place.
    """

    outcomes: Callable[[NDArray[Any]], tuple[Floats, Floats]]
    revisions: tuple[Revise, ...] = ()

    revised: ClassVar[bool] = True
    """Counts are changed by more than noise."""
    is_finite: ClassVar[bool] = True
    """Each count has a few possible values."""

    def then(self, revise: Revise) -> "FiniteDistribution":
        """Return the distribution with one more revision."""
        return replace(self, revisions=(*self.revisions, revise))

    def after(self, before: "Law") -> "FiniteDistribution":
        """Return the distribution if counts are first changed by another finite distribution."""
        return replace(self, outcomes=partial(_in_two_steps, before, self))

    def published(self, counts: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return the possible published values of counts and their probabilities, (…, outcome)."""
        values, probabilities = self.outcomes(np.asarray(counts))
        rows = np.ascontiguousarray(values.reshape(1, -1))
        for revise in self.revisions:
            revise(rows)
        return rows.reshape(values.shape), probabilities

    def likelihood(self, values: NDArray[Any], counts: NDArray[Any]) -> Floats:
        """Return the probability of each value, float64, shape (group, cell, count).

        ``values``, shape (group, cell), are published; ``counts``, shape (cell, count), candidates.
        """
        possible, probabilities = self.published(counts)
        values = np.asarray(values, np.float64)[..., None]
        likelihood = np.zeros(np.broadcast_shapes(values.shape, counts.shape))
        for i in range(possible.shape[-1]):
            likelihood += np.where(values == possible[..., i], probabilities[..., i], 0.0)
        return likelihood

    def moments(self, counts: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return the mean and the variance of the published value of each count, (count,)."""
        values, probabilities = self.published(counts)
        mean = (values * probabilities).sum(axis=-1)
        return mean, ((values - mean[..., None]) ** 2 * probabilities).sum(axis=-1)


Law = OutputDistribution | FiniteDistribution


@dataclass(frozen=True, slots=True, eq=False)
class CountLikelihood:
    """Probability of a published value of each count, for attacks.

    Attributes
    ----------
    probability
        Takes values, shape (group, cell, 1), and counts, shape (cell, count).
    possible
        The values that are published, or all but a share of 1e-12 of them, shape (value,).
    """

    probability: Callable[[NDArray[Any], NDArray[Any]], Floats]
    possible: Floats
    revised: ClassVar[bool] = True

    def likelihood(self, values: NDArray[Any], counts: NDArray[Any]) -> Floats:
        """Return the probability of each value, float64, shape (group, cell, count)."""
        return self.probability(np.asarray(values, np.float64)[..., None], counts)

    def moments(self, counts: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return the mean and the variance of the published value of each count, (count,)."""
        chances = self.likelihood(self.possible[:, None], np.asarray(counts)[None])[:, 0]
        mean = self.possible @ chances
        return mean, self.possible**2 @ chances - mean**2


def _in_two_steps(
    first: Law, second: FiniteDistribution, counts: NDArray[Any]
) -> tuple[Floats, Floats]:
    """Return the possible values of counts after both, and their probabilities, (…, outcome)."""
    values, chances = first.published(counts)
    after, given = second.outcomes(values)
    shape = (*np.shape(counts), -1)
    return after.reshape(shape), (chances[..., None] * given).reshape(shape)


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """Mean and variance of the published values of counts, float64, shape (count,)."""

    mean: Floats
    variance: Floats


def respond(
    mechanism: Mechanism, counts: NDArray[Any], *, group_size: int, rng: np.random.Generator
) -> Response:
    """Return the mean and variance of the published value of each count, whole numbers, (count,).

    They are computed without random draws if the output distribution of the bound mechanism is
    known. Otherwise releases of constant series of that count are drawn from ``rng``. Raises
    ConfigError if one count can change the whole release, or a sensitivity is not known.
    """
    if mechanism.noise_scope == "release" or mechanism.n_tables > 1:
        raise ConfigError(
            f"{mechanism.label}: a published value depends on all counts or on its table, so a "
            "single count has no mean response"
        )
    if law := mechanism.law(group_size):
        return Response(*law.moments(counts))
    # 1 << 14: releases, where no output distribution is known
    values = np.repeat(np.asarray(counts, np.int32)[:, None], 1 << 14, axis=1)
    released = mechanism.release(values, group_size=group_size, rng=rng)
    return Response(released.mean(axis=1), released.var(axis=1))
