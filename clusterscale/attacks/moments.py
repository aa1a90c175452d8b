"""Mean and variance of every cell that the adversary expects, for independent members."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from clusterscale.attacks.blocked_linalg import column_variances, combine
from clusterscale.contracts import Knowledge, Reference, TargetKnowledge
from clusterscale.errors import InputError

Floats = NDArray[np.float64]


def require_target_knowledge(knowledge: Knowledge) -> TargetKnowledge:
    """Return what is known of the target's location.

    Raises
    ------
    InputError
        If the prior does not know it.
    """
    if knowledge.whereabouts is None:
        raise InputError("this attack needs the target's location, which the prior does not know")
    return knowledge.whereabouts


def build_reference(knowledge: Knowledge, *, moments: bool = True) -> Reference:
    """Return the adversary's reference, with moments of the training releases if needed.

    They are computed if the noise distribution is not known and ``moments`` is true.

    Raises
    ------
    InputError
        If the prior does not know where the target was.
    """
    target, training = require_target_knowledge(knowledge), knowledge.training
    release = training.release
    outside = spread = None
    if moments and release.noise is None:
        outside = combine(release.flat, ~training.labels / (~training.labels).sum())
        spread = column_variances(release.flat)
    return Reference(
        mean_trace=target.mean_trace.ravel(),
        n_users=target.n_users,
        group_size=release.group_size,
        noise=release.noise,
        outside=outside,
        spread=spread,
        law=release.law,
        weights=_weights(target),
    )


def _weights(target: TargetKnowledge) -> tuple[float, float]:
    """Return the weight of the target, and the mean weight of the others of the reference."""
    if target.weights is None:
        return 1.0, 1.0
    own, total = target.weights
    return own, (total - own) / max(target.n_users - 1, 1)


def occupancy_probabilities(reference: Reference) -> Floats:
    """Return the probability that a member is in each cell, shape (cell,), never 0 or 1.

    The share in the reference, shrunk by half a user towards ½ (the estimate of Krichevsky and
    Trofimov 1981), so that a cell without users of the reference is unlikely, not impossible.
    """
    n_users = reference.n_users
    return np.asarray((reference.mean_trace * n_users + 0.5) / (n_users + 1))


def variances(reference: Reference) -> Floats:
    """Return the variance of each cell's value over groups, shape (cell,), above 0.

    That of a binomial count plus noise, if the noise distribution is known; otherwise that of the
    training releases, but at least that of one member.
    """
    chance = occupancy_probabilities(reference)
    one = chance * (1 - chance)
    if reference.spread is not None:
        return np.maximum(reference.spread, one * reference.weights[1] ** 2)
    noise = 0.0 if reference.noise is None else reference.noise.variance
    return np.asarray(reference.group_size * one + noise)
