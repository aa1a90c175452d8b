"""Compare an adversary's estimate of an epoch with the truth (PETS17 §3.1)."""

from dataclasses import dataclass
from math import log
from typing import NamedTuple, Self

import numpy as np

from clusterscale.analyses.recovery.epoch_belief import EpochBelief, Ids, Ranks
from clusterscale.contracts import Values
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
    distinct = _Segments.of(belief)._replace(begin=begin, end=end)
    predicted = _count_predicted(distinct, weights[order], bounds, least)
    n_true = np.bincount(truth.user, minlength=truth.n_users)
    sides = (_Segments.of(truth), _Segments.of(belief))
    distance, hits = _match(*sides, n_true, weights, mass, least)
    _predict_null_roi(truth, predicted[0], hits[0])
    return EstimateErrors(distance, hits, predicted, n_true)


class _Segments(NamedTuple):
    """Arrays of an :class:`EpochBelief`, as kernels take them."""

    begin: Ids
    end: Ids
    user: Ranks
    probability: Values

    @classmethod
    def of(cls, belief: EpochBelief) -> Self:
        return cls(belief.begin, belief.end, belief.user, belief.probability)


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
