"""The likelihood ratio of *inside* against *outside*, cell by cell, under independent members."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.attacks.base import BaseAttack
from clusterscale.attacks.closed_form import LinearCellScore
from clusterscale.attacks.log_ratios import BinomialCounts, Faded, Normal, PublishedBinomialCounts
from clusterscale.attacks.moments import (
    build_reference,
    noise_variance,
    occupancy_probabilities,
    require_target_knowledge,
    variances,
)
from clusterscale.contracts import (
    CellScore,
    Ints,
    Knowledge,
    Labels,
    Reference,
    Release,
    Scores,
)

__all__ = ["Likelihood"]

Floats = NDArray[np.float64]

_LEAST_SCALE = 0.002  # with less noise exp(−1/scale) is 0 in floating point; counts are whole


class Likelihood(BaseAttack):
    """Log-likelihood ratio when every cell is a binomial count with the publisher's noise.

    A count of m members, each in the cell with probability p, is Binomial(m, p) without the target
    and t + Binomial(m − 1, p) with it, t being 1 where the target was. The ratio is

    - of the binomial laws for counts published as they are: log(a/mp) where the target was,
      log((m − a)/m(1 − p)) where it was not, so a count that rules the target out scores −∞;
    - of their convolutions with Laplace noise (or geometric, the same on whole numbers), which far
      from the expected counts no longer change with the value: the test that clips each cell's
      evidence at two thresholds;
    - of normal laws with the variance of count and noise under Gaussian noise;
    - of the binomial laws mixed by the law of what is published of each count, where that is more
      than noise: rounded, kept from falling below 0, suppressed where it is small, put in ranges;
    - of normal laws as found in training where the mechanism's law is not known, with the mean of
      *inside* shifted by t − p.

    The law is that of the release that is scored, whatever the adversary trained on. Cells of which
    it does not know whether the target was there are left out. Scores are log-likelihood ratios,
    so the threshold is 0. Nothing is drawn from ``rng``.
    """

    name: Literal["likelihood"] = "likelihood"

    needs_whereabouts: ClassVar[bool] = True
    validates: ClassVar[bool] = False

    def rule(self, reference: Reference) -> CellScore:
        """Return the log ratio of the laws that ``reference`` asks for."""
        noise, chance = reference.noise, occupancy_probabilities(reference)
        if reference.law is not None and reference.law.revised:
            return PublishedBinomialCounts(chance, reference.group_size, reference.law)
        if noise is None and reference.outside is not None:
            return _as_found(reference, reference.outside)
        if noise is None or noise.law == "gaussian":
            return Normal(chance, reference.group_size, noise_variance(noise) if noise else 0.0)
        if noise.law == "none":
            return BinomialCounts(chance, reference.group_size)
        return Faded(chance, reference.group_size, max(noise.scale, _LEAST_SCALE))

    def _fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> _Ratio:
        """Note what is expected of every cell."""
        # moments are for releases whose law is not known
        untold = knowledge.training.release.law is None
        whereabouts, reference = (
            require_target_knowledge(knowledge),
            build_reference(knowledge, moments=untold),
        )
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
        """Return the log-likelihood ratio of each group."""
        reference = replace(self.reference, noise=release.noise, law=release.law)
        rule = self.attack.rule(reference)
        flat = release.flat
        require_target_knowledge = flat if len(self.cells) == flat.shape[1] else flat[:, self.cells]
        return rule.total(require_target_knowledge, self.cells, self.here)


def _as_found(reference: Reference, outside: Floats) -> LinearCellScore:
    """Return the rule of normal laws of equal variance, *inside* shifted by t − p."""
    chance, spread = occupancy_probabilities(reference), variances(reference)
    shifts = (1 - chance, -chance)
    slopes = [shift / spread for shift in shifts]
    at_zero = [-slope * (outside + shift / 2) for slope, shift in zip(slopes, shifts, strict=True)]
    return LinearCellScore(*slopes, *at_zero)
