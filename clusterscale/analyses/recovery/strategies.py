"""Strategies that infer an estimate from a prior and a release (PETS17 §3.3).

======== ================================================================= =============
name     what it does                                                      source
======== ================================================================= =============
bayes    updates each user's prior by the published counts                 algorithm 3.1
max_roi  assigns to each ROI its most probable users                       algorithm 3.2
max_user assigns all possible ROIs to the most active users                algorithm 3.3
joint    finds the most probable assignment of all users; not from a paper
======== ================================================================= =============

The greedy assignments assign the null ROI to users without any other ROI. Algorithm 3.2 meets the
count of every ROI but may assign dozens of them to one user; algorithm 3.3 assigns only the most
active users. In the joint assignment, a transport problem, each user also has a number of ROIs to
visit, so that both margins are met:

- the published number of users is in the null ROI, those with the highest prior probability of it;
- each of the others is in at least one ROI, and the remaining published visits are distributed in
  proportion to activity and to the prior probability of being in any real ROI;
- under these margins and the published counts, the assignment with the largest sum of
  log-probabilities is chosen. Each visit adds a bonus, so that one more visit is always worth more
  than an exchange.
"""

from typing import Literal

import numpy as np
import scipy

from clusterscale.analyses.recovery.epoch_belief import EpochBelief, Ids, Ranks, assign_rest
from clusterscale.analyses.recovery.estimates import Aggregate, InferenceStrategy, WeightedBelief
from clusterscale.contracts import NamedModel, Values
from clusterscale.errors import InputError
from clusterscale.registry import Registry


class Bayes(NamedModel):
    """The prior of each user, updated by the published counts; users are treated as independent.

    PETS17 eq. 15, algorithm 3.1. A user whose prior has no mass where published counts are positive
    has an estimate without mass. Values below 0 count as 0.
    """

    name: Literal["bayes"] = "bayes"

    def estimate(self, prior: EpochBelief, aggregate: Aggregate) -> WeightedBelief:
        """Return the posterior."""
        return WeightedBelief(prior, count_users(aggregate), normalised=True)


def count_users(aggregate: Aggregate) -> Values:
    """Return the published number of users in each ROI, at least 0."""
    return np.maximum(aggregate.values, 0)


class MaxRoi(NamedModel):
    """The most probable users for each ROI (PETS17 algorithm 3.2).

    If fewer users than published have a positive probability, the most active of the others are
    added, because the algorithm sorts all users.

    Attributes
    ----------
    ties
        Which of equally probable users come first, e.g. ``activity``: the most active, as the paper
        says; ``arbitrary``: a fixed order unrelated to activity, as its figures 3b, 11b and 16b
        need.
    """

    name: Literal["max_roi"] = "max_roi"
    ties: Literal["activity", "arbitrary"] = "activity"

    def estimate(self, prior: EpochBelief, aggregate: Aggregate) -> WeightedBelief:
        """Return the assignment."""
        place = np.arange(prior.n_users)
        if self.ties == "arbitrary":  # Fibonacci hashing of ranks
            place = place * 2_654_435_769 % 2**32
        return _assign(prior, aggregate, place)


class MaxUser(NamedModel):
    """All possible ROIs that still lack users for each user, the most active users first.

    PETS17 algorithm 3.3.
    """

    name: Literal["max_user"] = "max_user"

    def estimate(self, prior: EpochBelief, aggregate: Aggregate) -> WeightedBelief:
        """Return the assignment."""
        return _assign(prior, aggregate, None)


def whole(values: Values, n_users: int) -> Ids:
    """Return published values as numbers of users, int64: rounded, from 0 to ``n_users``.

    Raises
    ------
    InputError
        If a value is NaN.
    """
    if np.isnan(values).any():
        raise InputError(f"{int(np.isnan(values).sum())} of {values.size} published values are NaN")
    return np.rint(np.clip(values, 0, n_users)).astype(np.int64)


def _assign(prior: EpochBelief, aggregate: Aggregate, place: Ids | None) -> WeightedBelief:
    """Assign the most probable users, ties by ``place``; if None, all possible users by rank."""
    counts = whole(aggregate.values[:-1], prior.n_users)
    by_place = None if place is None else np.argsort(place)
    picked = [np.zeros(0, np.int32)]
    for begin, end, wanted in zip(prior.begin[:-1], prior.end[:-1], counts, strict=True):
        some = slice(begin, end)
        picked.append(_pick(prior.user[some], prior.probability[some], wanted, place, by_place))
    bounds = np.cumsum([len(users) for users in picked])
    assigned = assign_rest(bounds, np.concatenate(picked), prior.n_users)
    return WeightedBelief(assigned, np.ones(prior.n_rois), normalised=False)


