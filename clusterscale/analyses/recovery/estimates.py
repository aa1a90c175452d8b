"""Estimates of an epoch, who makes them, and their errors (PETS17 §3.1, §5.1)."""

from dataclasses import dataclass
from math import e, log
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clusterscale.analyses.recovery.epoch_belief import EpochBelief, Ids, Ranks, Visits
from clusterscale.contracts import Named, Values
from clusterscale.errors import InputError
from clusterscale.jit import kernel

NO_MASS = -1.0
"""Marks the distance of an estimate without mass."""

DECISION_RULES = ("popular", "every")
"""Rules that turn shares into ROIs: those above a threshold, or else the null ROI; or all with a
positive share (PETS17 eqs 12, 13)."""

_LOG_2 = log(2)


@dataclass(frozen=True, slots=True, eq=False)
class WeightedBelief:
    """A belief whose ROIs have weights, float64, shape (roi,).

    The estimate of a user in ROI ``s`` is ``probability × weights[s]``; with ``normalised`` it is
    divided by the user's sum over ROIs.
    """

    belief: EpochBelief
    weights: Values
    normalised: bool


@dataclass(frozen=True, slots=True, eq=False)
class EstimateErrors:
    """Errors of an estimate of an epoch for each user.

    Attributes
    ----------
    distance
        float64, shape (user,): Jensen–Shannon distance of profiles in base *e*, or
        :data:`NO_MASS`.
    hits, predicted
        int64, shape (reading, user): numbers of correct and of all predicted ROIs.
    n_true
        int64, shape (user,): number of true ROIs.
    """

    distance: Values
    hits: Ids
    predicted: Ids
    n_true: Ids


def compare(truth: EpochBelief, estimate: WeightedBelief, threshold: float) -> EstimateErrors:
    """Compare an estimate with the truth of the same users and ROIs.

    The distance needs the estimate only in true ROIs: with ``p`` true, ``q`` estimated and ``m``
    their mean, twice the divergence is the sum of ``p log(p / m) + q log(q / m)`` there, and of
    ``q log 2`` elsewhere.

    Raises
    ------
    InputError
        If truth and estimate are of different users or ROIs.
    """
    belief, weights = estimate.belief, estimate.weights
    sizes = [(side.n_users, side.n_rois) for side in (truth, belief)]
    if sizes[0] != sizes[1]:
        raise InputError(f"the truth is of {sizes[0]} users and ROIs, the estimate of {sizes[1]}")
    mass = belief.mass(weights)
    least = threshold * (mass if estimate.normalised else np.ones_like(mass))
    begin, end, which = belief.segments()
    order = np.lexsort((weights, which))
    bounds = np.searchsorted(which[order], np.arange(len(begin) + 1))
    distinct = begin, end, belief.user, belief.probability
    predicted = _count_predicted(distinct, weights[order], bounds, least)
    n_true = np.bincount(truth.user, minlength=truth.n_users)
    distance, hits = _match(truth.arrays, belief.arrays, n_true, weights, mass, least)
    _predict_null_roi(truth, predicted[0], hits[0])
    return EstimateErrors(distance, hits, predicted, n_true)


_Segments = tuple[Ids, Ids, Ranks, Values]  # arrays of an EpochBelief


def _predict_null_roi(truth: EpochBelief, predicted: Ids, hits: Ids) -> None:
    """Predict the null ROI, the last one, for users without a popular ROI (PETS17 §4.3.1)."""
    idle = np.zeros(len(predicted), np.bool_)
    idle[truth.user[truth.begin[-1] : truth.end[-1]]] = True
    nowhere = predicted == 0
    predicted[nowhere] = 1
    hits[nowhere & idle] = 1


@kernel
def _count_predicted(belief: _Segments, weights: Values, bounds: Ids, least: Values) -> Ids:
    """Return the number of predicted ROIs of each user, by both decision rules.

    ``weights`` are sorted within each segment, those of segment ``i`` being
    ``weights[bounds[i]:bounds[i + 1]]``, so all ROIs after a predicted one are predicted too.
    """
    begin, end, user, probability = belief
    predicted = np.zeros((2, len(least)), np.int64)
    for segment in range(len(begin)):
        last = bounds[segment + 1]
        any_weight = _first(weights, bounds[segment], last, 1.0, 0.0)
        for i in range(begin[segment], end[segment]):
            enough = _first(weights, any_weight, last, probability[i], least[user[i]])
            predicted[0, user[i]] += last - enough
            predicted[1, user[i]] += last - any_weight
    return predicted


@kernel
def _first(weights: Values, low: int, high: int, factor: float, least: float) -> int:
    """Return the first index whose weight times ``factor`` is above 0 and at least ``least``."""
    while low < high:
        middle = (low + high) // 2
        value = factor * weights[middle]
        if value > 0 and value >= least:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def _match(
    truth: _Segments, belief: _Segments, n_true: Ids, weights: Values, mass: Values, least: Values
) -> tuple[Values, Ids]:
    """Return distances and hits by looking up each true visit in the estimate."""
    true_begin, true_end, true_user, _ = truth
    begin, end, user, probability = belief
    distance, shared = np.zeros(len(mass)), np.zeros(len(mass))
    hits = np.zeros((2, len(mass)), np.int64)
    for roi in range(len(true_begin)):
        at = begin[roi]
        for i in range(true_begin[roi], true_end[roi]):
            who, p = true_user[i], 1 / n_true[true_user[i]]
            at += np.searchsorted(user[at : end[roi]], who)
            value = 0.0
            if at < end[roi] and user[at] == who:
                value = probability[at] * weights[roi]
            if value > 0:
                hits[0, who] += value >= least[who]
                hits[1, who] += 1
                q = value / mass[who]
                distance[who] += p * np.log(2 * p / (p + q)) + q * np.log(2 * q / (p + q))
                shared[who] += q
            else:
                distance[who] += p * _LOG_2
    for who in range(len(mass)):
        nats = (distance[who] + (1 - shared[who]) * _LOG_2) / 2
        distance[who] = np.sqrt(min(max(nats, 0.0), _LOG_2)) if mass[who] > 0 else NO_MASS
    return distance, hits


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """Published values of one epoch.

    Attributes
    ----------
    values
        float64, shape (roi,): the last ROI is the null ROI. Noisy values may be any finite number.
    activity
        int64, shape (user,): reports of each user in observed epochs, by rank, so not increasing.
    """

    values: Values
    activity: Ids


@runtime_checkable
class InferencePrior(Named, Protocol):
    """Prior knowledge of the adversary about all users (PETS17 §3.2)."""

    @property
    def needs(self) -> int:
        """Number of epochs that must be known before the first inferred one."""

    @property
    def hourly(self) -> bool:
        """Whether epochs must be hours."""

    def season(self, epoch: int) -> int:
        """Return a number that is equal for epochs with the same belief."""

    def belief(self, visits: Visits, observed: int, epoch: int) -> EpochBelief:
        """Return the belief about an epoch.

        Parameters
        ----------
        visits
            Visits of all users, from the first observed epoch on.
        observed
            Number of observed epochs; the others are to be inferred.
        epoch
            Index of the epoch, at least ``observed``.
        """


@runtime_checkable
class InferenceStrategy(Named, Protocol):
    """Strategy to infer an estimate from a prior and a release (PETS17 §3.3)."""

    def estimate(self, prior: EpochBelief, aggregate: Aggregate) -> WeightedBelief:
        """Return the estimate of one epoch."""


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
