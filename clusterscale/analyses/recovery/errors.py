"""Errors of an adversary's inference, and privacy loss and gain (PETS17 §3.1, §5.1)."""

from math import e, log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clusterscale.analyses.recovery.epoch_belief import EpochBelief
from clusterscale.analyses.recovery.estimates import NO_MASS, WeightedBelief, compare
from clusterscale.contracts import Values
from clusterscale.errors import InputError


def profiling_error(truth: ArrayLike, estimate: ArrayLike, *, base: float = 2) -> Values:
    """Return the distance of each user's estimated profile from the true one (PETS17 eq. 4).

    Parameters
    ----------
    truth
        Bool, shape (user, roi, epoch): visits of each user. All ROIs of a user and epoch have equal
        shares of the profile.
    estimate
        Non-negative real, same shape: shares of ROIs, or values proportional to them.
    base
        Base of the logarithm: 2 as in the text of PETS17, *e* as in its figures.

    Returns
    -------
    float64, shape (user,)
        The mean over epochs of the Jensen–Shannon distance, the square root of the divergence:
        from 0 to 1 in base 2, to √(ln 2) ≈ .833 in base *e*. The distance is 1 in an epoch in which
        truth or estimate has no mass.

    Raises
    ------
    InputError
        If shapes differ or are not (user, roi, epoch), the truth is not bool, an estimate is
        negative or not finite, or the base is not above 1.
    """
    if not base > 1:
        raise InputError(f"base must be above 1, not {base}")
    true, estimated = _check(truth, estimate)
    total = np.zeros(len(true))
    for epoch in range(true.shape[2]):
        belief, weights = EpochBelief.of_table(estimated[:, :, epoch]), np.ones(true.shape[1])
        visited = EpochBelief.of_table(true[:, :, epoch])
        errors = compare(visited, WeightedBelief(belief, weights, normalised=True), 1.0)
        total = total + to_base(np.where(errors.n_true > 0, errors.distance, NO_MASS), base)
    return np.asarray(total / true.shape[2])


def localization_error(truth: ArrayLike, estimate: ArrayLike) -> Values:
    """Return 1 − F1 of the predicted ROIs of each user over all epochs (PETS17 eq. 5).

    Parameters
    ----------
    truth, estimate
        Bool, shape (user, roi, epoch): true and predicted visits of each user.

    Returns
    -------
    float64, shape (user,)
        From 0, exactly the true visits predicted, to 1, none of them. 0 for a user without true and
        predicted visits.

    Raises
    ------
    InputError
        If shapes differ or are not (user, roi, epoch), or either is not bool.
    """
    true, predicted = _check(truth, estimate)
    if np.asarray(estimate).dtype != np.bool_:
        raise InputError("the estimate must be bool: use popular or every on shares")
    hits = (true & (predicted > 0)).sum(axis=(1, 2))
    return one_minus_f1(hits, predicted.sum(axis=(1, 2)), true.sum(axis=(1, 2)))


def one_minus_f1(hits: ArrayLike, predicted: ArrayLike, true: ArrayLike) -> Values:
    """Return 1 − F1 from the numbers of hits, predictions and truths; 0 where both are 0."""
    both = np.asarray(predicted, np.float64) + np.asarray(true)
    f1: Values = np.divide(2.0 * np.asarray(hits), both, out=np.ones_like(both), where=both > 0)
    return 1 - f1


def privacy_loss(prior_error: ArrayLike, error: ArrayLike) -> Values:
    """Return the share of the adversary's error that the release removes (PETS17 eq. 6).

    Parameters
    ----------
    prior_error, error
        Non-negative real, any shapes that broadcast: errors without and with the release.

    Returns
    -------
    float64
        From 0, where the release does not help or there was no error, to 1.
    """
    before, after = np.asarray(prior_error, np.float64), np.asarray(error, np.float64)
    lost = np.maximum(before - after, 0)
    return np.divide(lost, before, out=np.zeros_like(lost), where=before > 0)


def privacy_gain(error: ArrayLike, protected_error: ArrayLike, *, most: float = 1.0) -> Values:
    """Return the error that a defence adds, relative to the maximal addition (PETS17 eq. 16).

    Parameters
    ----------
    error, protected_error
        Non-negative real, any shapes that broadcast: errors with raw counts and with the defence.
    most
        Largest possible error.

    Returns
    -------
    float64
        From 0, where the defence does not help or the error was maximal before, to 1.
    """
    raw, defended = np.asarray(error, np.float64), np.asarray(protected_error, np.float64)
    gained, room = np.maximum(defended - raw, 0), most - raw
    return np.divide(gained, room, out=np.zeros_like(gained), where=room > 0)


def to_base(distance: Values, base: float) -> Values:
    """Convert distances from base *e* to another base; 1 for an estimate without mass."""
    scale = 1 if base == e else log(base)
    return np.where(distance == NO_MASS, 1.0, distance / np.sqrt(scale))


def _check(truth: ArrayLike, estimate: ArrayLike) -> tuple[NDArray[np.bool_], Values]:
    true, estimated = np.asarray(truth), np.asarray(estimate)
    if true.ndim != 3 or true.shape != estimated.shape or 0 in true.shape:
        raise InputError(
            "truth and estimate must have the same shape (user, roi, epoch), not "
            f"{true.shape} and {estimated.shape}"
        )
    if true.dtype != np.bool_:
        raise InputError(f"the truth must be bool, not {true.dtype}")
    return true, estimated
