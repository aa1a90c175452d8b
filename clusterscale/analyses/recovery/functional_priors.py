"""The priors of PETS17 as functions of whole arrays, for data that fit into memory.

Arrays have a null ROI: the last one, which a user visits if they visit no other
(:func:`with_null`). Epochs are hours, the first one is the first of a day and week, and the epochs
to be inferred follow the observed ones. A recovery uses the same code epoch by epoch, without such
arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clusterscale.analyses.recovery import priors
from clusterscale.analyses.recovery.epoch_belief import Visits
from clusterscale.analyses.recovery.protocols import InferencePrior
from clusterscale.contracts import Traces, Values
from clusterscale.errors import InputError

Flags = NDArray[np.bool_]


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


def learn(prior: InferencePrior, observed: ArrayLike, n_epochs: int) -> Values:
    """Return the shares that a prior learns from observed epochs for the following ones.

    Parameters
    ----------
    prior
        The prior.
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


def remember(prior: InferencePrior, traces: ArrayLike, n_epochs: int) -> Flags:
    """Return the assignment of a prior that knows the users' ROIs one lag before each epoch.

    Parameters
    ----------
    prior
        The prior.
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


def freq_roi(observed: ArrayLike, n_epochs: int) -> Values:
    """Return each user's frequency of ROIs (PETS17 eq. 7).

    Parameters
    ----------
    observed, n_epochs
        As for :func:`learn`.

    Returns
    -------
    float64, shape (user, roi, epoch)
        As :func:`learn`.

    Raises
    ------
    InputError
        As :func:`learn`.
    """
    return learn(priors.FreqRoi(), observed, n_epochs)


def roi_day(observed: ArrayLike, n_epochs: int) -> Values:
    """Return the frequency of ROIs by hour of the day (PETS17 eqs 8, 9).

    Parameters
    ----------
    observed, n_epochs
        As for :func:`learn`.

    Returns
    -------
    float64, shape (user, roi, epoch)
        As :func:`learn`.

    Raises
    ------
    InputError
        As :func:`learn`.
    """
    return learn(priors.RoiDay(), observed, n_epochs)


def roi_day_week(observed: ArrayLike, n_epochs: int) -> Values:
    """Return the frequency of ROIs by hour of the week (PETS17 eqs 8, 9).

    Parameters
    ----------
    observed, n_epochs
        As for :func:`learn`.

    Returns
    -------
    float64, shape (user, roi, epoch)
        As :func:`learn`.

    Raises
    ------
    InputError
        As :func:`learn`.
    """
    return learn(priors.RoiDayWeek(), observed, n_epochs)


def time_day(observed: ArrayLike, n_epochs: int) -> Values:
    """Return shares from active hours of the day (PETS17 eqs 10, 11).

    Parameters
    ----------
    observed, n_epochs
        As for :func:`learn`.

    Returns
    -------
    float64, shape (user, roi, epoch)
        As :func:`learn`.

    Raises
    ------
    InputError
        As :func:`learn`.
    """
    return learn(priors.TimeDay(), observed, n_epochs)


def time_day_week(observed: ArrayLike, n_epochs: int) -> Values:
    """Return shares from active hours of the week (PETS17 eqs 10, 11).

    Parameters
    ----------
    observed, n_epochs
        As for :func:`learn`.

    Returns
    -------
    float64, shape (user, roi, epoch)
        As :func:`learn`.

    Raises
    ------
    InputError
        As :func:`learn`.
    """
    return learn(priors.TimeDayWeek(), observed, n_epochs)


def last_week(traces: ArrayLike, n_epochs: int) -> Flags:
    """Return the users' ROIs of a week before (PETS17 eq. 14).

    Parameters
    ----------
    traces, n_epochs
        As for :func:`remember`.

    Returns
    -------
    bool, shape (user, roi, epoch to be inferred)
        As :func:`remember`.

    Raises
    ------
    InputError
        As :func:`remember`.
    """
    return remember(priors.LastWeek(), traces, n_epochs)


def last_day(traces: ArrayLike, n_epochs: int) -> Flags:
    """Return the users' ROIs of a day before (PETS17 eq. 14).

    Parameters
    ----------
    traces, n_epochs
        As for :func:`remember`.

    Returns
    -------
    bool, shape (user, roi, epoch to be inferred)
        As :func:`remember`.

    Raises
    ------
    InputError
        As :func:`remember`.
    """
    return remember(priors.LastDay(), traces, n_epochs)


def last_hour(traces: ArrayLike, n_epochs: int) -> Flags:
    """Return the users' ROIs of an hour before (PETS17 eq. 14).

    Parameters
    ----------
    traces, n_epochs
        As for :func:`remember`.

    Returns
    -------
    bool, shape (user, roi, epoch to be inferred)
        As :func:`remember`.

    Raises
    ------
    InputError
        As :func:`remember`.
    """
    return remember(priors.LastHour(), traces, n_epochs)


def _stack(prior: InferencePrior, visits: Visits, observed: int, n_epochs: int) -> Values:
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
