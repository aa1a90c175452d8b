"""Per-cell likelihood ratio under the mechanism's noise."""

from dataclasses import dataclass, replace
from functools import partial
from math import lgamma
from typing import ClassVar, Literal

import numpy as np
import scipy

from clusterscale.attacks import closed_form
from clusterscale.attacks.base import BaseAttack
from clusterscale.contracts import (
    NO_NOISE,
    AttackSeconds,
    CellLaw,
    CellScore,
    Counts,
    Floats,
    Ints,
    Knowledge,
    Labels,
    Reference,
    Release,
    Scores,
    Values,
)
from clusterscale.errors import InputError
from clusterscale.jit import kernel

_WIDTH = 2048  # cells evaluated at once
_WIDTH_OF_TABLES = 64  # the same, where each cell has a table of its own


class _CellByCell:
    """Sum of the evidence of single cells."""

    def cell_evidence(self, values: Values | Counts, cells: Ints, *, here: bool) -> Values:
        """Return the evidence of each value."""
        raise NotImplementedError

    def total(self, values: Values | Counts, cells: Ints, here: Labels) -> Scores:
        """Return the evidence of all of ``cells`` together, shape (group,)."""
        scores = np.zeros(len(values))
        for side in (True, False):
            some = np.flatnonzero(here == side)
            for start in range(0, len(some), _WIDTH):
                block = some[start : start + _WIDTH]
                scores += self.cell_evidence(values[:, block], cells[block], here=side).sum(axis=1)
        return scores


@dataclass(frozen=True, slots=True, eq=False)
class BinomialCounts(_CellByCell):
    """Binomial counts, published unchanged."""

    chance: Floats
    group_size: int

    def cell_evidence(self, values: Values | Counts, cells: Ints, *, here: bool) -> Values:
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
class Normal(_CellByCell):
    """Normal values of the mean and variance of a binomial count and the noise."""

    chance: Floats
    group_size: int
    noise: float

    def cell_evidence(self, values: Values | Counts, cells: Ints, *, here: bool) -> Values:
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
class LaplaceCounts(_CellByCell):
    """Binomial counts under Laplace noise of the given ``scale``."""

    chance: Floats
    group_size: int
    scale: float

    def cell_evidence(self, values: Values | Counts, cells: Ints, *, here: bool) -> Values:
        """Return the log ratio of two binomial distributions convolved with the noise."""
        evidence = np.empty(values.shape)
        _laplace_ratio(values, self.chance[cells], here, self.group_size, self.scale, evidence)
        return evidence


@dataclass(frozen=True, slots=True, eq=False)
class PublishedBinomialCounts(_CellByCell):
    """Binomial counts with a known output distribution of each count."""

    chance: Floats
    group_size: int
    law: CellLaw

    def cell_evidence(self, values: Values | Counts, cells: Ints, *, here: bool) -> Values:
        """Return the log ratio of two binomials, each mixed by the output distribution.

        It is 0 for values that are impossible both with and without the target, as they can be
        under a poor reference.
        """
        evidence = np.empty(values.shape)
        order = np.argsort(self.chance[cells], kind="stable")  # cells of similar counts together
        for start in range(0, len(cells), _WIDTH_OF_TABLES):
            columns = order[start : start + _WIDTH_OF_TABLES]
            laws = self._laws(self.chance[cells[columns]], here)
            without, with_target = self._mixed(values[:, columns], *laws)
            possible = (with_target > 0) | (without > 0)
            with np.errstate(divide="ignore", invalid="ignore"):  # log 0: one or both are ruled out
                ratio = np.log(with_target) - np.log(without)
            evidence[:, columns] = np.where(possible, ratio, 0.0)
        return evidence

    def _mixed(
        self, values: Values | Counts, counts: Ints, out: Floats, inside: Floats
    ) -> tuple[Floats, ...]:
        """Return the likelihood of ``values`` under each distribution of counts, (group, cell).

        Where few values occur, each cell is mixed once for each of them.
        """
        distinct, which = np.unique(values, return_inverse=True)
        if len(distinct) <= len(values):
            table = self.law.likelihood(distinct[:, None], counts[None])[:, 0]
            which = which.reshape(values.shape)
            return tuple(np.take_along_axis(table @ law.T, which, 0) for law in (out, inside))
        likelihood = self.law.likelihood(values, np.broadcast_to(counts, out.shape))
        return tuple(np.einsum("gck,ck->gc", likelihood, law) for law in (out, inside))

    def _laws(self, chance: Floats, here: bool) -> tuple[Ints, Floats, Floats]:
        """Return counts, and their probabilities in each cell without and with the target."""
        size = self.group_size
        reach = 8 * np.sqrt(size * chance * (1 - chance)) + 8
        low, high = (size * chance - reach).min(), (size * chance + reach).max()
        counts = np.arange(max(int(low), 0), min(int(high) + 1, size) + 1, dtype=np.int64)
        out, inside = (
            scipy.stats.binom.pmf(counts - shift, n, chance[:, None])
            for shift, n in ((0, size), (int(here), size - 1))
        )
        return counts, out, inside


