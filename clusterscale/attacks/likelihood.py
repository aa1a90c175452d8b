"""The likelihood ratio of *inside* against *outside*, cell by cell, under independent members."""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.attacks.closed_form import known
from clusterscale.attacks.linear import Direction, combine, product
from clusterscale.attacks.moments import chances, noise_variance, variances
from clusterscale.contracts import (
    Component,
    Counts,
    Examples,
    Ints,
    Knowledge,
    Labels,
    Noise,
    Release,
    Scores,
    Values,
)
from clusterscale.errors import InputError
from clusterscale.kernel import kernel

__all__ = ["Likelihood"]

Floats = NDArray[np.float64]

_LEAST_SCALE = 0.002  # with less noise exp(−1/scale) is 0 in floating point; counts are whole


class Likelihood(Component):
    """Log-likelihood ratio when every cell is a binomial count with the publisher's noise.

    A count of m members, each in the cell with probability p, is Binomial(m, p) without the target
    and t + Binomial(m − 1, p) with it, t being 1 where the target was. The ratio is

    - of the binomial laws for counts published as they are: log(a/mp) where the target was,
      log((m − a)/m(1 − p)) where it was not, so a count that rules the target out scores −∞;
    - of their convolutions with Laplace noise (or geometric, the same on whole numbers), which far
      from the expected counts no longer change with the value: the test that clips each cell's
      evidence at two thresholds;
    - of normal laws with the variance of count and noise under Gaussian noise;
    - of normal laws as found in training where the mechanism's law is not known, with the mean of
      *inside* shifted by t − p.

    The law is that of the release that is scored, whatever the adversary trained on. Cells of which
    it does not know whether the target was there are left out. Scores are log-likelihood ratios,
    so the threshold is 0. Nothing is drawn from ``rng``.
    """

    name: Literal["likelihood"] = "likelihood"

    needs_whereabouts: ClassVar[bool] = True
    validates: ClassVar[bool] = False

    def fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> _Ratio:
        """Note what is expected of every cell."""
        whereabouts, release = known(knowledge), knowledge.training.release
        chance = chances(whereabouts)
        here = np.zeros(len(chance), np.bool_)
        here[whereabouts.trace] = True
        told = np.ones_like(here) if whereabouts.complete else here
        found = None
        if release.noise is None:
            spread = variances(release, whereabouts)
            found = _as_found(knowledge.training, np.where(told, here - chance, 0.0), spread)
        return _Ratio(release.group_size, chance, here, told, found)


def _as_found(training: Examples, shift: Floats, spread: Floats) -> Direction:
    outside = combine(training.release.flat, ~training.labels / (~training.labels).sum())
    weights = shift / spread
    return Direction(weights, intercept=-float(weights @ (outside + shift / 2)))


