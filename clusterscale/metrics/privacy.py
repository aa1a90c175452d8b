"""What a distinguisher's success costs a person."""

from clusterscale.errors import InputError

__all__ = ["privacy_loss"]


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
