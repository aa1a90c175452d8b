"""Joint assignment of all users of an epoch: a transport problem, stronger than the greedy ones.

Algorithm 3.2 of PETS17 meets the count of every ROI but may assign dozens of them to one user;
algorithm 3.3 assigns only the most active users. Here each user also has a number of ROIs to visit,
so that both margins are met:

- the published number of users is in the null ROI, those with the highest prior probability of it;
- each of the others is in at least one ROI, and the remaining published visits are distributed in
  proportion to activity and to the prior probability of being in any real ROI;
- under these margins and the published counts, the assignment with the largest sum of
  log-probabilities is chosen. Each visit adds a bonus, so that one more visit is always worth more
  than an exchange.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy

from clusterscale.contracts import NamedModel, Values
from clusterscale.recovery.epoch_belief import EpochBelief, Ids, Ranks
from clusterscale.recovery.estimates import WeightedBelief
from clusterscale.recovery.protocols import Aggregate
from clusterscale.recovery.strategies.greedy import whole
from clusterscale.recovery.visits import settle

__all__ = ["Joint"]


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
        assigned = settle(bounds, user[order].astype(np.int32), prior.n_users)
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
    sizes = prior.end[:-1] - prior.begin[:-1]
    roi = np.repeat(np.arange(len(counts)), sizes)
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
