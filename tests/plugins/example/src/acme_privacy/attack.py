"""An attack."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from clusterscale.contracts import Attack


class MatchingCells(Attack):
    """Compare a release with the mean of the training groups that contain the target."""

    name: Literal["matching_cells"] = "matching_cells"

    def fit(self, knowledge, *, rng):
        values, labels = knowledge.training.release.flat, knowledge.training.labels
        direction = values[labels].mean(axis=0) - values[~labels].mean(axis=0)
        return Direction(direction, threshold=float((values @ direction).mean()))


@dataclass(frozen=True)
class Direction:
    direction: Any
    threshold: float

    def score(self, release):
        return np.sum(release.flat * self.direction, axis=1)
