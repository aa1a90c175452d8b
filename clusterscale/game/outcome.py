"""The outcome of one attack against one mechanism."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Metrics of one attack against one mechanism, over the challenges.

    Metrics that the challenges cannot give, and controls that were not requested, are NaN.

    Attributes
    ----------
    mechanism, attack
        Their labels.
    auc, auc_low, auc_high
        Area under the ROC curve, and its interval (DeLong, on the scale of odds).
    accuracy
        Share of correct answers at the attack's own threshold.
    tpr
        True positive rate at the requested false positive rate.
    epsilon_lower
        Lower bound on ε for replacing the target by another user, with δ = 0; twice that for adding
        or removing one. NaN where the adversary trained on the challenge groups themselves, because
        it may distinguish these whoever is inside.
    control_auc
        AUC of the same attack trained on shuffled labels.
    absent_auc
        AUC of the same distinguisher with a substitute for the target.
    naive_auc
        AUC of the sum of all published values, which needs no knowledge of any user.
    seconds
        Time to train and score, without the controls. Time that several attacks share is counted
        for the first.
    n_challenges
        Number of challenge groups, half of them with the target.
    level_inside, level_outside
        Over the first challenges, without added ones: number of groups with the target, and
        without it, at each level of :func:`~clusterscale.metrics.calibrated_counts`.
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
