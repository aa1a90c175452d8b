"""Greedy assignments of the published number of users to each ROI (PETS17 algorithms 3.2, 3.3).

Both assign the null ROI to users without any other ROI.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from clusterscale.contracts import NamedModel, Values
from clusterscale.errors import InputError
from clusterscale.jit import kernel
from clusterscale.recovery.epoch_belief import EpochBelief, Flags, Ids, Ranks
from clusterscale.recovery.estimates import WeightedBelief
from clusterscale.recovery.protocols import Aggregate
from clusterscale.recovery.visits import settle

__all__ = ["MaxRoi", "MaxUser", "whole"]


class MaxRoi(NamedModel):
    """The most probable users for each ROI (PETS17 algorithm 3.2).

    If fewer users than published have a positive probability, the most active of the others are
    added, because the algorithm sorts all users.
    """

    name: Literal["max_roi"] = "max_roi"

    def estimate(self, prior: EpochBelief, aggregate: Aggregate) -> WeightedBelief:
        """Return the assignment."""
        return _assign(prior, aggregate, by_probability=True)


class MaxUser(NamedModel):
    """All possible ROIs that still lack users for each user, the most active users first.

    PETS17 algorithm 3.3.
    """

    name: Literal["max_user"] = "max_user"

    def estimate(self, prior: EpochBelief, aggregate: Aggregate) -> WeightedBelief:
        """Return the assignment."""
        return _assign(prior, aggregate, by_probability=False)


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


def _assign(prior: EpochBelief, aggregate: Aggregate, *, by_probability: bool) -> WeightedBelief:
    if aggregate.values.shape != (prior.n_rois,):
        raise InputError(
            f"values of shape {aggregate.values.shape} are published, but the prior has "
            f"{prior.n_rois} ROIs"
        )
    counts = whole(aggregate.values[:-1], prior.n_users)
    bounds, user = _pick(
        prior.begin,
        prior.end,
        prior.user,
        prior.probability,
        counts,
        prior.n_users,
        by_probability,
    )
    assigned = settle(bounds, user, prior.n_users)
    return WeightedBelief(assigned, np.ones(prior.n_rois), normalised=False)


@kernel
def _pick(
    begin: Ids,
    end: Ids,
    user: Ranks,
    probability: Values,
    counts: Ids,
    n_users: int,
    by_probability: bool,
) -> tuple[Ids, Ranks]:
    bounds = np.zeros(len(counts) + 1, np.int64)
    picked = np.empty(counts.sum(), np.int32)
    there = np.zeros(n_users, np.bool_)
    size = 0
    for roi in range(len(counts)):
        first, last, wanted = begin[roi], end[roi], counts[roi]
        start = size
        if wanted >= last - first:
            size += last - first
            picked[start:size] = user[first:last]
            if by_probability:
                size = _fill(picked, start, size, wanted, there)
        elif by_probability:
            size += wanted
            best = np.argsort(-probability[first:last], kind="mergesort")[:wanted]
            picked[start:size] = user[first + np.sort(best)]
        else:
            size += wanted
            picked[start:size] = user[first : first + wanted]
        bounds[roi + 1] = size
    return bounds, picked[:size]


@kernel
def _fill(picked: Ranks, start: int, size: int, wanted: int, there: Flags) -> int:
    """Add the first ranks not yet picked until there are ``wanted``, and sort."""
    missing = wanted - (size - start)
    if missing == 0:
        return size
    there[:] = False
    for i in range(start, size):
        there[picked[i]] = True
    for who in range(len(there)):
        if missing > 0 and not there[who]:
            there[who] = True
            missing -= 1
    size = start
    for who in range(len(there)):
        if there[who]:
            picked[size] = who
            size += 1
    return size