@dataclass(frozen=True, slots=True, eq=False)
class _ByTable(_CellByCell):
    """Evidence of several tables, each by a score of its own, and none of cells of no table."""

    scores: tuple[tuple[Labels, CellScore], ...]

    def cell_evidence(self, values: Values | Counts, cells: Ints, *, here: bool) -> Values:
        """Return the evidence of each value by the score of its table."""
        evidence = np.zeros(values.shape)
        for of_table, score in self.scores:
            own = of_table[cells]
            evidence[:, own] = score.cell_evidence(values[:, own], cells[own], here=here)
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

    At x, the convolution of a distribution on integers with Laplace noise is the sum of the
    probabilities below and above x, each faded by exp(−1/scale) per unit of distance. Both sums are
    recursive, so a cell costs one pass over its support and one exponential per group.
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


class Likelihood(BaseAttack):
    """Log-likelihood ratio of binomial counts under the publisher's noise, summed over cells.

    A count of m members, each in the cell with probability p, is Binomial(m, p) without the target
    and t + Binomial(m − 1, p) with it, where t is 1 if the target was there. The ratio is that of

    - the binomial distributions, for counts published unchanged: log(a/mp) where the target was,
      log((m − a)/m(1 − p)) where it was not, so a count that rules the target out scores −∞;
    - their convolutions with Laplace noise (or geometric, the same on whole numbers), which are
      constant far from the expected counts: each cell's evidence is clipped at two thresholds;
    - normal distributions with the variance of count and noise, under Gaussian noise;
    - the binomial distributions mixed by the output distribution of each count, if noise is
      followed by rounding, clipping at 0, suppression of small counts, or ranges, and for
      ``sample_events``, ``randomized_response`` and ``perturb_small`` alone;
    - normal distributions with moments from training, the mean of *inside* shifted by t − p, if the
      mechanism's output distribution is not known, as in chains of those three, and in releases
      whose values depend on several counts; t is then the weight of the target and p is multiplied
      by the mean weight, if sums of weights are published.

    Of tables that are published together, each has its own ratio, and their evidence is added.
    The output distribution is that of the scored release, whatever the adversary trained on. Cells
    for which the adversary does not know whether the target was there are left out. Scores are
    log-likelihood ratios, so the threshold is 0. ``rng`` is not used.
    """

    name: Literal["likelihood"] = "likelihood"
    seconds = AttackSeconds(train=4e-10, score=5.1e-9, score_changed=6.5e-7)
    usual_against = ("zero_knowledge",)

    needs_whereabouts: ClassVar[bool] = True
    trains: ClassVar[bool] = False

    def cell_score(self, reference: Reference) -> CellScore:
        """Return the log ratio for the noise and output distribution of ``reference``."""
        if reference.tables:
            alone = partial(replace, reference, tables=())
            each = ((cells, alone(noise=noise, law=law)) for cells, noise, law in reference.tables)
            return _ByTable(tuple((cells, self.cell_score(one)) for cells, one in each))
        noise, chance = reference.noise, closed_form.occupancy_probabilities(reference)
        if reference.law is not None and reference.law.revised:
            return PublishedBinomialCounts(chance, reference.group_size, reference.law)
        if noise is None and reference.outside is not None:
            return _normal_from_training(reference, reference.outside)
        if noise == NO_NOISE:
            return BinomialCounts(chance, reference.group_size)
        if noise is not None and noise.exponential:
            # 0.002: less noise is the same for whole counts, but exp(−1/scale) would underflow
            return LaplaceCounts(chance, reference.group_size, max(noise.scale, 0.002))
        return Normal(chance, reference.group_size, 0.0 if noise is None else noise.variance)

    def _fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> "_Ratio":
        # moments are needed only if the output distribution is not known
        moments = knowledge.training.release.law is None
        target = closed_form.require_target_knowledge(knowledge)
        reference = closed_form.build_reference(knowledge, moments=moments)
        here = np.zeros(reference.mean_trace.size, np.bool_)
        here[target.trace] = True
        cells = np.arange(len(here)) if target.complete else np.sort(target.trace)
        return _Ratio(self, reference, cells, here[cells])


@dataclass(frozen=True, slots=True)
class _Ratio:
    """The expectation of every cell, with the output distribution of the scored release.

    ``cells`` are those for which it is known whether the target was there, ``here`` is whether.
    """

    attack: Likelihood
    reference: Reference
    cells: Ints
    here: Labels
    threshold: float = 0.0

    def score(self, release: Release) -> Scores:
        """Return the log-likelihood ratio of each group."""
        noise, law, tables = release.noise, release.law, release.tables
        reference = replace(self.reference, noise=noise, law=law, tables=tables)
        cell_score = self.attack.cell_score(reference)
        flat = release.flat
        values = flat if len(self.cells) == flat.shape[1] else flat[:, self.cells]
        return cell_score.total(values, self.cells, self.here)


def _normal_from_training(reference: Reference, outside: Floats) -> closed_form.LinearCellScore:
    """Return the log ratio of normals of equal variance, *inside* shifted by t − p, weighed."""
    chance = closed_form.occupancy_probabilities(reference)
    spread = closed_form.variances(reference)
    target, others = reference.weights
    shifts = (target - others * chance, -others * chance)
    slopes = [shift / spread for shift in shifts]
    at_zero = [-slope * (outside + shift / 2) for slope, shift in zip(slopes, shifts, strict=True)]
    return closed_form.LinearCellScore(*slopes, *at_zero)
