"""What an adversary concludes of an epoch, against the truth (PETS17 §3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from clusterscale.contracts import Values
from clusterscale.errors import InputError
from clusterscale.jit import kernel
from clusterscale.recovery.epoch_belief import EpochBelief, Ids, Ranks

__all__ = ["DECISION_RULES", "NO_MASS", "EstimateErrors", "WeightedBelief", "compare"]

NO_MASS = -1.0
"""Stands for the distance of an estimate that has no mass."""

DECISION_RULES = ("popular", "every")
"""How shares become places: those above a threshold, or else the null ROI; or any (PETS17 eqs 12,
13)."""

_LOG_2 = log(2)


@dataclass(frozen=True, slots=True, eq=False)
class WeightedBelief:
    """A column whose ROIs have weights.

    The estimate of user ``u`` in ROI ``s`` is ``probability × weights[s]``, float64, shape (roi,);
    with ``normalised`` the share of that in the user's sum over ROIs.
    """

    column: EpochBelief
    weights: Values
    normalised: bool


@dataclass(frozen=True, slots=True, eq=False)
class EstimateErrors:
    """How far an estimate of an epoch is from the truth, user by user.

    Attributes
    ----------
    distance
        float64, shape (user,): Jensen–Shannon distance of profiles in base *e*, or
        :data:`NO_MASS`.
    hits, told
        int64, shape (reading, user): ROIs told rightly, and told.
    n_true
        int64, shape (user,): ROIs of the truth.
    """

    distance: Values
    hits: Ids
    told: Ids
    n_true: Ids


def compare(truth: EpochBelief, estimate: WeightedBelief, threshold: float) -> EstimateErrors:
    """Compare an estimate with the truth of the same users and ROIs.

    The distance needs an estimate only where the user was: with ``p`` true, ``q`` estimated and
    ``m`` their mean, twice the divergence is the sum of ``p log(p / m) + q log(q / m)`` there, and
    ``q log 2`` anywhere else.

    Raises
    ------
    InputError
        If these are of other users or ROIs.
    """
    column, weights = estimate.column, estimate.weights
    sizes = [(each.n_users, each.n_rois) for each in (truth, column)]
    if sizes[0] != sizes[1]:
        raise InputError(f"the truth is of {sizes[0]} users and ROIs, the estimate of {sizes[1]}")
    mass = column.mass(weights)
    least = threshold * (mass if estimate.normalised else np.ones_like(mass))
    begin, end, which = column.segments()
    order = np.lexsort((weights, which))
    bounds = np.searchsorted(which[order], np.arange(len(begin) + 1))
    entries = column.user, column.probability
    told = _count_told(begin, end, *entries, weights[order], bounds, least)
    n_true = np.bincount(truth.user, minlength=truth.n_users)
    distance, hits = _meet(
        truth.begin, truth.end, truth.user, n_true, column.begin, column.end, *entries,
        weights, mass, least,
    )  # fmt: skip
    _tell_nowhere(truth, told[0], hits[0])
    return EstimateErrors(distance, hits, told, n_true)


def _tell_nowhere(truth: EpochBelief, told: Ids, hits: Ids) -> None:
    """Tell the null ROI, the last one, of whoever has no popular ROI (PETS17 §4.3.1)."""
    idle = np.zeros(len(told), np.bool_)
    idle[truth.user[truth.begin[-1] : truth.end[-1]]] = True
    nowhere = told == 0
    told[nowhere] = 1
    hits[nowhere & idle] = 1


@kernel
def _count_told(
    begin: Ids,
    end: Ids,
    user: Ranks,
    probability: Values,
    weights: Values,
    bounds: Ids,
    least: Values,
) -> Ids:
    """Return how many ROIs are told of each user, by both readings.

    ``weights`` are sorted within each segment, those of segment ``i`` being
    ``weights[bounds[i]:bounds[i + 1]]``, so a ROI that is told is followed by others that are.
    """
    told = np.zeros((2, len(least)), np.int64)
    for segment in range(len(begin)):
        last = bounds[segment + 1]
        any_weight = _first(weights, bounds[segment], last, 1.0, 0.0)
        for i in range(begin[segment], end[segment]):
            enough = _first(weights, any_weight, last, probability[i], least[user[i]])
            told[0, user[i]] += last - enough
            told[1, user[i]] += last - any_weight
    return told


@kernel
def _first(weights: Values, low: int, high: int, factor: float, least: float) -> int:
    """Return the first place whose weight times ``factor`` is above 0 and not below ``least``."""
    while low < high:
        middle = (low + high) // 2
        value = factor * weights[middle]
        if value > 0 and value >= least:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def _meet(
    true_begin: Ids,
    true_end: Ids,
    true_user: Ranks,
    n_true: Ids,
    begin: Ids,
    end: Ids,
    user: Ranks,
    probability: Values,
    weights: Values,
    mass: Values,
    least: Values,
) -> tuple[Values, Ids]:
    """Return distances and hits; goes over the truth, and looks each visit up in the estimate."""
    distance, shared = np.zeros(len(mass)), np.zeros(len(mass))
    hits = np.zeros((2, len(mass)), np.int64)
    for roi in range(len(true_begin)):
        place = begin[roi]
        for i in range(true_begin[roi], true_end[roi]):
            who, p = true_user[i], 1 / n_true[true_user[i]]
            place += np.searchsorted(user[place : end[roi]], who)
            value = 0.0
            if place < end[roi] and user[place] == who:
                value = probability[place] * weights[roi]
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
