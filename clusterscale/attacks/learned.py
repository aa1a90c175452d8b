"""Classifiers of statistics of each ROI, and the choice of an attack by cross-validation.

scikit-learn is imported only for training: its import takes longer than many attacks, and every
process that reads a plan imports this module.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, Any, ClassVar, Literal, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Strict

from clusterscale.attacks.base import ATTACKS, BaseAttack, LogOddsAttack, score_groups
from clusterscale.attacks.linear import eliminate, fit_logistic
from clusterscale.attacks.statistics import features
from clusterscale.contracts import (
    Attack,
    AttackSeconds,
    Count,
    Distinguisher,
    Examples,
    Floats,
    Ints,
    Knowledge,
    Labels,
    Positive,
    Release,
    Scores,
    Share,
)
from clusterscale.errors import InputError

Model = Callable[[Floats], Scores]
"""A trained classifier: scores rows of features, float64, shape (group, feature)."""

_KEPT: WeakKeyDictionary[Examples, dict[float, NDArray[np.int64]]] = WeakKeyDictionary()


def _select(examples: Examples, step: float) -> NDArray[np.int64]:
    """Return the features that elimination keeps, computed once for all attacks."""
    cache = _KEPT.setdefault(examples, {})
    if step not in cache:
        inputs = features(examples.release)
        cache[step] = eliminate(inputs, examples.labels, n_keep=len(inputs), step=step)
    return cache[step]


@dataclass(frozen=True, slots=True)
class _OnStatistics:
    """A model on some of the statistics."""

    kept: NDArray[np.int64]
    model: Model
    threshold: float

    def score(self, release: Release) -> Scores:
        """Return the model's score of each group."""
        return np.asarray(self.model(features(release)[:, self.kept]), np.float64)


class LearnedAttack(BaseAttack):
    """Eliminate features until as many are left as there are training releases, then train.

    ``elimination_step`` is the share of all features that a round drops. Classifiers that are
    trained on the same releases with the same step share the result.

    Attributes
    ----------
    elimination_step
        Share of all features that a round of elimination drops.
    """

    name: str
    elimination_step: Share = 0.1

    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    threshold: ClassVar[float] = 0.5

    def _fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> _OnStatistics:
        training = knowledge.training
        kept = _select(training, self.elimination_step)
        model = self.train(features(training.release)[:, kept], training.labels, rng=rng)
        return _OnStatistics(kept, model, self.threshold)

    def train(self, inputs: Floats, labels: Labels, *, rng: np.random.Generator) -> Model:
        """Train on statistics, float64, shape (group, feature), that elimination has kept."""
        raise NotImplementedError

    def variants(self) -> tuple[Self, ...]:
        """Return this attack, then its variants with all other combinations in ``grid``."""
        attacks = [self]
        for point in product(*self.grid.values()):
            values = zip(self.grid, point, strict=True)
            other = {key: value for key, value in values if getattr(self, key) != value}
            attacks += [self.model_copy(update=other)] if other else []
        return tuple(attacks)


class Logistic(LearnedAttack, LogOddsAttack):
    """L2 logistic regression (liblinear, C = ``cost``) on the statistics of every ROI.

    Features are always eliminated at C = 1. ``rng`` is not used.

    Attributes
    ----------
    cost
        Inverse strength of the penalty, C, without a unit.
    """

    name: Literal["logistic"] = "logistic"
    seconds = AttackSeconds(0.0, 0.0, group=1e-5, statistics=True)
    usual_against = ("known_subset", "same_groups")
    cost: Positive = 1.0
    threshold: ClassVar[float] = 0.0
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"cost": (1e-4, 1e-2, 1.0, 100.0)}

    def train(self, inputs: Floats, labels: Labels, *, rng: np.random.Generator) -> Model:
        """Train."""
        return partial(_linear, *fit_logistic(inputs, labels, cost=self.cost))


def _linear(weights: Floats, intercept: float, inputs: Floats) -> Scores:
    return np.asarray(inputs @ weights + intercept)


