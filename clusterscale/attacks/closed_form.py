"""Closed-form distinguishers, which know where the target was and need no training.

All use the same model: members are independent, each in a cell with the probability given by the
adversary's reference, and the target adds its own trace.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from clusterscale.attacks.base import BaseAttack
from clusterscale.attacks.blocked_linalg import LinearDistinguisher, column_variances, combine
from clusterscale.contracts import (
    AttackSeconds,
    Counts,
    Floats,
    Ints,
    Knowledge,
    Labels,
    Reference,
    Release,
    Scores,
    TargetKnowledge,
    Values,
)
from clusterscale.errors import InputError


def require_target_knowledge(knowledge: Knowledge) -> TargetKnowledge:
    """Return what is known of the target's location.

    Raises InputError if the prior does not know it.
    """
    if knowledge.whereabouts is None:
        raise InputError("this attack needs the target's location, which the prior does not know")
    return knowledge.whereabouts


def build_reference(knowledge: Knowledge, *, moments: bool = True) -> Reference:
    """Return the adversary's reference, with moments of the training releases if needed.

    They are computed if the noise distribution is not known and ``moments`` is true. Raises
    InputError if the prior does not know where the target was.
    """
    target, training = require_target_knowledge(knowledge), knowledge.training
    release = training.release
    outside = spread = None
    if moments and release.noise is None:
        outside = combine(release.flat, ~training.labels / (~training.labels).sum())
        spread = column_variances(release.flat)
    return Reference(
        mean_trace=target.mean_trace.ravel(),
        n_users=target.n_users,
        group_size=release.group_size,
        noise=release.noise,
        outside=outside,
        spread=spread,
        law=release.law,
        weights=_weights(target),
    )


def _weights(target: TargetKnowledge) -> tuple[float, float]:
    """Return the weight of the target, and the mean weight of the others of the reference."""
    if target.weights is None:
        return 1.0, 1.0
    own, total = target.weights
    return own, (total - own) / max(target.n_users - 1, 1)


def occupancy_probabilities(reference: Reference) -> Floats:
    """Return the probability that a member is in each cell, shape (cell,), never 0 or 1.

    The share in the reference, shrunk by half a user towards ½ (the estimate of Krichevsky and
    Trofimov 1981), so that a cell without users of the reference is unlikely, not impossible.
    """
    n_users = reference.n_users
    return np.asarray((reference.mean_trace * n_users + 0.5) / (n_users + 1))


def variances(reference: Reference) -> Floats:
    """Return the variance of each cell's value over groups, shape (cell,), above 0.

    That of a binomial count plus noise, if the noise distribution is known; otherwise that of the
    training releases, but at least that of one member.
    """
    chance = occupancy_probabilities(reference)
    one = chance * (1 - chance)
    if reference.spread is not None:
        return np.maximum(reference.spread, one * reference.weights[1] ** 2)
    noise = 0.0 if reference.noise is None else reference.noise.variance
    return np.asarray(reference.group_size * one + noise)


@dataclass(frozen=True, slots=True, eq=False)
class LinearCellScore:
    """Evidence that is linear in the value of a cell.

    Slopes and intercepts are float64, shape (cell,), where the target was (``here``) and where it
    was not (``away``).
    """

    here: Floats
    away: Floats
    here_at_zero: Floats | None = None
    away_at_zero: Floats | None = None

    def cell_evidence(self, values: Values | Counts, cells: Ints, *, here: bool) -> Values:
        """Return slope · value + intercept, shape (group, cell)."""
        slope, at_zero = (self.here, self.here_at_zero) if here else (self.away, self.away_at_zero)
        evidence: Values = np.asarray(values, np.float64) * slope[cells]
        if at_zero is not None:
            evidence += at_zero[cells]
        return evidence

    def total(self, values: Values | Counts, cells: Ints, here: Labels) -> Scores:
        """Return the evidence of all of ``cells`` together, shape (group,)."""
        scores: Scores = np.asarray(values, np.float64) @ np.where(
            here, self.here[cells], self.away[cells]
        )
        if self.here_at_zero is not None and self.away_at_zero is not None:
            scores += np.where(here, self.here_at_zero[cells], self.away_at_zero[cells]).sum()
        return scores


class _LinearScoreAttack(BaseAttack):
    """An attack whose score is linear in the values."""

    needs_whereabouts: ClassVar[bool] = True
    trains: ClassVar[bool] = False
    _uses_training_moments: ClassVar[bool] = False

    def cell_score(self, reference: Reference) -> LinearCellScore:
        """Return the score of each cell."""
        raise NotImplementedError

    def _fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> LinearDistinguisher:
        """Return the weights, with a threshold midway between the training classes.

        ``rng`` is not used.
        """
        reference = build_reference(knowledge, moments=self._uses_training_moments)
        slopes, trace = self.cell_score(reference), require_target_knowledge(knowledge).trace
        weights, training = slopes.away.copy(), knowledge.training
        weights[trace] = slopes.here[trace]
        scores = LinearDistinguisher(weights).score(training.release)
        inside, outside = scores[training.labels], scores[~training.labels]
        return LinearDistinguisher(weights, threshold=float(inside.mean() + outside.mean()) / 2)


class Projection(_LinearScoreAttack):
    """Score a release by its inner product with (target's trace − mean trace of the prior).

    With equal variances this is the likelihood ratio of *inside* against *outside* up to
    constants. The threshold is midway between the training classes.
    """

    name: Literal["projection"] = "projection"
    usual_against = ("known_subset",)

    def cell_score(self, reference: Reference) -> LinearCellScore:
        """Return 1 − mean trace where the target was, − mean trace where it was not."""
        return LinearCellScore(1.0 - reference.mean_trace, -reference.mean_trace)


class Diagonal(_LinearScoreAttack):
    """The projection with each cell divided by the variance of its value.

    With normal values, equal covariances of *inside* and *outside*, and independent cells, this is
    the likelihood ratio up to constants (Fisher's linear discriminant with a diagonal covariance).
    """

    name: Literal["diagonal"] = "diagonal"
    seconds = AttackSeconds(train=1.2e-9, score=1.2e-9)
    _uses_training_moments: ClassVar[bool] = True

    def cell_score(self, reference: Reference) -> LinearCellScore:
        """Return the projection's slopes over the variance of each cell."""
        spread = variances(reference)
        return LinearCellScore(
            (1.0 - reference.mean_trace) / spread, -reference.mean_trace / spread
        )


class Contradiction(BaseAttack):
    """*Outside* where the counts rule the target out, *inside* otherwise (POPETS24 §6.1).

    A count of 0 where the target was rules it out; so does a count of all members where it was
    not, if its whole trace is known. Only counts that are published unchanged can contradict; all
    scores of any other release are equal.
    """

    name: Literal["contradiction"] = "contradiction"
    seconds = AttackSeconds(train=4e-10, score=4e-10)

    needs_whereabouts: ClassVar[bool] = True
    trains: ClassVar[bool] = False

    def _fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> "_ContradictionRule":
        target = require_target_knowledge(knowledge)
        return _ContradictionRule(target.trace, target.complete)


@dataclass(frozen=True, slots=True)
class _ContradictionRule:
    trace: Ints
    complete: bool
    threshold: float = 0.0

    def score(self, release: Release) -> Scores:
        """Return −1 for each group that cannot contain the target, else 0."""
        flat, unchanged = release.flat, release.is_unchanged
        out = (flat[:, self.trace[unchanged[self.trace]]] == 0).any(axis=1)
        if self.complete:
            full = (flat == release.group_size) & unchanged
            full[:, self.trace] = False
            out |= full.any(axis=1)
        return np.where(out, -1.0, 0.0)
