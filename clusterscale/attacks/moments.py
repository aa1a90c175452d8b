"""What the adversary expects of every cell when members are independent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from clusterscale.attacks.linear import blocks
from clusterscale.contracts import Noise, Release, Whereabouts

__all__ = ["chances", "noise_variance", "variances"]

Floats = NDArray[np.float64]


def chances(whereabouts: Whereabouts) -> Floats:
    """Return the probability that a member is in each cell, shape (cell,), never 0 or 1.

    The share in the reference, drawn half a user towards ½ (the estimate of Krichevsky and
    Trofimov 1981), so that a cell where nobody of the reference was is unlikely, not impossible.
    """
    n_users = whereabouts.n_users
    return np.asarray((whereabouts.mean_trace.ravel() * n_users + 0.5) / (n_users + 1))


def variances(release: Release, whereabouts: Whereabouts) -> Floats:
    """Return the variance of each cell's value over groups, shape (cell,), above 0.

    Of a binomial count and the noise, where the law of the noise is known; otherwise as found in
    ``release``, but never below that of one member.
    """
    chance = chances(whereabouts)
    one = chance * (1 - chance)
    if release.noise is None:
        found = np.zeros(len(chance))
        for columns, block in blocks(release.flat):
            found[columns] = block.var(axis=0)
        return np.maximum(found, one)
    return release.group_size * one + noise_variance(release.noise)


def noise_variance(noise: Noise) -> float:
    """Return the variance of the noise, in visits squared."""
    if noise.law == "geometric":  # 2q/(1 − q)² with q = exp(−1/scale)
        return float(0.5 / np.sinh(0.5 / noise.scale) ** 2)
    return {"none": 0.0, "laplace": 2 * noise.scale**2, "gaussian": noise.scale**2}[noise.law]