class LeastSquares(LearnedAttack):
    """Linear regression of membership on the statistics of every ROI, without a penalty.

    NDSS18 §VI-A names it in one place. Scores are predicted labels. ``rng`` is not used.
    """

    name: Literal["least_squares"] = "least_squares"
    seconds = AttackSeconds(0.0, 0.0, group=1e-5, statistics=True)

    def train(self, inputs: Floats, labels: Labels, *, rng: np.random.Generator) -> Model:
        """Train."""
        centre = inputs.mean(axis=0)
        weights = np.linalg.lstsq(inputs - centre, labels - labels.mean(), rcond=None)[0]
        return partial(_linear, weights, float(labels.mean() - centre @ weights))


class Nearest(LearnedAttack):
    """The share of the target's groups among the ``neighbours`` nearest training releases.

    Distances are Euclidean, on unscaled statistics. ``rng`` is not used.

    Attributes
    ----------
    neighbours
        Number of nearest training releases.
    """

    name: Literal["nearest"] = "nearest"
    seconds = AttackSeconds(0.0, 0.0, group=1e-5, statistics=True)
    neighbours: Count = 5
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"neighbours": (1, 5, 15, 45)}

    def train(self, inputs: Floats, labels: Labels, *, rng: np.random.Generator) -> Model:
        """Train."""
        from sklearn.neighbors import KNeighborsClassifier

        n_neighbours = min(self.neighbours, len(inputs))
        return partial(_probability, KNeighborsClassifier(n_neighbours).fit(inputs, labels))


class Forest(LearnedAttack):
    """Random forest of ``trees`` trees: Gini criterion, all features tried at every split.

    ``depth`` limits the depth of the trees.

    Attributes
    ----------
    trees
        Number of trees.
    depth
        Largest number of splits above a leaf, e.g. ``10``; None: no limit.
    """

    name: Literal["forest"] = "forest"
    seconds = AttackSeconds(0.0, 0.0, group=4e-4, pair=1e-6, statistics=True)
    usual_against = ("same_groups",)
    trees: Count = 30
    depth: Count | None = None
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"trees": (30, 100), "depth": (None, 4)}

    def train(self, inputs: Floats, labels: Labels, *, rng: np.random.Generator) -> Model:
        """Train."""
        from sklearn.ensemble import RandomForestClassifier

        forest = RandomForestClassifier(
            self.trees, max_depth=self.depth, max_features=None, random_state=draw_seed(rng)
        )
        return partial(_probability, forest.fit(inputs, labels))


def _probability(classifier: Any, inputs: Floats) -> Scores:
    return np.asarray(classifier.predict_proba(inputs)[:, 1])


