"""The priors and strategies of PETS17 as functions of whole arrays, for data that fit into memory.

Arrays have a null ROI: the last one, which a user visits if they visit no other
(:func:`with_null`). Epochs are hours, the first one is the first of a day and week, and the epochs
to be inferred follow the observed ones. A recovery uses the same code epoch by epoch, without such
arrays.
"""

import numpy as np
from numpy.typing import ArrayLike

from clusterscale.analyses.recovery.epoch_belief import EpochBelief, Visits, by_activity
from clusterscale.analyses.recovery.estimates import Aggregate, InferencePrior, InferenceStrategy
from clusterscale.analyses.recovery.priors import BELIEFS
from clusterscale.analyses.recovery.strategies import Bayes, MaxRoi, MaxUser
from clusterscale.contracts import Flags, Traces, Values
from clusterscale.errors import InputError


def with_null(traces: ArrayLike) -> Flags:
    """Return traces with a null ROI, visited when no other is (PETS17 §4.1).

    Parameters
    ----------
    traces
        Bool, shape (user, roi, epoch): visits of each user.

    Returns
    -------
    bool, shape (user, roi + 1, epoch)

    Raises
    ------
    InputError
        If it is not a bool array of that shape.
    """
    visits = _check_traces(traces)
    return np.concatenate([visits, ~visits.any(axis=1, keepdims=True)], axis=1)


def learn(prior: InferencePrior | str, observed: ArrayLike, n_epochs: int) -> Values:
    """Return the shares that a prior learns from observed epochs for the following ones.

    Parameters
    ----------
    prior
        The prior, or its name, such as ``roi_day``.
    observed
        Bool, shape (user, roi, observed epoch), with a null ROI: visits of each user.
    n_epochs
        Number of the following epochs.

    Returns
    -------
    float64, shape (user, roi, epoch)
        Shares that sum to 1 over the ROIs of a user and epoch.

    Raises
    ------
    InputError
        If the array has another form, no epoch follows, or no full cycle was observed.
    """
    visits = _visits_of(observed)
    return _stack(prior, visits, visits.n_epochs, n_epochs)


def remember(prior: InferencePrior | str, traces: ArrayLike, n_epochs: int) -> Flags:
    """Return the assignment of a prior that knows the users' ROIs one lag before each epoch.

    Parameters
    ----------
    prior
        The prior, or its name: ``last_week``, ``last_day`` or ``last_hour``.
    traces
        Bool, shape (user, roi, epoch), with a null ROI: visits of each user, up to the last epoch
        to be inferred.
    n_epochs
        Number of the last epochs, which are to be inferred.

    Returns
    -------
    bool, shape (user, roi, epoch to be inferred)

    Raises
    ------
    InputError
        If the array has another form, or begins less than one lag before the first epoch to be
        inferred.
    """
    visits = _visits_of(traces)
    return _stack(prior, visits, visits.n_epochs - n_epochs, n_epochs) > 0


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
    return np.asarray(np.divide(estimates, total, out=np.zeros_like(estimates), where=total > 0))


def bayes(prior: ArrayLike, aggregate: ArrayLike) -> Values:
    """Return the posterior of each user, as :func:`assign` does (PETS17 algorithm 3.1)."""
    return assign(Bayes(), prior, aggregate, np.zeros(len(np.asarray(prior)), np.int64))


def max_roi(prior: ArrayLike, aggregate: ArrayLike, activity: ArrayLike) -> Flags:
    """Return which users each ROI is assigned, the most probable (PETS17 algorithm 3.2).

    Bool, shape (user, roi, epoch); arguments and errors are those of :func:`assign`.
    """
    return assign(MaxRoi(), prior, aggregate, activity) > 0


def max_user(prior: ArrayLike, aggregate: ArrayLike, activity: ArrayLike) -> Flags:
    """Return which ROIs users are assigned, the most active first (PETS17 algorithm 3.3).

    Bool, shape (user, roi, epoch); arguments and errors are those of :func:`assign`.
    """
    return assign(MaxUser(), prior, aggregate, activity) > 0


def _stack(given: InferencePrior | str, visits: Visits, observed: int, n_epochs: int) -> Values:
    prior: InferencePrior = BELIEFS.create(given) if isinstance(given, str) else given
    if n_epochs < 1 or observed < prior.needs:
        raise InputError(
            f"{prior.name} needs {prior.needs} observed epochs and at least one to infer, not "
            f"{observed} and {n_epochs}"
        )
    beliefs = (prior.belief(visits, observed, observed + i) for i in range(n_epochs))
    return np.stack([belief.table() for belief in beliefs], axis=2)


def _visits_of(traces: ArrayLike) -> Visits:
    visits = _check_traces(traces)
    if visits.shape[1] < 2 or not np.array_equal(visits[:, -1], ~visits[:, :-1].any(axis=1)):
        raise InputError("the last ROI is not a null ROI: with_null adds one")
    n_users, n_rois, n_epochs = visits.shape
    user, cell = np.nonzero(visits[:, :-1].reshape(n_users, -1))
    offsets = np.searchsorted(user, np.arange(n_users + 1))
    sparse = Traces(offsets.astype(np.int64), cell, n_rois, n_epochs, idle=visits[:, -1])
    return Visits.of(sparse, np.arange(n_users))


def _check_traces(traces: ArrayLike) -> Flags:
    visits = np.asarray(traces)
    if visits.ndim != 3 or visits.dtype != np.bool_ or 0 in visits.shape:
        raise InputError(
            "traces must be bool and non-empty, shape (user, roi, epoch), not "
            f"{visits.dtype} of shape {visits.shape}"
        )
    return visits
