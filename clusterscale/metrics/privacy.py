"""What a distinguisher's success costs a person, and what a release saves."""

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import InputError

__all__ = ["privacy_gain", "privacy_loss"]


def privacy_loss(auc: float) -> float:
    """Return max(0, 2·AUC − 1): the advantage over a coin (NDSS18 eq. 3).

    Parameters
    ----------
    auc
        Area under the ROC curve, between 0 and 1.

    Returns
    -------
    float
        Between 0 (no better than a coin) and 1 (membership is certain).

    Raises
    ------
    InputError
        If ``auc`` is not between 0 and 1.
    """
    if not 0 <= auc <= 1:
        raise InputError(f"an AUC is between 0 and 1, not {auc}")
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
    """Return the part of the adversary's edge on raw counts that a mechanism takes away.

    (raw − released)/(raw − ½) if raw > released ≥ ½ (NDSS18 eq. 6, POMACS20 eq. 1). The papers
    leave released < ½ open: here it is 1 if raw > ½, for no edge is left. Else 0.

    Parameters
    ----------
    raw_auc
        AUC against raw counts, float or array, between 0 and 1; NaN = unknown.
    released_auc
        AUC against what the mechanism publishes, likewise; broadcast against ``raw_auc``.

    Returns
    -------
    float, or float64 array of the common shape
        From 0 (nothing gained, or nothing to gain) to 1 (no better than a coin is left); NaN where
        either AUC is.

    Raises
    ------
    InputError
        If an AUC is outside [0, 1].
    """
    raw, released = (_check(given) for given in (raw_auc, released_auc))
    # Cut to 0..1, the ratio is right in every case where there was an edge to lose.
    edge = np.where(raw > 0.5, raw - 0.5, 1.0)
    gain = np.where(raw > 0.5, np.clip((raw - released) / edge, 0.0, 1.0), 0.0)
    gain = np.where(np.isnan(raw) | np.isnan(released), np.nan, gain)
    return gain if gain.ndim else float(gain)


def _check(auc: float | NDArray[Any]) -> NDArray[np.float64]:
    given = np.asarray(auc, dtype=np.float64)
    outside = (given < 0) | (given > 1)
    if outside.any():
        raise InputError(f"an AUC is between 0 and 1, not {given[outside][0]}")
    return given
