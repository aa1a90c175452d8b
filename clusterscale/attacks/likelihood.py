"""Per-cell likelihood ratios of *inside* against *outside*, for independent members."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.attacks.base import BaseAttack
from clusterscale.attacks.closed_form import LinearCellScore
from clusterscale.attacks.log_ratios import (
    BinomialCounts,
    LaplaceCounts,
    Normal,
    PublishedBinomialCounts,
)
from clusterscale.attacks.moments import (
    build_reference,
    occupancy_probabilities,
    require_target_knowledge,
    variances,
)
from clusterscale.contracts import (
    NO_NOISE,
    AttackSeconds,
    CellScore,
    Ints,
    Knowledge,
    Labels,
    Reference,
    Release,
    Scores,
)

Floats = NDArray[np.float64]

_LEAST_SCALE = 0.002  # less noise is the same for whole counts, but exp(−1/scale) would underflow


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
      followed by rounding, clipping at 0, suppression of small counts, or ranges;
    - normal distributions with moments from training, the mean of *inside* shifted by t − p, if the
      mechanism's output distribution is not known; t is then the weight of the target and p is
      multiplied by the mean weight, if sums of weights are published.

    The output distribution is that of the scored release, whatever the adversary trained on. Cells
    for which the adversary does not know whether the target was there are left out. Scores are
    log-likelihood ratios, so the threshold is 0. ``rng`` is not used.
    """

    name: Literal["likelihood"] = "likelihood"
    seconds = AttackSeconds(train=4e-10, score=5.1e-9, score_changed=2.7e-7)
    usual_against = ("zero_knowledge",)

    needs_whereabouts: ClassVar[bool] = True

    def cell_score(self, reference: Reference) -> CellScore:
        """Return the log ratio for the noise and output distribution of ``reference``."""
        noise, chance = reference.noise, occupancy_probabilities(reference)
        if reference.law is not None and reference.law.revised:
            return PublishedBinomialCounts(chance, reference.group_size, reference.law)
        if noise is None and reference.outside is not None:
            return _normal_from_training(reference, reference.outside)
        if noise == NO_NOISE:
            return BinomialCounts(chance, reference.group_size)
        if noise is not None and noise.exponential:
            return LaplaceCounts(chance, reference.group_size, max(noise.scale, _LEAST_SCALE))
        return Normal(chance, reference.group_size, 0.0 if noise is None else noise.variance)

    def _fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> _Ratio:
        # moments are needed only if the output distribution is not known
        moments = knowledge.training.release.law is None
        target = require_target_knowledge(knowledge)
        reference = build_reference(knowledge, moments=moments)
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
        reference = replace(self.reference, noise=release.noise, law=release.law)
        cell_score = self.attack.cell_score(reference)
        flat = release.flat
        values = flat if len(self.cells) == flat.shape[1] else flat[:, self.cells]
        return cell_score.total(values, self.cells, self.here)


def _normal_from_training(reference: Reference, outside: Floats) -> LinearCellScore:
    """Return the log ratio of normals of equal variance, *inside* shifted by t − p, weighed."""
    chance, spread = occupancy_probabilities(reference), variances(reference)
    target, others = reference.weights
    shifts = (target - others * chance, -others * chance)
    slopes = [shift / spread for shift in shifts]
    at_zero = [-slope * (outside + shift / 2) for slope, shift in zip(slopes, shifts, strict=True)]
    return LinearCellScore(*slopes, *at_zero)
