"""What a bound on ε says about the ε that was promised."""

import math
from typing import Literal

from clusterscale.errors import InputError

__all__ = ["Verdict", "claim_verdict"]

Verdict = Literal["consistent", "broken", "too few samples"]


def claim_verdict(lower_bound: float, declared: float, *, largest: float) -> Verdict:
    """Compare what was seen with what was promised, and with what could have been seen.

    An audit that finds nothing clears a mechanism only if it could have found something.

    Parameters
    ----------
    lower_bound
        ε that the mechanism is seen to exceed, at least 0:
        :func:`~clusterscale.metrics.epsilon_lower_bound` or a bound on pooled counts.
    declared
        ε that the mechanism promises for the two worlds that were told apart, at least 0;
        infinite where it promises nothing.
    largest
        The most that ``lower_bound`` could have been with that many rows, at least 0:
        :func:`~clusterscale.metrics.largest_bound`.

    Returns
    -------
    str
        ``"broken"`` if more was seen than promised. Else ``"too few samples"`` if even a mechanism
        that hides nothing could not have been seen to break the promise. Else ``"consistent"``,
        as is every outcome where nothing is promised.

    Raises
    ------
    InputError
        If a value is negative or not a number.
    """
    given = {"lower_bound": lower_bound, "declared": declared, "largest": largest}
    for name, value in given.items():
        if not value >= 0:
            raise InputError(f"{name} is an epsilon, at least 0, not {value}")
    if lower_bound > declared:
        return "broken"
    if largest <= declared and not math.isinf(declared):
        return "too few samples"
    return "consistent"
