"""Results of attacks: metrics over challenges, scores of a published release, and controls."""

from dataclasses import dataclass

import numpy as np

from clusterscale.contracts import GroupSample, Labels, Scores
from clusterscale.metrics import N_PVALUE_BINS, auc


@dataclass(frozen=True, slots=True)
class Outcome:
    """Metrics of one attack against one mechanism, over the challenges; or the error of either.

    Metrics that the challenges cannot give, and controls that were not requested, are NaN; so are
    all if there is an error.

    Attributes
    ----------
    mechanism, attack
        Their labels.
    auc, auc_low, auc_high
        Area under the ROC curve, and its interval (DeLong, on the scale of odds), with the variance
        of training if the attack was retrained.
    auc_degrees
        Degrees of freedom of the error of the AUC; infinite if the attack was not retrained.
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
    error
        The error that the attack or the mechanism raised, empty if there is none.
    """

    mechanism: str
    attack: str
    auc: float = np.nan
    auc_low: float = np.nan
    auc_high: float = np.nan
    auc_degrees: float = np.nan
    accuracy: float = np.nan
    tpr: float = np.nan
    epsilon_lower: float = np.nan
    control_auc: float = np.nan
    absent_auc: float = np.nan
    naive_auc: float = np.nan
    seconds: float = np.nan
    n_challenges: int = 0
    level_inside: tuple[int, ...] = (0,) * N_PVALUE_BINS
    level_outside: tuple[int, ...] = (0,) * N_PVALUE_BINS
    error: str = ""


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
    outside, inside = (
        float((others < score).mean() + (others == score).mean() / 2)
        for others in (challenges[~labels], challenges[labels])
    )
    return ReleasePlacement(attack, float(score), bool(score >= threshold), outside, inside)


def shuffled_label_auc(
    labels: Labels, scores: Scores, label_shuffled: Scores, *, rng: np.random.Generator
) -> float:
    """Return the AUC of an attack after training on shuffled labels; it should be about ½.

    An attack that ignores training labels has unchanged scores when they are shuffled, so the
    labels of its challenges are shuffled instead.
    """
    truth = rng.permutation(labels) if np.array_equal(label_shuffled, scores) else labels
    return auc(truth, label_shuffled)


def substitute_auc(
    absent: GroupSample, absent_scores: Scores, labels: Labels, scores: Scores
) -> float:
    """Return the AUC with a substitute for the target; it should be about ½.

    ``absent`` are the groups with a substitute; if they have none without the target, those of
    the challenges are the other class.
    """
    has_substitute = absent.labels
    if has_substitute.all():  # challenges without the target are new to the adversary as well
        outside = scores[~labels]
        absent_scores = np.concatenate([absent_scores, outside])
        has_substitute = np.concatenate([has_substitute, np.zeros(len(outside), np.bool_)])
    return auc(has_substitute, absent_scores)
