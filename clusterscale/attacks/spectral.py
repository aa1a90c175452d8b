"""Principal components of whole releases, then logistic regression (POMACS20 §3.1)."""

from typing import Any, Literal, Self
from weakref import WeakKeyDictionary

import numpy as np
from pydantic import model_validator

from clusterscale.attacks.base import LogOddsAttack
from clusterscale.attacks.blocked_linalg import (
    LinearDistinguisher,
    centre,
    column_variances,
    combine,
    gram,
)
from clusterscale.attacks.linear import solve
from clusterscale.contracts import (
    AttackSeconds,
    Count,
    Examples,
    Floats,
    Knowledge,
    Labels,
    Release,
    Share,
)

_FITS: WeakKeyDictionary[Examples, dict[tuple[Any, ...], LinearDistinguisher]] = WeakKeyDictionary()
_GRAMS: WeakKeyDictionary[Release, dict[bool, tuple[Floats, Floats | None]]] = WeakKeyDictionary()


class Spectral(LogOddsAttack):
    """Logistic regression (liblinear, C = 1) on the principal components of flattened releases.

    ``components`` keeps that many, ``variance`` the fewest that explain that share of it; by
    default all are kept. The papers keep 1,000 (TFL) and 600 (SFC), more than 400 training releases
    have.

    ``standardize`` first scales every cell to the same variance over the training releases, so that
    noisy cells do not mask cells without noise. The gains that POMACS20 §4.2 reports for small
    counts under noise are only reproduced this way, although the paper does not say so.

    Neither the components nor the regression need more than the inner products of the releases:
    with n releases of p cells the cost is n²p, once, and the p × p covariance is never formed.
    ``rng`` is not used.

    Attributes
    ----------
    components
        Number of components that are kept, e.g. ``10``; None: all.
    variance
        Share of the variance that the kept components explain, e.g. ``0.9``.
    standardize
        Whether cells are scaled to mean 0 and variance 1.
    """

    name: Literal["spectral"] = "spectral"
    seconds = AttackSeconds(train=1.2e-9, score=1.2e-9, pair_cell=6.5e-12)
    shows_loadings = True
    components: Count | None = None
    variance: Share | None = None
    standardize: bool = False

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        if self.components is not None and self.variance is not None:
            raise ValueError("give components or variance, not both")
        return self

    def _fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> LinearDistinguisher:
        fits = _FITS.setdefault(knowledge.training, {})
        settings = (self.components, self.variance, self.standardize)
        if settings not in fits:
            fits[settings] = self._train(knowledge.training.release, knowledge.training.labels)
        return fits[settings]

    def _train(self, release: Release, labels: Labels) -> LinearDistinguisher:
        products, scale = self._products(release)
        centred = centre(products)
        if self.components is None and self.variance is None:
            duals = onto_kept = solve(centred, labels)
        else:
            size, vectors = self._components(centred)
            duals = solve((vectors * size) @ vectors.T, labels)
            onto_kept = vectors @ (vectors.T @ duals)
        shares = onto_kept - onto_kept.mean()
        intercept = float(duals.sum() - (products @ shares).mean())
        weights = combine(release.flat, shares)
        return LinearDistinguisher(weights if scale is None else weights * scale**2, intercept)

    def _products(self, release: Release) -> tuple[Floats, Floats | None]:
        """Return the inner products of scaled releases, and the scale of their cells."""
        cache = _GRAMS.setdefault(release, {})
        if self.standardize not in cache:
            scale = None
            if self.standardize:
                spread = np.sqrt(column_variances(release.flat))
                scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
            cache[self.standardize] = gram(release.flat, scale), scale
        return cache[self.standardize]

    def _components(self, centred: Floats) -> tuple[Floats, Floats]:
        """Return the variances and directions, over groups, of the kept components."""
        size, vectors = np.linalg.eigh(centred)
        size, vectors = np.maximum(size[::-1], 0.0), vectors[:, ::-1]
        n_kept = self.components or len(size)
        if self.variance is not None:
            total = np.cumsum(size)
            n_kept = int(np.searchsorted(total, self.variance * total[-1] * (1 - 1e-12))) + 1
        return size[:n_kept], vectors[:, :n_kept]
