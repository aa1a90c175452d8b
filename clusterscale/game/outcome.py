"""What is told of one attack against one mechanism."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one attack did against one mechanism, over the challenges.

    What the challenges do not tell is not a number, and so are controls that were not asked for.

    Attributes
    ----------
    mechanism, attack
        Their labels.
    auc, auc_low, auc_high
        Area under the ROC curve, and its interval (DeLong, on the scale of odds).
    accuracy
        Share answered rightly at the attack's own threshold.
    tpr
        True positive rate at the false positive rate that was asked for.
    epsilon_lower
        ε that is seen to be exceeded for replacing the target by another user, with δ = 0; twice
        what adding or removing one costs. Not a number where the adversary trained on the very
        groups, for it may tell these from each other whoever is inside.
    control_auc
        AUC of the same attack trained on shuffled labels.
    absent_auc
        AUC of the same distinguisher with another user wherever the target was.
    naive_auc
        AUC of adding up all published values, which takes no knowledge of anybody.
    seconds
        Time to train and score, without the controls. What several attacks share is in the time
        of the first.
    n_challenges
        Groups asked about, half of them with the target.
    level_inside, level_outside
        Of the first challenges, however many were added: how many groups with the target, and
        without it, are at each level of :func:`~clusterscale.metrics.calibrated_counts`.
    """

    mechanism: str
    attack: str
    auc: float
    auc_low: float
    auc_high: float
    accuracy: float
    tpr: float
    epsilon_lower: float
    control_auc: float
    absent_auc: float
    naive_auc: float
    seconds: float
    n_challenges: int
    level_inside: tuple[int, ...]
    level_outside: tuple[int, ...]
