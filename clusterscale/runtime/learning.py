"""Hyperparameter search with dask-ml.

Only this module needs dask-ml, on a cluster as well as in this process. A learned attack is a
scikit-learn pipeline of two steps, so that an elimination that several candidates share is computed
only once.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from cloudpickle import dumps, loads
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

from clusterscale.attacks.learned import CrossValidated, LearnedAttack
from clusterscale.attacks.linear import eliminate
from clusterscale.attacks.statistics import features
from clusterscale.contracts import Examples, Ints, Labels, Scores, Values
from clusterscale.metrics import auc
from clusterscale.runtime.serial import SerialExecutor
from clusterscale.seeds import stream
from clusterscale.study.execution import Executor


@contextmanager
def scheduled(executor: Executor) -> Iterator[None]:
    """Compute Dask graphs within the context where ``executor`` runs: on its cluster or here."""
    import dask

    if isinstance(executor, SerialExecutor):
        with dask.config.set(scheduler="synchronous"):
            yield
        return
    from clusterscale.runtime.dask import DaskExecutor

    if not isinstance(executor, DaskExecutor):
        raise TypeError(f"{type(executor).__name__} cannot compute Dask graphs")
    with executor.as_current():
        yield


def get(graph: Any, keys: Any, **_: Any) -> Any:
    """Compute ``keys`` of a graph; raise the first error of a task.

    With a client instead, dask-ml's search would resubmit a failing task forever.
    """
    from dask.base import get_scheduler

    return get_scheduler()(graph, keys)


Path = tuple[str | int, ...]

Form = Callable[[], tuple[Examples, Examples | None]]
"""Makes an adversary's training groups, and fresh ones if it can form any."""


@dataclass(frozen=True, slots=True)
class _TrainingFolds:
    """Statistics, labels and folds; they are computed on a worker and stay there."""

    inputs: Values
    labels: Labels
    folds: Ints
    fresh_inputs: Values
    fresh_labels: Labels


class _Elimination(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Keep as many features as there are rows, like :class:`LearnedAttack`."""

    def __init__(self, step: float = 0.1) -> None:
        self.step = step

    def fit(self, inputs: Values, labels: Labels) -> Self:
        """Select the features to keep."""
        with threadpool_limits(limits=1):
            self.kept_ = eliminate(inputs, labels, n_keep=len(inputs), step=self.step)
        return self

    def transform(self, inputs: Values) -> Values:
        """Return the kept features."""
        return inputs[:, self.kept_]


class _TrainedAttack(BaseEstimator):  # type: ignore[misc]
    """An attack on selected features; its random stream is ``("tuning", path, attack)``."""

    def __init__(self, attack: LearnedAttack, seed: int = 0, path: Path = ()) -> None:
        self.attack = attack
        self.seed = seed
        self.path = path

    def fit(self, inputs: Values, labels: Labels) -> Self:
        """Train."""
        rng = stream(self.seed, "tuning", *self.path, self.attack.id)
        with threadpool_limits(limits=1):
            self.model_ = self.attack.train(inputs, labels, rng=rng)
        return self

    def predict(self, inputs: Values) -> Scores:
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
) -> Values:
    """Return the AUC of each attack on each fold of the training groups, shape (attack, fold).

    Uses dask-ml's ``GridSearchCV``: candidates with the same elimination step share its result.
    ``form`` is called on a worker. Rows of one block are in one fold; folds, in any order, and the
    random streams of attacks depend only on ``seed`` and ``path``. Raises InputError if there are
    fewer blocks with the target, or without it, than folds, of which there are at least 2.
    """
    from dask_ml.model_selection import GridSearchCV
    from sklearn.model_selection import GroupKFold

    candidates = [
        {"eliminate__step": [attack.elimination_step], "train__attack": [attack]}
        for attack in attacks
    ]
    with scheduled(executor):
        training = _prepare(form, n_folds, seed, path)
        search = GridSearchCV(
            _pipeline(attacks[0], seed, path),
            candidates,
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
) -> Values:
    """Return the AUC of each attack on fresh groups after training on all others, shape (attack,).

    The fresh groups are the adversary's own and were not used in any selection. The AUC is NaN if
    there are none. Raises as :func:`cross_validate`.
    """
    import dask

    evaluate = dask.delayed(_evaluate, pure=False)
    with scheduled(executor):
        training = _prepare(form, 2, seed, path)
        areas = (evaluate(_pipeline(attack, seed, path), training) for attack in attacks)
        return np.array(dask.compute(*areas))


def _evaluate(pipeline: Any, training: _TrainingFolds) -> float:
    """Return the AUC on fresh groups after training on all others, NaN if there are none."""
    if not len(training.fresh_labels):
        return np.nan
    pipeline.fit(training.inputs, training.labels)
    return _score(pipeline, training.fresh_inputs, training.fresh_labels)


def _pipeline(attack: LearnedAttack, seed: int, path: Path) -> Any:
    """Return an untrained pipeline equivalent to ``attack`` on all statistics."""
    steps = _Elimination(attack.elimination_step), _TrainedAttack(attack, seed, path)
    return Pipeline([("eliminate", steps[0]), ("train", steps[1])])


def _score(pipeline: Any, inputs: Values, labels: Labels) -> float:
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
