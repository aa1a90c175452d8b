"""Compare measured AUCs with the ceilings: measured ≤ true ≤ certified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

__all__ = ["ERROR_RATE", "Bracket", "bracket", "p_values"]

Floats = NDArray[np.float64]

ERROR_RATE = 1e-3
"""Probability that any measured AUC is found above its ceiling if none is."""

_SAME = 1e-6  # an AUC that exceeds its ceiling by less does not


@dataclass(frozen=True, slots=True)
class Bracket:
    """Measured and certified AUC of the people against whom one mechanism was attacked.

    Attributes
    ----------
    n_people, n_compared
        Number of people, and of measured AUCs: one for each person and attack.
    measured, certified
        Of the person with the highest measured AUC: it, and the ceiling.
    reached
        Mean over people: the advantage of the best attack over guessing, as a share of that of the
        ceiling; NaN where nobody can be exposed, or the intervals of measured AUCs are on average
        wider than the advantage of the ceiling, so that the share would be chance.
    n_above
        Number of AUCs whose 95 % interval is above the ceiling. By chance alone, it is expected in
        at most 2.5 % of them.
    smallest_p
        Smallest probability that an AUC this far above its ceiling is chance, times the number of
        AUCs compared.
    """

    n_people: int
    n_compared: int
    measured: float
    certified: float
    reached: float
    n_above: int
    smallest_p: float

    @property
    def is_violated(self) -> bool:
        """Whether chance does not explain that measured AUCs are above their ceilings."""
        return self.smallest_p < ERROR_RATE


def p_values(auc: NDArray[Any], low: NDArray[Any], ceiling: NDArray[Any]) -> Floats:
    """Return the probability of AUCs this high if the true ones are at their ceilings.

    Parameters
    ----------
    auc, low
        Measured AUCs and the low ends of their 95 % intervals, of one shape; NaN: unknown.
    ceiling
        Their ceilings, of a shape that broadcasts to it.

    Returns
    -------
    ndarray
        float64, shape of ``auc``; 1 where an AUC is not above its ceiling, or unknown.

    Notes
    -----
    The intervals are normal on the scale of AUCs or of their odds; the larger of both
    probabilities is returned. If all n pairs are in order, the probability of that is at most
    ceilingⁿ, where the interval ends at .025^(1/n).
    """
    auc, low, ceiling = np.broadcast_arrays(
        *(np.asarray(one, np.float64) for one in (auc, low, ceiling))
    )
    result = np.ones(auc.shape)
    above = (auc > ceiling + _SAME) & (ceiling < 1)
    sure, rest = above & (auc >= 1), above & (auc < 1)
    z = scipy.special.ndtri(0.975)
    pairs = np.log(0.025) / np.log(np.clip(low[sure], 1e-9, 1 - 1e-9))
    result[sure] = ceiling[sure] ** pairs
    both = []
    for scale in (lambda x: x, scipy.special.logit):
        middle, bottom, top = (
            scale(np.clip(one[rest], 1e-9, 1 - 1e-9)) for one in (auc, low, ceiling)
        )
        both.append(scipy.special.ndtr(-(middle - top) * z / np.maximum(middle - bottom, 1e-12)))
    result[rest] = np.maximum(*both)
    return result


def bracket(auc: Floats, low: Floats, ceiling: Floats) -> Bracket | None:
    """Compare the measured AUCs of some people with their ceilings.

    Parameters
    ----------
    auc, low
        Measured AUCs and the low ends of their 95 % intervals, float64, shape (person, attack);
        NaN: not measured.
    ceiling
        Ceilings, float64, shape (person,).

    Returns
    -------
    Bracket or None
        None if nothing was measured.
    """
    known = np.isfinite(auc) & np.isfinite(low) & np.isfinite(ceiling)[:, None]
    if not known.any():
        return None
    auc = np.where(known, auc, np.nan)
    people = known.any(axis=1)
    best = np.nanmax(auc[people], axis=1)
    worst = int(np.argmax(best))
    allowed = ceiling[people]
    p = p_values(auc, low, ceiling[:, None])[known]
    can = allowed > 0.5 + _SAME
    shares = (np.maximum(best[can], 0.5) - 0.5) / (allowed[can] - 0.5)
    half = float((auc - low)[known].mean())
    is_resolved = can.any() and half < float((allowed[can] - 0.5).mean())
    return Bracket(
        n_people=int(people.sum()),
        n_compared=int(known.sum()),
        measured=float(best[worst]),
        certified=float(allowed[worst]),
        reached=float(shares.mean()) if is_resolved else float("nan"),
        n_above=int((np.where(known, low, 0.0) > ceiling[:, None] + _SAME).sum()),
        smallest_p=float(min(1.0, p.min() * p.size)),
    )