@dataclass(frozen=True, slots=True)
class _Ratio:
    """What is expected of every cell; the law of the noise is the scored release's own.

    ``here``: the target was in the cell; ``told``: the adversary knows whether it was; ``found``:
    the rule of normal laws as found in training, where that was published by an unknown law.
    """

    group_size: int
    chance: Floats
    here: Labels
    told: Labels
    found: Direction | None
    threshold: float = 0.0

    def score(self, release: Release) -> Scores:
        """Return the log-likelihood ratio of each group.

        Raises
        ------
        InputError
            If the groups are of another size than those of training, or bare counts are not
            between 0 and the group size.
        """
        if release.group_size != self.group_size:
            raise InputError(
                f"groups of {release.group_size} cannot be scored as groups of {self.group_size}"
            )
        noise = release.noise
        if noise is None and self.found is not None:
            return self.found.score(release)
        if noise is None or noise.law == "gaussian":
            return self._normal(release, 0.0 if noise is None else noise_variance(noise))
        return self._bare(release) if noise.law == "none" else self._laplace(release, noise)

    def _bare(self, release: Release) -> Scores:
        size, flat = self.group_size, release.flat
        if flat.size and not 0 <= flat.min() <= flat.max() <= size:
            raise InputError(
                f"counts from {flat.min()} to {flat.max()} are not between 0 and {size}"
            )
        with np.errstate(divide="ignore"):  # log 0: the target is ruled out
            share = np.log(np.arange(size + 1) / size)
        cells, scores = np.flatnonzero(self.told), np.zeros(len(flat))
        _count_ratio(flat, cells, self.here, share, share[::-1].copy(), scores)
        expected = np.where(self.here, np.log(self.chance), np.log1p(-self.chance))
        scores -= expected[cells].sum()
        return scores

    def _laplace(self, release: Release, noise: Noise) -> Scores:
        cells, scores = np.flatnonzero(self.told), np.zeros(len(release.values))
        scale = max(noise.scale, _LEAST_SCALE)
        _laplace_ratio(release.flat, cells, self.chance, self.here, self.group_size, scale, scores)
        return scores

    def _normal(self, release: Release, noise: float) -> Scores:
        one = self.chance * (1 - self.chance)
        out, spread_out = self.group_size * self.chance, self.group_size * one + noise
        inside, spread_in = (
            out - self.chance + self.here,
            np.where(spread_out > one, spread_out - one, one),
        )
        square = np.where(self.told, (1 / spread_out - 1 / spread_in) / 2, 0.0)
        line = np.where(self.told, inside / spread_in - out / spread_out, 0.0)
        rest = out**2 / spread_out - inside**2 / spread_in + np.log(spread_out / spread_in)
        return product(release.flat, line, square) + float(rest[self.told].sum() / 2)


@kernel
def _count_ratio(
    flat: Values | Counts, cells: Ints, here: Labels, inside: Floats, out: Floats, scores: Scores
) -> None:
    for row in range(flat.shape[0]):
        total = 0.0
        for cell in cells:
            count = int(flat[row, cell])
            total += inside[count] if here[cell] else out[count]
        scores[row] = total


@kernel
def _laplace_ratio(
    flat: Values | Counts,
    cells: Ints,
    chance: Floats,
    here: Labels,
    size: int,
    scale: float,
    scores: Scores,
) -> None:
    """Add the log ratio of every cell to the scores.

    The convolution of a law on whole numbers with Laplace noise, at x between two of them, is the
    sum of what stands below, fading by exp(−1/scale) a step, and of what stands above; both sums
    follow from the neighbour's, so a cell costs its support once and two exponentials a group.
    """
    fade = np.exp(-1.0 / scale)
    for cell in cells:
        p = chance[cell]
        reach = 8.0 * np.sqrt(size * p * (1 - p)) + 8.0
        low = max(0, int(size * p - reach))
        high = min(size, int(size * p + reach) + 1)
        below_out, above_out = _faded(size, p, low, high, 0, fade)
        below_in, above_in = _faded(size - 1, p, low, high, int(here[cell]), fade)
        last = high - low
        for row in range(flat.shape[0]):
            x = flat[row, cell]
            if x < low:
                scores[row] += np.log(above_in[0] / above_out[0])
            elif x >= high:
                scores[row] += np.log(below_in[last] / below_out[last])
            else:
                i = int(np.floor(x)) - low
                down = np.exp(-(x - low - i) / scale)
                up = fade / down
                with_target = down * below_in[i] + up * above_in[i + 1]
                without = down * below_out[i] + up * above_out[i + 1]
                scores[row] += np.log(with_target / without)


@kernel
def _faded(n: int, p: float, low: int, high: int, shift: int, fade: float) -> tuple[Floats, Floats]:
    """Return, for shift + Binomial(n, p) on low … high, the faded sums from below and above."""
    law = np.zeros(high - low + 1)
    for i in range(len(law)):
        k = low + i - shift
        if 0 <= k <= n:
            choose = lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)
            law[i] = np.exp(choose + k * np.log(p) + (n - k) * np.log1p(-p))
    below, above = law.copy(), law.copy()
    for i in range(1, len(law)):
        below[i] += fade * below[i - 1]
        j = len(law) - 1 - i
        above[j] += fade * above[j + 1]
    return below, above
