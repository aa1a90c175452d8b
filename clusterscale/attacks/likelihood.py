"""The likelihood ratio of *inside* against *outside*, cell by cell, under independent members."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import lgamma
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.attacks.closed_form import Line
from clusterscale.attacks.moments import chances, known, noise_variance, refer, variances
from clusterscale.contracts import (
    CellRule,
    Component,
    Counts,
    Ints,
    Knowledge,
    Labels,
    Reference,
    Release,
    Scores,
    Values,
)
from clusterscale.errors import InputError
from clusterscale.kernel import kernel

__all__ = ["Likelihood"]

Floats = NDArray[np.float64]

_LEAST_SCALE = 0.002  # with less noise exp(−1/scale) is 0 in floating point; counts are whole
_WIDTH = 2048  # cells weighed at once


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

    def rule(self, reference: Reference) -> CellRule:
        """Return the log ratio of the laws that ``reference`` asks for."""
        noise, chance = reference.noise, chances(reference)
        if noise is None and reference.outside is not None:
            return _as_found(reference, reference.outside)
        if noise is None or noise.law == "gaussian":
            return _Normal(chance, reference.group_size, noise_variance(noise) if noise else 0.0)
        if noise.law == "none":
            return _Counted(chance, reference.group_size)
        return _Faded(chance, reference.group_size, max(noise.scale, _LEAST_SCALE))

    def fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> _Ratio:
        """Note what is expected of every cell."""
        whereabouts, reference = known(knowledge), refer(knowledge)
        here = np.zeros(reference.mean_trace.size, np.bool_)
        here[whereabouts.trace] = True
        cells = np.arange(len(here)) if whereabouts.complete else np.sort(whereabouts.trace)
        return _Ratio(self, reference, cells, here[cells])


@dataclass(frozen=True, slots=True)
class _Ratio:
    """What is expected of every cell; the law of the noise is the scored release's own.

    ``cells``: those of which it is known whether the target was there, ``here`` says where.
    """

    attack: Likelihood
    reference: Reference
    cells: Ints
    here: Labels
    threshold: float = 0.0

    def score(self, release: Release) -> Scores:
        """Return the log-likelihood ratio of each group.

        Raises
        ------
        InputError
            If the groups are of another size than those of training, or bare counts are not
            between 0 and the group size.
        """
        size = self.reference.group_size
        if release.group_size != size:
            raise InputError(f"groups of {release.group_size} cannot be scored as groups of {size}")
        rule = self.attack.rule(replace(self.reference, noise=release.noise))
        flat = release.flat
        known = flat if len(self.cells) == flat.shape[1] else flat[:, self.cells]
        return rule.total(known, self.cells, self.here)


def _blocks(cells: Ints) -> Iterator[Ints]:
    for start in range(0, len(cells), _WIDTH):
        yield cells[start : start + _WIDTH]


def _as_found(reference: Reference, outside: Floats) -> Line:
    """Return the rule of normal laws of equal variance, *inside* shifted by t − p."""
    chance, spread = chances(reference), variances(reference)
    shifts = (1 - chance, -chance)
    slopes = [shift / spread for shift in shifts]
    at_zero = [-slope * (outside + shift / 2) for slope, shift in zip(slopes, shifts, strict=True)]
    return Line(*slopes, *at_zero)


class _CellByCell:
    """The sum of what is weighed cell by cell."""

    def weigh(self, values: Values | Counts, cells: Ints, *, here: bool) -> Values:
        """Return the evidence of each value."""
        raise NotImplementedError

    def total(self, values: Values | Counts, cells: Ints, here: Labels) -> Scores:
        """Return the evidence of all of ``cells`` together, shape (group,)."""
        scores = np.zeros(len(values))
        for side in (True, False):
            for some in _blocks(np.flatnonzero(here == side)):
                scores += self.weigh(values[:, some], cells[some], here=side).sum(axis=1)
        return scores


@dataclass(frozen=True, slots=True, eq=False)
class _Counted(_CellByCell):
    """Binomial counts, published as they are."""

    chance: Floats
    group_size: int

    def weigh(self, values: Values | Counts, cells: Ints, *, here: bool) -> Values:
        """Return log(a/mp) or log((m − a)/m(1 − p)), −∞ where the count rules the target out."""
        size = self.group_size
        if values.size and not 0 <= values.min() <= values.max() <= size:
            raise InputError(
                f"counts from {values.min()} to {values.max()} are not between 0 and {size}"
            )
        with np.errstate(divide="ignore"):  # log 0: the target is ruled out
            share = np.log(np.arange(size + 1) / size)
        chance = self.chance[cells]
        counts = values.astype(np.int64)
        if here:
            return np.asarray(share[counts] - np.log(chance))
        return np.asarray(share[size - counts] - np.log1p(-chance))


@dataclass(frozen=True, slots=True, eq=False)
class _Normal(_CellByCell):
    """Normal values of the mean and variance of a binomial count and the noise."""

    chance: Floats
    group_size: int
    noise: float

    def weigh(self, values: Values | Counts, cells: Ints, *, here: bool) -> Values:
        """Return the log ratio of two normal densities."""
        chance = self.chance[cells]
        one = chance * (1 - chance)
        out, spread_out = self.group_size * chance, self.group_size * one + self.noise
        inside = out - chance + here
        spread_in = np.where(spread_out > one, spread_out - one, one)
        near_out = (values - out) ** 2 / spread_out
        near_in = (values - inside) ** 2 / spread_in
        return np.asarray((near_out - near_in + np.log(spread_out / spread_in)) / 2)


@dataclass(frozen=True, slots=True, eq=False)
class _Faded(_CellByCell):
    """Binomial counts under Laplace noise of that scale."""

    chance: Floats
    group_size: int
    scale: float

    def weigh(self, values: Values | Counts, cells: Ints, *, here: bool) -> Values:
        """Return the log ratio of two binomial laws convolved with the noise."""
        evidence = np.empty(values.shape)
        _laplace_ratio(values, self.chance[cells], here, self.group_size, self.scale, evidence)
        return evidence


@kernel
def _laplace_ratio(
    values: Values | Counts,
    chance: Floats,
    here: bool,
    size: int,
    scale: float,
    evidence: Values,
) -> None:
    """Write the log ratio of every value; columns are cells.

    The convolution of a law on whole numbers with Laplace noise, at x between two of them, is the
    sum of what stands below, fading by exp(−1/scale) a step, and of what stands above; both sums
    follow from the neighbour's, so a cell costs its support once and one exponential a group.
    """
    fade = np.exp(-1.0 / scale)
    for cell in range(len(chance)):
        p = chance[cell]
        reach = 8.0 * np.sqrt(size * p * (1 - p)) + 8.0
        low = max(0, int(size * p - reach))
        high = min(size, int(size * p + reach) + 1)
        below_out, above_out = _faded(size, p, low, high, 0, fade)
        below_in, above_in = _faded(size - 1, p, low, high, int(here), fade)
        last = high - low
        for row in range(values.shape[0]):
            x = values[row, cell]
            if x < low:
                ratio = above_in[0] / above_out[0]
            elif x >= high:
                ratio = below_in[last] / below_out[last]
            else:
                i = int(np.floor(x)) - low
                down = np.exp(-(x - low - i) / scale)
                up = fade / down
                with_target = down * below_in[i] + up * above_in[i + 1]
                ratio = with_target / (down * below_out[i] + up * above_out[i + 1])
            evidence[row, cell] = np.log(ratio)


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
