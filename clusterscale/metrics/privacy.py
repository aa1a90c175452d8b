"""Privacy loss from the AUC of a distinguisher, and privacy gain of a mechanism."""

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import InputError


def privacy_loss(auc: float) -> float:
    """Return max(0, 2·AUC − 1): the advantage over guessing (NDSS18 eq. 3).

    Parameters
    ----------
    auc
        Area under the ROC curve, between 0 and 1.

    Returns
    -------
    float
        Between 0 (no better than guessing) and 1 (membership is certain).

    Raises
    ------
    InputError
        If ``auc`` is not between 0 and 1.
    """
    if not 0 <= auc <= 1:
        raise InputError(f"an AUC must be between 0 and 1, not {auc}")
    return max(0.0, 2.0 * float(auc) - 1.0)


@overload
def privacy_gain(raw_auc: float, released_auc: float) -> float: ...
@overload
def privacy_gain(
    raw_auc: NDArray[Any], released_auc: float | NDArray[Any]
) -> NDArray[np.float64]: ...
@overload
def privacy_gain(raw_auc: float, released_auc: NDArray[Any]) -> NDArray[np.float64]: ...
def privacy_gain(
    raw_auc: float | NDArray[Any], released_auc: float | NDArray[Any]
) -> float | NDArray[np.float64]:
    """Return the share of the adversary's advantage on raw counts that a mechanism removes.

    (raw − released)/(raw − ½) if raw > released ≥ ½ (NDSS18 eq. 6, POMACS20 eq. 1). The papers
    leave released < ½ open: here it is 1 if raw > ½, because no advantage is left. Else 0.

    Parameters
    ----------
    raw_auc
        AUC against raw counts, float or array, between 0 and 1; NaN = unknown.
    released_auc
        AUC against what the mechanism publishes, likewise; broadcast against ``raw_auc``.

    Returns
    -------
    float, or float64 array of the common shape
        From 0 (nothing gained, or nothing to gain) to 1 (no better than guessing); NaN where either
        AUC is.

    Raises
    ------
    InputError
        If an AUC is outside [0, 1].
    """
    raw, released = (_check(auc) for auc in (raw_auc, released_auc))
    # Clipped to 0..1, the ratio is right wherever there was an advantage to lose.
    advantage = np.where(raw > 0.5, raw - 0.5, 1.0)
    gain = np.where(raw > 0.5, np.clip((raw - released) / advantage, 0.0, 1.0), 0.0)
    gain = np.where(np.isnan(raw) | np.isnan(released), np.nan, gain)
    return gain if gain.ndim else float(gain)


def _check(auc: float | NDArray[Any]) -> NDArray[np.float64]:
    values = np.asarray(auc, dtype=np.float64)
    outside = (values < 0) | (values > 1)
    if outside.any():
        raise InputError(f"an AUC must be between 0 and 1, not {values[outside][0]}")
    return values
