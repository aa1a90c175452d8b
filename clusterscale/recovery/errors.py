"""How far an adversary is from the truth, and what a release adds to that (PETS17 §3.1, §5.1)."""

from __future__ import annotations

from math import e, log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clusterscale.contracts import Values
from clusterscale.errors import InputError
from clusterscale.recovery.epoch_belief import EpochBelief
from clusterscale.recovery.estimates import NO_MASS, WeightedBelief, compare

__all__ = [
    "localization_error",
    "privacy_gain",
    "privacy_loss",
    "profiling_error",
    "to_base",
]


def profiling_error(truth: ArrayLike, estimate: ArrayLike, *, base: float = 2) -> Values:
    """Return how far each user's estimated profile is from the true one (PETS17 eq. 4).

    Parameters
    ----------
    truth
        Bool, shape (user, roi, epoch): where each user was. All ROIs of a user and epoch are
        equally part of the profile.
    estimate
        Real from 0 on, same shape: shares of ROIs, or anything proportional to them.
    base
        Of the logarithm: 2 as the text of PETS17 says, *e* as its figures have it.

    Returns
    -------
    float64, shape (user,)
        The mean over epochs of the Jensen–Shannon distance, the square root of the divergence:
        from 0 to 1 in base 2, to √(ln 2) ≈ .833 in base *e*. An epoch in which truth or estimate
        has no mass counts 1.

    Raises
    ------
    InputError
        If shapes differ or are not (user, roi, epoch), the truth is not bool, an estimate is
        negative or not finite, or the base is not above 1.
    """
    if not base > 1:
        raise InputError(f"base is that of a logarithm, above 1, not {base}")
    true, estimated = _check(truth, estimate)
    total = np.zeros(len(true))
    for epoch in range(true.shape[2]):
        column, weights = EpochBelief.of_table(estimated[:, :, epoch]), np.ones(true.shape[1])
        there = EpochBelief.of_table(true[:, :, epoch])
        found = compare(there, WeightedBelief(column, weights, normalised=True), 1.0)
        total = total + to_base(np.where(found.n_true > 0, found.distance, NO_MASS), base)
    mean: Values = total / true.shape[2]
    return mean


def localization_error(truth: ArrayLike, estimate: ArrayLike) -> Values:
    """Return 1 − F1 of the ROIs told of each user over all epochs (PETS17 eq. 5).

    Parameters
    ----------
    truth, estimate
        Bool, shape (user, roi, epoch): where each user was, and is said to have been.

    Returns
    -------
    float64, shape (user,)
        From 0, every visit told and no other, to 1, none told. 0 for a user who was nowhere and is
        said to have been nowhere.

    Raises
    ------
    InputError
        If shapes differ or are not (user, roi, epoch), or either is not bool.
    """
    true, told = _check(truth, estimate)
    if np.asarray(estimate).dtype != np.bool_:
        raise InputError("an estimate of where users were is bool: use popular or every on shares")
    hits = (true & (told > 0)).sum(axis=(1, 2))
    return one_minus_f1(hits, told.sum(axis=(1, 2)), true.sum(axis=(1, 2)))


def one_minus_f1(hits: ArrayLike, told: ArrayLike, true: ArrayLike) -> Values:
    """Return 1 − F1 of so many told rightly, told, and true; 0 where there is nothing to tell."""
    both = np.asarray(told, np.float64) + np.asarray(true)
    found: Values = np.divide(2.0 * np.asarray(hits), both, out=np.ones_like(both), where=both > 0)
    return 1 - found


def privacy_loss(prior_error: ArrayLike, error: ArrayLike) -> Values:
    """Return the share of the adversary's error that the release takes away (PETS17 eq. 6).

    Parameters
    ----------
    prior_error, error
        Real from 0 on, any shapes that broadcast: errors without and with the release.

    Returns
    -------
    float64
        From 0, where the release does not help or there was no error, to 1.
    """
    before, after = np.asarray(prior_error, np.float64), np.asarray(error, np.float64)
    lost = np.maximum(before - after, 0)
    return np.divide(lost, before, out=np.zeros_like(lost), where=before > 0)


def privacy_gain(error: ArrayLike, protected_error: ArrayLike, *, most: float = 1.0) -> Values:
    """Return the share of what a defence could add to the error that it does add (PETS17 eq. 16).

    Parameters
    ----------
    error, protected_error
        Real from 0 on, any shapes that broadcast: errors with the bare and the defended release.
    most
        The largest error there can be.

    Returns
    -------
    float64
        From 0, where the defence does not help or there was nothing to add, to 1.
    """
    bare, defended = np.asarray(error, np.float64), np.asarray(protected_error, np.float64)
    gained, room = np.maximum(defended - bare, 0), most - bare
    return np.divide(gained, room, out=np.zeros_like(gained), where=room > 0)


def to_base(distance: Values, base: float) -> Values:
    """Return distances of base *e* in another base; 1 for an estimate without any mass."""
    scale = 1 if base == e else log(base)
    return np.where(distance == NO_MASS, 1.0, distance / np.sqrt(scale))


def _check(truth: ArrayLike, estimate: ArrayLike) -> tuple[NDArray[np.bool_], Values]:
    true, estimated = np.asarray(truth), np.asarray(estimate)
    if true.ndim != 3 or true.shape != estimated.shape or 0 in true.shape:
        raise InputError(
            "truth and estimate have one shape (user, roi, epoch), not "
            f"{true.shape} and {estimated.shape}"
        )
    if true.dtype != np.bool_:
        raise InputError(f"the truth is bool, where each user was, not {true.dtype}")
    return true, estimated
