"""What an attack should make nothing of: labels that are worthless, groups without the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterscale.contracts import Attack, Distinguisher, Knowledge, Labels, Release, Scores
from clusterscale.metrics import auc

__all__ = ["Controls"]


@dataclass(frozen=True, slots=True)
class Controls:
    """Either AUC should be about ½.

    Attributes
    ----------
    worthless
        What the adversary holds, with shuffled labels.
    challenge, labels
        What is asked, and the answers, shape (group,).
    absent, stands_in
        Groups with another user wherever the target was, and where, shape (group,); None where
        there are none.
    """

    worthless: Knowledge
    challenge: Release
    labels: Labels
    absent: Release | None = None
    stands_in: Labels | None = None

    def shuffled(self, attack: Attack, scores: Scores, rng: np.random.Generator) -> float:
        """Return the AUC of the attack after training on shuffled labels."""
        misled = attack.fit(self.worthless, rng=rng).score(self.challenge)
        ignores_labels = np.array_equal(misled, scores)
        answers = rng.permutation(self.labels) if ignores_labels else self.labels
        return auc(answers, misled)

    def without_target(self, distinguisher: Distinguisher, scores: Scores) -> float:
        """Return the AUC with a stand-in for the target; not a number where there is none."""
        if self.absent is None or self.stands_in is None:
            return np.nan
        labels, found = self.stands_in, distinguisher.score(self.absent)
        if labels.all():  # the challenges without the target are new to the adversary as well
            outside = scores[~self.labels]
            found = np.concatenate([found, outside])
            labels = np.concatenate([labels, np.zeros(len(outside), np.bool_)])
        return auc(labels, found)
