"""What attacks say of one release that really was published, beside what they say of challenges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Labels, Scores

__all__ = ["ReleasePlacement", "place_score"]


@dataclass(frozen=True, slots=True)
class ReleasePlacement:
    """How one attack places a release among the challenges of its target.

    Attributes
    ----------
    attack
        Its label.
    score
        Higher = more likely inside; comparable only within this target and attack.
    says_inside
        Is that at least the threshold which the attack chose in training?
    above_outside, above_inside
        Share of challenges without the target, and of those with it, that score less; of equals,
        half.
    """

    attack: str
    score: float
    says_inside: bool
    above_outside: float
    above_inside: float

    @property
    def rank(self) -> float:
        """Evidence that the target is inside, from 0 to 1, which compares over targets.

        The mean of both shares: a release at the top of those without the target and the middle of
        those with it has .75.
        """
        return (self.above_outside + self.above_inside) / 2


def place_score(
    attack: str, score: float, threshold: float, labels: Labels, challenges: Scores
) -> ReleasePlacement:
    """Place a ``score`` among those of ``challenges``, shape (group,), told apart by ``labels``."""
    outside, inside = (_share_below(score, challenges[labels == side]) for side in (False, True))
    return ReleasePlacement(attack, float(score), bool(score >= threshold), outside, inside)


def _share_below(score: float, others: NDArray[np.float64]) -> float:
    return float((others < score).mean() + (others == score).mean() / 2)
