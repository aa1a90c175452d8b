"""The strategies of PETS17 as functions of whole arrays, for data that fit into memory.

Arrays are those of :mod:`~clusterscale.analyses.recovery.functional_priors`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clusterscale.analyses.recovery.epoch_belief import EpochBelief, by_activity
from clusterscale.analyses.recovery.protocols import Aggregate, InferenceStrategy
from clusterscale.analyses.recovery.strategies import Bayes, MaxRoi, MaxUser
from clusterscale.contracts import Values
from clusterscale.errors import InputError

Flags = NDArray[np.bool_]


def popular(prior: ArrayLike, threshold: float = 0.5) -> Flags:
    """Return the ROIs with a share of at least ``threshold``, or else the null ROI (PETS17 eq. 12).

    The equation alone predicts no ROI if none is popular; the paper then predicts the null ROI
    (§4.3.1: "she predicts all of them to be outside the network").

    Parameters
    ----------
    prior
        Real, shape (…, roi, epoch): shares, the last ROI being the null ROI.
    threshold
        Minimal share, above 0 and at most 1.

    Returns
    -------
    bool, the same shape

    Raises
    ------
    InputError
        If the threshold is out of range, or there are no ROIs.
    """
    if not 0 < threshold <= 1:
        raise InputError(f"threshold must be above 0 and at most 1, not {threshold}")
    shares = np.asarray(prior)
    if shares.ndim < 2 or not shares.shape[-2]:
        raise InputError(f"a prior must have shape (…, roi, epoch), not {shares.shape}")
    predicted: Flags = shares >= threshold
    predicted[..., -1, :] |= ~predicted.any(axis=-2)
    return predicted


def every(prior: ArrayLike) -> Flags:
    """Return the ROIs with a positive share (PETS17 eq. 13).

    Parameters
    ----------
    prior
        Real, of any shape: shares.

    Returns
    -------
    bool, the same shape
        True where a ROI is predicted.
    """
    return np.asarray(prior) > 0


def assign(
    strategy: InferenceStrategy, prior: ArrayLike, aggregate: ArrayLike, activity: ArrayLike
) -> Values:
    """Return a strategy's estimate from a prior and a release.

    Parameters
    ----------
    strategy
        The strategy.
    prior
        Non-negative real, shape (user, roi, epoch), with a null ROI.
    aggregate
        Real, shape (roi, epoch): published values, including the null ROI.
    activity
        Int, shape (user,): reports of each user; users with more reports come first, ties by
        index.

    Returns
    -------
    float64, shape (user, roi, epoch)
        Shares that sum to 1 over the ROIs of a user and epoch, or are all 0.

    Raises
    ------
    InputError
        If shapes do not match, or a value is not finite, or negative in the prior.
    """
    shares, published = np.asarray(prior, np.float64), np.asarray(aggregate, np.float64)
    if shares.ndim != 3 or published.shape != shares.shape[1:]:
        raise InputError(
            "a prior must be (user, roi, epoch) and a release (roi, epoch), not "
            f"{shares.shape} and {published.shape}"
        )
    if not np.isfinite(published).all():
        raise InputError("a release must have a finite value for every ROI and epoch")
    order, reports = by_activity(activity, len(shares)), np.asarray(activity, np.int64)
    estimates = np.zeros_like(shares)
    for epoch in range(shares.shape[2]):
        belief = EpochBelief.of_table(shares[order, :, epoch])
        estimate = strategy.estimate(belief, Aggregate(published[:, epoch], reports[order]))
        estimates[order, :, epoch] = estimate.belief.table() * estimate.weights
    total = estimates.sum(axis=1, keepdims=True)
    posterior: Values = np.divide(estimates, total, out=np.zeros_like(estimates), where=total > 0)
    return posterior


def bayes(prior: ArrayLike, aggregate: ArrayLike) -> Values:
    """Return the posterior of each user (PETS17 algorithm 3.1).

    Parameters
    ----------
    prior, aggregate
        As for :func:`assign`.

    Returns
    -------
    float64, shape (user, roi, epoch)
        As :func:`assign`.

    Raises
    ------
    InputError
        As :func:`assign`.
    """
    return assign(Bayes(), prior, aggregate, np.zeros(len(np.asarray(prior)), np.int64))


def max_roi(prior: ArrayLike, aggregate: ArrayLike, activity: ArrayLike) -> Flags:
    """Assign to each ROI its most probable users (PETS17 algorithm 3.2).

    Parameters
    ----------
    prior, aggregate, activity
        As for :func:`assign`.

    Returns
    -------
    bool, shape (user, roi, epoch)
        True where a user is assigned to a ROI.

    Raises
    ------
    InputError
        As :func:`assign`.
    """
    return assign(MaxRoi(), prior, aggregate, activity) > 0


def max_user(prior: ArrayLike, aggregate: ArrayLike, activity: ArrayLike) -> Flags:
    """Assign ROIs to users, the most active users first (PETS17 algorithm 3.3).

    Parameters
    ----------
    prior, aggregate, activity
        As for :func:`assign`.

    Returns
    -------
    bool, shape (user, roi, epoch)
        True where a user is assigned to a ROI.

    Raises
    ------
    InputError
        As :func:`assign`.
    """
    return assign(MaxUser(), prior, aggregate, activity) > 0