class Perceptron(LearnedAttack, LogOddsAttack):
    """One hidden layer of ``hidden`` rectified units, trained by Adam on standardised statistics.

    Training is in single precision, which halves the time.

    Attributes
    ----------
    hidden
        Number of hidden units.
    """

    name: Literal["perceptron"] = "perceptron"
    seconds = AttackSeconds(0.0, 0.0, group=4e-4, pair=9e-7, statistics=True)
    hidden: Count = 200
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"hidden": (50, 200, 400)}
    threshold: ClassVar[float] = 0.0

    def train(self, inputs: Floats, labels: Labels, *, rng: np.random.Generator) -> Model:
        """Train."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPClassifier

        centre, spread = inputs.mean(axis=0), inputs.std(axis=0)
        spread[spread <= 1e-12 * np.abs(centre)] = 1.0  # constant up to rounding
        standard = _standardise(inputs, centre, spread)
        network = MLPClassifier((self.hidden,), random_state=draw_seed(rng))
        # The papers train for at most 200 epochs, converged or not.
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            network.fit(standard, labels)
        return _Network(centre, spread, network.coefs_, network.intercepts_)


@dataclass(frozen=True, slots=True)
class _Network:
    centre: Floats
    spread: Floats
    weights: list[NDArray[np.float32]]
    biases: list[NDArray[np.float32]]

    def __call__(self, inputs: Floats) -> Scores:
        standard = _standardise(inputs, self.centre, self.spread)
        hidden = np.maximum(standard @ self.weights[0] + self.biases[0], 0)
        return np.asarray((hidden @ self.weights[1] + self.biases[1])[:, 0], np.float64)


def _standardise(inputs: Floats, centre: Floats, spread: Floats) -> NDArray[np.float32]:
    return ((inputs - centre) / spread).astype(np.float32)


def draw_seed(rng: np.random.Generator) -> int:
    """Draw a ``random_state`` for scikit-learn."""
    return int(rng.integers(2**31))


Candidates = Annotated[
    tuple[Annotated[Attack, ATTACKS.entry(skip="cross_validated")], ...],
    Strict(False),
    Field(min_length=1, max_length=20),
]


class CrossValidated(BaseAttack):
    """The best of several attacks, by cross-validation on the training releases alone.

    The papers' "best" is the attack of highest AUC on the challenges. No adversary can know it, and
    its AUC is biased upwards, more so the more attacks are tried. Here each candidate is trained on
    all ``folds`` but one and scored on that one, with no block on both sides; the candidate of
    highest mean AUC (the first if tied) is then trained on everything.

    Attributes
    ----------
    candidates
        Attacks to choose from.
    folds
        Number of folds.
    """

    name: Literal["cross_validated"] = "cross_validated"
    seconds = AttackSeconds(0.0, 0.0, group=1.6e-3, pair=5e-6, statistics=True)
    candidates: Candidates = (Logistic(), Nearest(), Forest(), Perceptron())
    folds: Annotated[int, Strict(), Field(ge=2, le=10)] = 2

    @property
    def _label(self) -> str:  # with the candidates where they are not the papers' four
        given = self.model_dump(exclude={"name", "title", "candidates"}, exclude_defaults=True)
        fields = [f"{key}={value!r}" for key, value in given.items()]
        if self.candidates != type(self).model_fields["candidates"].default:
            fields.insert(0, " | ".join(candidate.label for candidate in self.candidates))
        return f"{self.name}({', '.join(fields)})" if fields else self.name

    @property
    def needs_whereabouts(self) -> bool:  # type: ignore[override]
        """Whether any candidate needs to know where the target was."""
        return any(candidate.needs_whereabouts for candidate in self.candidates)

    @property
    def validates(self) -> bool:  # type: ignore[override]
        """Whether any candidate uses validation groups."""
        return any(candidate.validates for candidate in self.candidates)

    def _fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> Distinguisher:
        return self.choose(knowledge, rng=rng).fit(knowledge, rng=rng)

    def choose(self, knowledge: Knowledge, *, rng: np.random.Generator) -> Attack:
        """Return the candidate of highest mean AUC over the folds."""
        from sklearn.metrics import roc_auc_score

        scores = np.zeros(len(self.candidates))
        for learn, check in self.split(knowledge.training, rng=rng):
            part = Knowledge(knowledge.training.take(learn), knowledge.whereabouts)
            held_out = knowledge.training.take(check)
            for i, candidate in enumerate(self.candidates):
                trained = candidate.fit(part, rng=rng)
                fold_scores = score_groups(candidate, trained, held_out.release)
                scores[i] += roc_auc_score(held_out.labels, np.nan_to_num(fold_scores))
        return self.candidates[int(np.argmax(scores))]

    def split(self, training: Examples, *, rng: np.random.Generator) -> list[tuple[Ints, Ints]]:
        """Return the training and the check rows of each fold; blocks are never split.

        Raises InputError if there are fewer blocks with the target, or without, than folds.
        """
        sides = (training.labels, ~training.labels)
        n_blocks = min(len(np.unique(training.blocks[side])) for side in sides)
        if n_blocks < self.folds:
            raise InputError(
                f"{self.name}: {self.folds} folds need as many groups with the target and without, "
                f"but there are only {n_blocks} of one kind"
            )
        from sklearn.model_selection import StratifiedGroupKFold

        folds: Any = StratifiedGroupKFold(self.folds, shuffle=True, random_state=draw_seed(rng))
        return list(folds.split(training.labels, training.labels, training.blocks))
