"""Learned attacks as scikit-learn pipelines: eliminate features, then train on the rest.

With two steps, a search computes an elimination that several candidates share only once.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

from clusterscale.attacks.learned import LearnedAttack
from clusterscale.attacks.linear import eliminate
from clusterscale.contracts import Labels, Scores
from clusterscale.metrics import auc
from clusterscale.seeds import stream

__all__ = ["adversary", "points", "score"]

Floats = NDArray[np.float64]


class Elimination(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Keep as many features as there are rows, like :class:`LearnedAttack`."""

    def __init__(self, step: float = 0.1) -> None:
        self.step = step

    def fit(self, inputs: Floats, labels: Labels) -> Self:
        """Select the features to keep."""
        with threadpool_limits(limits=1):
            self.kept_ = eliminate(inputs, labels, n_keep=len(inputs), step=self.step)
        return self

    def transform(self, inputs: Floats) -> Floats:
        """Return the kept features."""
        return inputs[:, self.kept_]


class Trained(BaseEstimator):  # type: ignore[misc]
    """An attack on selected features; its random stream is ``("tuning", path, attack)``."""

    def __init__(
        self, attack: LearnedAttack, seed: int = 0, path: tuple[str | int, ...] = ()
    ) -> None:
        self.attack = attack
        self.seed = seed
        self.path = path

    def fit(self, inputs: Floats, labels: Labels) -> Self:
        """Train."""
        rng = stream(self.seed, "tuning", *self.path, self.attack.id)
        with threadpool_limits(limits=1):
            self.model_ = self.attack.train(inputs, labels, rng=rng)
        return self

    def predict(self, inputs: Floats) -> Scores:
        """Return the score of each row."""
        with threadpool_limits(limits=1):
            return np.asarray(self.model_(inputs), np.float64)


def adversary(attack: LearnedAttack, seed: int, path: tuple[str | int, ...]) -> Any:
    """Return an untrained pipeline equivalent to ``attack`` on all statistics."""
    steps = Elimination(attack.elimination_step), Trained(attack, seed, path)
    return Pipeline([("eliminate", steps[0]), ("train", steps[1])])


def points(attacks: tuple[LearnedAttack, ...]) -> list[dict[str, list[Any]]]:
    """Return the pipeline parameters of each of ``attacks``, in their order."""
    return [
        {"eliminate__step": [attack.elimination_step], "train__attack": [attack]}
        for attack in attacks
    ]


def score(pipeline: Any, inputs: Floats, labels: Labels) -> float:
    """Return the AUC of a trained pipeline."""
    return auc(labels, np.nan_to_num(pipeline.predict(inputs)))
