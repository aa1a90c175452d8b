"""Compare measured AUCs with the ceilings: measured ≤ true ≤ certified."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Floats
from clusterscale.metrics import auc_lower_limit, auc_tail

ERROR_RATE = 1e-3
"""Largest probability that any lower limit of a comparison is above the true AUC."""


@dataclass(frozen=True, slots=True)
class Bracket:
    """Lower limits of true AUCs and ceilings, of the people against whom a mechanism was attacked.

    The limits hold together: for all people, attacks and means, with an error of at most
    :data:`ERROR_RATE`, for every law of scores.

    Attributes
    ----------
    n_people, tries
        Number of people, and the number of limits that their error is divided by.
    low, certified
        Of the person with the highest limit: it, at least ½, and the ceiling. If limits are above
        ceilings, of the person for whom that is the least likely by chance.
    mean_low, mean_certified
        The same of means over people, by the attack with the highest limit; NaN if the challenges
        of different people are not independent.
    smallest_p
        Bound on the probability of AUCs this far above ceilings, corrected for all of them.
    """

    n_people: int
    tries: int
    low: float
    certified: float
    mean_low: float
    mean_certified: float
    smallest_p: float

    @property
    def is_violated(self) -> bool:
        """Whether chance does not explain that measured AUCs are above their ceilings."""
        return self.smallest_p < ERROR_RATE


def lower_limits(auc: Floats, n_pairs: NDArray[Any], tries: int) -> Floats:
    """Return lower limits of true AUCs that hold for ``tries`` of them; guessing has ½."""
    return np.maximum(auc_lower_limit(auc, n_pairs, ERROR_RATE / tries), 0.5)


def bracket(
    auc: Floats,
    n_pairs: NDArray[Any],
    ceiling: Floats,
    *,
    has_own_challenges: bool = True,
    looks: int = 1,
) -> Bracket | None:
    """Compare the measured AUCs of some people with their ceilings.

    Parameters
    ----------
    auc
        Measured AUCs, float64, shape (person, attack); NaN: not measured.
    n_pairs
        Disjoint pairs of independent challenges, int, shape (person, attack).
    ceiling
        Ceilings, float64, shape (person,).
    has_own_challenges
        Whether challenges of different people are independent. Then their mean is compared, too:
        a fault that is the same for everyone shows there first.
    looks
        Number of times at which an AUC may have been found precise enough.

    Returns
    -------
    Bracket or None
        None if nothing was measured.
    """
    known = np.isfinite(auc) & np.isfinite(ceiling)[:, None]
    if not known.any():
        return None
    n_people = int(known.any(axis=1).sum())
    is_pooled = has_own_challenges and n_people > 1
    ways = looks * (2 if is_pooled else 1)
    tries = ways * int(known.sum())
    person, attack = np.nonzero(known)
    measured, pairs, allowed = auc[known], n_pairs[known], ceiling[person]
    p = auc_tail(measured, pairs, allowed) * tries
    # of equal numbers of pairs, the highest AUC has the highest limit
    order = np.lexsort((measured, pairs))
    highest = order[np.append(np.flatnonzero(np.diff(pairs[order])), len(order) - 1)]
    if (smallest := float(p.min())) < ERROR_RATE:
        highest = np.array([p.argmin()])
    limits = lower_limits(measured[highest], pairs[highest], tries)
    shown = highest[limits.argmax()]
    mean_low = mean_certified = np.nan
    if is_pooled:
        n = np.bincount(attack, pairs)
        used = n > 0
        n, sums = n[used], (np.bincount(attack, pairs * one)[used] for one in (measured, allowed))
        area, mean_allowed = (total / n for total in sums)
        p_means = auc_tail(area, n, mean_allowed) * ways * len(n)
        means = lower_limits(area, n, ways * len(n))
        at = int(p_means.argmin() if p_means.min() < ERROR_RATE else means.argmax())
        mean_low, mean_certified = float(means[at]), float(mean_allowed[at])
        smallest = min(smallest, float(p_means.min()))
    return Bracket(
        n_people=n_people,
        tries=tries,
        low=float(limits.max()),
        certified=float(allowed[shown]),
        mean_low=mean_low,
        mean_certified=mean_certified,
        smallest_p=min(1.0, smallest),
    )
