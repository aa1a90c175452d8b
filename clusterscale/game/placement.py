"""Scores of a published release, placed among the scores of challenges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Labels, Scores

__all__ = ["ReleasePlacement", "place_score"]


@dataclass(frozen=True, slots=True)
class ReleasePlacement:
    """The score of a release by one attack, placed among the challenges of the target.

    Attributes
    ----------
    attack
        Label of the attack.
    score
        Higher = more likely inside; comparable only within this target and attack.
    says_inside
        Whether the score is at least the threshold that the attack chose in training.
    above_outside, above_inside
        Share of challenges without the target, and of those with it, that score less; equal scores
        count ½.
    """

    attack: str
    score: float
    says_inside: bool
    above_outside: float
    above_inside: float

    @property
    def rank(self) -> float:
        """Evidence that the target is inside, from 0 to 1, comparable over targets.

        It is the mean of both shares: a release above all challenges without the target, and at the
        median of those with it, has .75.
        """
        return (self.above_outside + self.above_inside) / 2


def place_score(
    attack: str, score: float, threshold: float, labels: Labels, challenges: Scores
) -> ReleasePlacement:
    """Place ``score`` among those of ``challenges`` with each label, shape (group,)."""
    outside, inside = (_share_below(score, challenges[labels == side]) for side in (False, True))
    return ReleasePlacement(attack, float(score), bool(score >= threshold), outside, inside)


def _share_below(score: float, others: NDArray[np.float64]) -> float:
    return float((others < score).mean() + (others == score).mean() / 2)
