"""Select hyperparameters as an adversary would, on its own training groups.

A learned attack is a scikit-learn pipeline of two steps, so that a search computes an elimination
that several candidates share only once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from cloudpickle import dumps, loads
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

from clusterscale.attacks.cross_validation import CrossValidated
from clusterscale.attacks.learned import LearnedAttack
from clusterscale.attacks.linear import eliminate
from clusterscale.attacks.statistics import features
from clusterscale.contracts import Examples, Ints, Labels, Scores
from clusterscale.metrics import auc
from clusterscale.runtime.learning.graphs import get, needs_dask_ml, scheduled, score_releases
from clusterscale.seeds import stream
from clusterscale.study.execution import Executor

Floats = NDArray[np.float64]
Path = tuple[str | int, ...]

Form = Callable[[], tuple[Examples, Examples | None]]
"""Makes an adversary's training groups, and fresh ones if it can form any."""

_ROWS = 64  # releases per chunk when scoring


@dataclass(frozen=True, slots=True)
class _TrainingFolds:
    """Statistics, labels and folds; they are computed on a worker and stay there."""

    inputs: Floats
    labels: Labels
    folds: Ints
    fresh_inputs: Floats
    fresh_labels: Labels


class _Elimination(TransformerMixin, BaseEstimator):  # type: ignore[misc]
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


class _TrainedAttack(BaseEstimator):  # type: ignore[misc]
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


def cross_validate(
    form: Form,
    attacks: tuple[LearnedAttack, ...],
    executor: Executor,
    *,
    n_folds: int,
    seed: int,
    path: Path,
) -> Floats:
    """Return the AUC of each attack on each fold of the training groups.

    Uses dask-ml's ``GridSearchCV``: candidates with the same elimination step share its result.
    Rows of one block are in one fold; folds and the random streams of attacks depend only on
    ``seed`` and ``path``.

    Parameters
    ----------
    form
        Called on a worker.
    attacks
        The candidates.
    executor
        Runs the tasks; the result does not depend on it.
    n_folds
        Number of folds, at least 2.
    seed, path
        Root seed, and the path of this search's random streams.

    Returns
    -------
    numpy.ndarray
        float64, shape (attack, fold); folds in any order, the same for all attacks.

    Raises
    ------
    InputError
        If there are fewer blocks with the target, or without it, than folds.
    PackageError
        If dask-ml is not installed.
    """
    with needs_dask_ml("tuning"):
        from dask_ml.model_selection import GridSearchCV
        from sklearn.model_selection import GroupKFold
    with scheduled(executor):
        training = _prepare(form, n_folds, seed, path)
        search = GridSearchCV(
            _pipeline(attacks[0], seed, path),
            _parameters(attacks),
            scoring=_score,
            cv=GroupKFold(n_folds),
            iid=False,
            refit=False,
            scheduler=get,
        )
        search.fit(training.inputs, training.labels, groups=training.folds)
    scores = [search.cv_results_[f"split{fold}_test_score"] for fold in range(n_folds)]
    return np.stack(scores, axis=1)


def evaluate_on_fresh_groups(
    form: Form, attacks: tuple[LearnedAttack, ...], executor: Executor, *, seed: int, path: Path
) -> Floats:
    """Return the AUC of each attack on fresh groups after training on all others.

    The fresh groups are the adversary's own and were not used in any selection. The AUC is NaN if
    there are none.

    Parameters
    ----------
    form, attacks, executor, seed, path
        As for :func:`cross_validate`.

    Returns
    -------
    numpy.ndarray
        float64, shape (attack,).

    Raises
    ------
    InputError, PackageError
        As :func:`cross_validate`.
    """
    with needs_dask_ml("tuning"):
        import dask
        import dask.array as da
    with scheduled(executor):
        training = _prepare(form, 2, seed, path)
        fitting = dask.delayed(lambda model, inputs, labels: model.fit(inputs, labels), pure=False)
        fitted = [
            fitting(_pipeline(attack, seed, path), training.inputs, training.labels)
            for attack in attacks
        ]
        *models, labels, shape = dask.compute(
            *fitted, training.fresh_labels, training.fresh_inputs.shape
        )
        if not len(labels):
            return np.full(len(attacks), np.nan)
        fresh = da.from_delayed(training.fresh_inputs, shape, np.float64).rechunk((_ROWS, -1))
        scores = dask.compute(*(score_releases(model, fresh) for model in models))
    return np.array([auc(labels, np.nan_to_num(release_scores)) for release_scores in scores])


def _pipeline(attack: LearnedAttack, seed: int, path: tuple[str | int, ...]) -> Any:
    """Return an untrained pipeline equivalent to ``attack`` on all statistics."""
    steps = _Elimination(attack.elimination_step), _TrainedAttack(attack, seed, path)
    return Pipeline([("eliminate", steps[0]), ("train", steps[1])])


def _parameters(attacks: tuple[LearnedAttack, ...]) -> list[dict[str, list[Any]]]:
    """Return the pipeline parameters of each of ``attacks``, in their order."""
    return [
        {"eliminate__step": [attack.elimination_step], "train__attack": [attack]}
        for attack in attacks
    ]


def _score(pipeline: Any, inputs: Floats, labels: Labels) -> float:
    """Return the AUC of a trained pipeline."""
    return auc(labels, np.nan_to_num(pipeline.predict(inputs)))


def _prepare(form: Form, n_folds: int, seed: int, path: Path) -> Any:
    """Return training data computed on a worker, and kept there while it is referenced."""
    import dask

    # As bytes: unpickling that fails must be an error of the task, not kill the worker.
    training = dask.delayed(_make_folds, pure=False)(dumps(form), n_folds, seed, path)
    (kept,) = dask.persist(training)
    return kept


def _make_folds(packed: bytes, n_folds: int, seed: int, path: Path) -> _TrainingFolds:
    form: Form = loads(packed)
    with threadpool_limits(limits=1):
        training, fresh = form()
        inputs = features(training.release)
        folds = np.empty(len(inputs), np.int64)
        rng = stream(seed, "tuning folds", *path)
        parts = CrossValidated(folds=n_folds).split(training, rng=rng)
        for fold, (_, check) in enumerate(parts):
            folds[check] = fold
        if fresh is None:
            return _TrainingFolds(inputs, training.labels, folds, inputs[:0], training.labels[:0])
        return _TrainingFolds(inputs, training.labels, folds, features(fresh.release), fresh.labels)
