"""Which hyperparameters an adversary would choose by its own training groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from cloudpickle import dumps, loads
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from clusterscale.attacks.cross_validation import CrossValidated
from clusterscale.attacks.learned import LearnedAttack
from clusterscale.attacks.statistics import features
from clusterscale.contracts import Examples, Executor, Ints, Labels
from clusterscale.metrics import auc
from clusterscale.runtime.learning.schedule import get, needs_dask_ml, scheduled
from clusterscale.runtime.learning.scoring import score_releases
from clusterscale.seeds import stream

__all__ = ["Form", "cross_validate", "evaluate_on_fresh_groups"]

Floats = NDArray[np.float64]
Path = tuple[str | int, ...]

Form = Callable[[], tuple[Examples, Examples | None]]
"""Makes an adversary's training groups, and fresh ones of its own where it can form any."""

_ROWS = 64  # releases that are scored at once


@dataclass(frozen=True, slots=True)
class _Lesson:
    """Statistics and answers; they are made on a worker and stay there."""

    inputs: Floats
    labels: Labels
    folds: Ints
    fresh_inputs: Floats
    fresh_labels: Labels


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

    dask-ml's ``GridSearchCV``: candidates that share a step of elimination share its outcome. Rows
    of one block are in one fold; folds, and what an attack draws, depend on ``seed`` and ``path``
    alone.

    Parameters
    ----------
    form
        Called on a worker.
    attacks
        The candidates.
    executor
        Where to work; the result is the same anywhere.
    n_folds
        How many, at least 2.
    seed, path
        Root seed, and what tells this search from every other.

    Returns
    -------
    numpy.ndarray
        float64, shape (attack, fold); folds in any order, the same for all attacks.

    Raises
    ------
    InputError
        If there are fewer blocks with the target, or without, than folds.
    PackageError
        If dask-ml is not installed.
    """
    with needs_dask_ml("tuning"):
        from dask_ml.model_selection import GridSearchCV
        from sklearn.model_selection import GroupKFold

        from clusterscale.runtime.learning.pipeline import adversary, points, score
    with scheduled(executor):
        lesson = _prepare(form, n_folds, seed, path)
        search = GridSearchCV(
            adversary(attacks[0], seed, path),
            points(attacks),
            scoring=score,
            cv=GroupKFold(n_folds),
            iid=False,
            refit=False,
            scheduler=get,
        )
        search.fit(lesson.inputs, lesson.labels, groups=lesson.folds)
    found = [search.cv_results_[f"split{fold}_test_score"] for fold in range(n_folds)]
    return np.stack(found, axis=1)


def evaluate_on_fresh_groups(
    form: Form, attacks: tuple[LearnedAttack, ...], executor: Executor, *, seed: int, path: Path
) -> Floats:
    """Return the AUC of each attack on fresh groups after training on all others.

    The fresh groups are the adversary's own, and had no part in any choice; not a number where
    there are none. Parameters and errors are those of :func:`cross_validate`.

    Returns
    -------
    numpy.ndarray
        float64, shape (attack,).
    """
    with needs_dask_ml("tuning"):
        import dask
        import dask.array as da

        from clusterscale.runtime.learning.pipeline import adversary
    with scheduled(executor):
        lesson = _prepare(form, 2, seed, path)
        fitting = dask.delayed(lambda model, inputs, labels: model.fit(inputs, labels), pure=False)
        fitted = [
            fitting(adversary(attack, seed, path), lesson.inputs, lesson.labels)
            for attack in attacks
        ]
        *models, labels, shape = dask.compute(
            *fitted, lesson.fresh_labels, lesson.fresh_inputs.shape
        )
        if not len(labels):
            return np.full(len(attacks), np.nan)
        fresh = da.from_delayed(lesson.fresh_inputs, shape, np.float64).rechunk((_ROWS, -1))
        scores = dask.compute(*(score_releases(model, fresh) for model in models))
    return np.array([auc(labels, np.nan_to_num(each)) for each in scores])


def _prepare(form: Form, n_folds: int, seed: int, path: Path) -> Any:
    """Return a lesson that is made on a worker, and kept there as long as it is referred to."""
    import dask

    # As bytes, for what a worker cannot unpack should be an error there, not its end.
    lesson = dask.delayed(_teach, pure=False)(dumps(form), n_folds, seed, path)
    (kept,) = dask.persist(lesson)
    return kept


def _teach(packed: bytes, n_folds: int, seed: int, path: Path) -> _Lesson:
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
            return _Lesson(inputs, training.labels, folds, inputs[:0], training.labels[:0])
        return _Lesson(inputs, training.labels, folds, features(fresh.release), fresh.labels)
