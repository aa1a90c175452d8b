"""Verdict on a declared ε, from a lower bound on ε."""

import math
from typing import Literal

from clusterscale.errors import InputError

__all__ = ["Verdict", "claim_verdict"]

Verdict = Literal["consistent", "broken", "too few samples"]


def claim_verdict(lower_bound: float, declared: float, *, largest: float) -> Verdict:
    """Return the verdict on a declared ε, from the observed and the largest possible bound.

    An audit that finds nothing clears a mechanism only if it could have found something.

    Parameters
    ----------
    lower_bound
        Lower bound on the ε of the mechanism, at least 0:
        :func:`~clusterscale.metrics.epsilon_lower_bound` or a bound on pooled counts.
    declared
        ε that the mechanism declares for the two worlds that were compared, at least 0; infinite
        if it declares none.
    largest
        The largest possible ``lower_bound`` for that number of rows, at least 0:
        :func:`~clusterscale.metrics.largest_bound`.

    Returns
    -------
    str
        ``"broken"`` if the bound exceeds the declared ε. Else ``"too few samples"`` if the bound
        could not have exceeded it even for a mechanism without any privacy. Else
        ``"consistent"``, also if no ε is declared.

    Raises
    ------
    InputError
        If a value is negative or NaN.
    """
    values = {"lower_bound": lower_bound, "declared": declared, "largest": largest}
    for name, value in values.items():
        if not value >= 0:
            raise InputError(f"{name} must be an epsilon of at least 0, not {value}")
    if lower_bound > declared:
        return "broken"
    if largest <= declared and not math.isinf(declared):
        return "too few samples"
    return "consistent"