def _pick(
    user: Ranks, probability: Values, wanted: int, place: Ids | None, by_place: Ids | None
) -> Ranks:
    """Return the users that one ROI is assigned, increasing; ``by_place``: all users in order."""
    if place is None or by_place is None or wanted == len(user):
        return user[:wanted]
    if wanted < len(user):
        return np.sort(user[np.lexsort((place[user], -probability))[:wanted]])
    free = np.ones(len(place), np.bool_)
    free[user] = False
    others = by_place[free[by_place]][: wanted - len(user)]
    return np.sort(np.append(user, others.astype(np.int32)))


class Joint(NamedModel):
    """The most probable assignment of all users together, under the published counts.

    Not from a paper; HiGHS solves the linear program.
    """

    name: Literal["joint"] = "joint"

    def estimate(self, prior: EpochBelief, aggregate: Aggregate) -> WeightedBelief:
        """Return the assignment."""
        counts = whole(aggregate.values, prior.n_users)
        supply = _supply(prior, counts, aggregate.activity)
        _, _, which = prior.segments()
        segments = which[:-1][prior.end[:-1] > prior.begin[:-1]]
        assign = _transport if len(np.unique(segments)) == len(segments) else _spread
        roi, user = assign(prior, counts[:-1], supply)
        order = np.lexsort((user, roi))
        bounds = np.searchsorted(roi[order], np.arange(prior.n_rois))
        assigned = assign_rest(bounds, user[order].astype(np.int32), prior.n_users)
        return WeightedBelief(assigned, np.ones(prior.n_rois), normalised=False)


def _supply(prior: EpochBelief, counts: Ids, activity: Ids) -> Ids:
    """Return the number of ROIs to assign to each user, int64, shape (user,)."""
    weights = np.ones(prior.n_rois)
    weights[-1] = 0
    anywhere = prior.mass(weights)
    n_present = min(int((anywhere > 0).sum()), prior.n_users - int(counts[-1]))
    n_visits = int(counts[:-1].sum())
    present = np.lexsort((np.arange(prior.n_users), -activity, -anywhere))[:n_present]
    supply = np.zeros(prior.n_users, np.int64)
    supply[present] = 1
    share = (anywhere * (1 + activity))[present]
    if n_visits > n_present > 0:
        supply[present] += _apportion(share, n_visits - n_present)
    return supply


def _apportion(shares: Values, total: int) -> Ids:
    """Split an integer in proportion to shares, rounding up the largest remainders."""
    exact: Values = shares * (total / shares.sum())
    parts: Ids = np.floor(exact).astype(np.int64)
    first = np.argsort(parts - exact, kind="stable")[: total - int(parts.sum())]
    parts[first] += 1
    return parts


def _transport(prior: EpochBelief, counts: Ids, supply: Ids) -> tuple[Ids, Ranks]:
    """Return ROI and user of each visit of the most probable assignment."""
    roi = np.repeat(np.arange(len(counts)), prior.end[:-1] - prior.begin[:-1])
    entry = np.concatenate(
        [np.arange(b, e) for b, e in zip(prior.begin[:-1], prior.end[:-1], strict=True)]
    )
    possible = (counts[roi] > 0) & (supply[prior.user[entry]] > 0)
    roi, entry = roi[possible], entry[possible]
    if not len(entry):
        return roi, prior.user[entry]
    user, gain = prior.user[entry], np.log(prior.probability[entry])
    gain += 1 - 2 * gain.min()
    of_roi, of_user = (
        scipy.sparse.coo_array(
            (np.ones(len(entry)), (side, np.arange(len(entry)))), (n, len(entry))
        )
        for side, n in ((roi, len(counts)), (user, prior.n_users))
    )
    most = np.concatenate([counts, supply]).astype(np.float64)
    # without integer constraints: vertices of a transport problem are integral
    solved = scipy.optimize.milp(
        -gain,
        constraints=scipy.optimize.LinearConstraint(
            scipy.sparse.vstack([of_roi, of_user]).tocsr(), ub=most
        ),
        bounds=scipy.optimize.Bounds(0, 1),
    )
    if solved.status:
        raise ArithmeticError(f"HiGHS could not assign users: {solved.message}")
    chosen = solved.x > 0.5
    return roi[chosen], user[chosen]


def _spread(prior: EpochBelief, counts: Ids, supply: Ids) -> tuple[Ids, Ranks]:
    """Return ROI and user of each visit if all ROIs are equally likely: any assignment is optimal.

    Each user is assigned to the ROIs that lack most users, which maximises the number of visits.
    """
    left, rois, users = counts.copy(), [], []
    for user in np.flatnonzero(supply):
        most = np.argsort(-left, kind="stable")[: supply[user]]
        most = most[left[most] > 0]
        left[most] -= 1
        rois.append(most)
        users.append(np.full(len(most), user))
    return np.concatenate([np.zeros(0, int), *rois]), np.concatenate([np.zeros(0, int), *users])


STRATEGIES: Registry[InferenceStrategy] = Registry("strategy", Bayes, MaxRoi, MaxUser, Joint)
