"""The priors and strategies of PETS17 as functions of whole arrays, for studies that fit memory.

Arrays have a null ROI: the last one, where a user is whenever there is no other
(:func:`with_null`). Epochs are hours, the first of them is the first of a day and week, and those
to be inferred follow those observed. A recovery goes through the same code epoch by epoch, and
never holds such arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clusterscale.contracts import Traces, Values
from clusterscale.errors import InputError
from clusterscale.recovery.epoch_belief import EpochBelief, by_activity
from clusterscale.recovery.priors.last import LastDay, LastHour, LastWeek
from clusterscale.recovery.priors.seasonal import FreqRoi, RoiDay, RoiDayWeek
from clusterscale.recovery.priors.timely import TimeDay, TimeDayWeek
from clusterscale.recovery.protocols import Aggregate, InferencePrior, InferenceStrategy
from clusterscale.recovery.strategies.bayes import Bayes
from clusterscale.recovery.strategies.greedy import MaxRoi, MaxUser
from clusterscale.recovery.visits import Visits

__all__ = ["assign", "bayes", "every", "freq_roi", "last_day", "last_hour", "last_week", "learn"]
__all__ += ["max_roi", "max_user", "popular", "remember", "roi_day", "roi_day_week", "time_day"]
__all__ += ["time_day_week", "with_null"]

Flags = NDArray[np.bool_]


def with_null(traces: ArrayLike) -> Flags:
    """Return traces with a null ROI, visited when no other is (PETS17 §4.1).

    Parameters
    ----------
    traces
        Bool, shape (user, roi, epoch): where each user was.

    Returns
    -------
    bool, shape (user, roi + 1, epoch)

    Raises
    ------
    InputError
        If it is not a bool array of that shape.
    """
    there = _check_traces(traces)
    return np.concatenate([there, ~there.any(axis=1, keepdims=True)], axis=1)


def learn(belief: InferencePrior, observed: ArrayLike, n_epochs: int) -> Values:
    """Return what a prior that learns from observed epochs says of those that follow.

    Parameters
    ----------
    belief
        The prior.
    observed
        Bool, shape (user, roi, observed epoch), with a null ROI: where each user was.
    n_epochs
        How many epochs follow.

    Returns
    -------
    float64, shape (user, roi, epoch)
        Shares, which sum to 1 over the ROIs of a user and epoch.

    Raises
    ------
    InputError
        If the array is not such, no epoch follows, or none of a season was observed.
    """
    visits = _turn(observed)
    return _stack(belief, visits, visits.n_epochs, n_epochs)


def remember(belief: InferencePrior, traces: ArrayLike, n_epochs: int) -> Flags:
    """Return what a prior says that knows where users were a season before each epoch.

    Parameters
    ----------
    belief
        The prior.
    traces
        Bool, shape (user, roi, epoch), with a null ROI: where each user was, to the last of the
        epochs to be inferred.
    n_epochs
        How many of these are to be inferred, the last ones.

    Returns
    -------
    bool, shape (user, roi, epoch to be inferred)

    Raises
    ------
    InputError
        If the array is not such, or begins less than a season before the first epoch to be
        inferred.
    """
    visits = _turn(traces)
    return _stack(belief, visits, visits.n_epochs - n_epochs, n_epochs) > 0


def freq_roi(observed: ArrayLike, n_epochs: int) -> Values:
    """Return how often users were in each ROI (PETS17 eq. 7); all else as for :func:`learn`."""
    return learn(FreqRoi(), observed, n_epochs)


def roi_day(observed: ArrayLike, n_epochs: int) -> Values:
    """Return the same by hours of a day (PETS17 eqs 8, 9); all else as for :func:`learn`."""
    return learn(RoiDay(), observed, n_epochs)


def roi_day_week(observed: ArrayLike, n_epochs: int) -> Values:
    """Return the same by hours of a week (PETS17 eqs 8, 9); all else as for :func:`learn`."""
    return learn(RoiDayWeek(), observed, n_epochs)


def time_day(observed: ArrayLike, n_epochs: int) -> Values:
    """Return shares by when users report (PETS17 eqs 10, 11); all else as for :func:`learn`."""
    return learn(TimeDay(), observed, n_epochs)


def time_day_week(observed: ArrayLike, n_epochs: int) -> Values:
    """Return the same by hours of a week (PETS17 eqs 10, 11); all else as for :func:`learn`."""
    return learn(TimeDayWeek(), observed, n_epochs)


def last_week(traces: ArrayLike, n_epochs: int) -> Flags:
    """Return where users were a week before (PETS17 eq. 14); all else as for :func:`remember`."""
    return remember(LastWeek(), traces, n_epochs)


def last_day(traces: ArrayLike, n_epochs: int) -> Flags:
    """Return where users were a day before (PETS17 eq. 14); all else as for :func:`remember`."""
    return remember(LastDay(), traces, n_epochs)


def last_hour(traces: ArrayLike, n_epochs: int) -> Flags:
    """Return where users were an hour before (PETS17 eq. 14); all else as for :func:`remember`."""
    return remember(LastHour(), traces, n_epochs)


def popular(prior: ArrayLike, threshold: float = 0.5) -> Flags:
    """Return the ROIs of at least so much probability, or else the null ROI (PETS17 eq. 12).

    The equation alone tells no ROI where none is popular; the paper takes such a user to be in none
    (§4.3.1: "she predicts all of them to be outside the network").

    Parameters
    ----------
    prior
        Real, shape (…, roi, epoch): shares, the last ROI being the null ROI.
    threshold
        The least, from above 0 to 1.

    Returns
    -------
    bool, the same shape

    Raises
    ------
    InputError
        If the threshold is not such, or there are no ROIs.
    """
    if not 0 < threshold <= 1:
        raise InputError(f"a threshold of popular ROIs is above 0 and at most 1, not {threshold}")
    shares = np.asarray(prior)
    if shares.ndim < 2 or not shares.shape[-2]:
        raise InputError(f"a prior has shape (…, roi, epoch), not {shares.shape}")
    told: Flags = shares >= threshold
    told[..., -1, :] |= ~told.any(axis=-2)
    return told


def every(prior: ArrayLike) -> Flags:
    """Return the ROIs of any probability (PETS17 eq. 13); ``prior`` is real, of any shape."""
    return np.asarray(prior) > 0


def assign(
    strategy: InferenceStrategy, prior: ArrayLike, aggregate: ArrayLike, activity: ArrayLike
) -> Values:
    """Return what a strategy makes of a prior and a release.

    Parameters
    ----------
    strategy
        Which.
    prior
        Real from 0 on, shape (user, roi, epoch), with a null ROI.
    aggregate
        Real, shape (roi, epoch): what is published; of the null ROI too.
    activity
        Int, shape (user,): reports of each user; the user with more goes first, then the one of
        lower index.

    Returns
    -------
    float64, shape (user, roi, epoch)
        Shares that sum to 1 over the ROIs of a user and epoch, or are all 0.

    Raises
    ------
    InputError
        If shapes do not fit, or a number is not finite or negative where it must not be.
    """
    shares, published = np.asarray(prior, np.float64), np.asarray(aggregate, np.float64)
    if shares.ndim != 3 or published.shape != shares.shape[1:]:
        raise InputError(
            "a prior is (user, roi, epoch) and a release (roi, epoch), not "
            f"{shares.shape} and {published.shape}"
        )
    if not np.isfinite(published).all():
        raise InputError("a release has a number for every ROI and epoch, and this one has not")
    order, reports = by_activity(activity, len(shares)), np.asarray(activity, np.int64)
    found = np.zeros_like(shares)
    for epoch in range(shares.shape[2]):
        column = EpochBelief.of_table(shares[order, :, epoch])
        known = Aggregate(published[:, epoch], reports[order])
        estimate = strategy.estimate(column, known)
        found[order, :, epoch] = estimate.column.table() * estimate.weights
    total = found.sum(axis=1, keepdims=True)
    concluded: Values = np.divide(found, total, out=np.zeros_like(found), where=total > 0)
    return concluded


def bayes(prior: ArrayLike, aggregate: ArrayLike) -> Values:
    """Return the posterior of each user (PETS17 algorithm 3.1).

    Parameters, result and errors are those of :func:`assign`, but that activity does not matter.
    """
    return assign(Bayes(), prior, aggregate, np.zeros(len(np.asarray(prior)), np.int64))


def max_roi(prior: ArrayLike, aggregate: ArrayLike, activity: ArrayLike) -> Flags:
    """Return the most probable users of each ROI (PETS17 algorithm 3.2).

    Parameters and errors are those of :func:`assign`; the result is bool.
    """
    return assign(MaxRoi(), prior, aggregate, activity) > 0


def max_user(prior: ArrayLike, aggregate: ArrayLike, activity: ArrayLike) -> Flags:
    """Return the ROIs of the most active users first (PETS17 algorithm 3.3).

    Parameters and errors are those of :func:`assign`; the result is bool.
    """
    return assign(MaxUser(), prior, aggregate, activity) > 0


def _stack(belief: InferencePrior, visits: Visits, observed: int, n_epochs: int) -> Values:
    if n_epochs < 1 or observed < belief.needs:
        raise InputError(
            f"{belief.name} takes {belief.needs} epochs, and then at least one to be inferred, not "
            f"{observed} and {n_epochs}"
        )
    columns = (belief.column(visits, observed, observed + i) for i in range(n_epochs))
    return np.stack([column.table() for column in columns], axis=2)


def _turn(traces: ArrayLike) -> Visits:
    there = _check_traces(traces)
    if there.shape[1] < 2 or not np.array_equal(there[:, -1], ~there[:, :-1].any(axis=1)):
        raise InputError("the last ROI is not a null ROI: with_null adds one")
    n_users, n_rois, n_epochs = there.shape
    user, cell = np.nonzero(there[:, :-1].reshape(n_users, -1))
    offsets = np.searchsorted(user, np.arange(n_users + 1))
    held = Traces(offsets.astype(np.int64), cell, n_rois, n_epochs, idle=there[:, -1])
    return Visits.of(held, np.arange(n_users))


def _check_traces(traces: ArrayLike) -> Flags:
    there = np.asarray(traces)
    if there.ndim != 3 or there.dtype != np.bool_ or 0 in there.shape:
        raise InputError(
            "traces are bool, shape (user, roi, epoch), with something in each, not "
            f"{there.dtype} of shape {there.shape}"
        )
    return there
