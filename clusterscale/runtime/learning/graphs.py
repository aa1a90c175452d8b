"""Compute Dask graphs where an executor runs, and score many releases in such a graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from clusterscale.errors import PackageError
from clusterscale.runtime.serial import SerialExecutor
from clusterscale.study.execution import Executor


@contextmanager
def needs_dask_ml(what: str) -> Iterator[None]:
    """Turn a failed import into a :class:`PackageError` that says what ``what`` needs."""
    try:
        yield
    except ImportError as error:
        raise PackageError(f"{what} needs dask-ml ({error}); install dask-ml") from None


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


def score_releases(distinguisher: Any, releases: Any) -> Any:
    """Return the scores of releases as a lazy array, computed chunk by chunk.

    Parameters
    ----------
    distinguisher
        Trained, with scikit-learn's ``predict``: (release, feature) to float64 scores (release,).
    releases
        Dask array, float64, shape (release, feature), in chunks of releases.

    Returns
    -------
    dask.array.Array
        float64, shape (release,), by dask-ml's ``ParallelPostFit``; not computed yet.

    Raises
    ------
    PackageError
        If dask-ml is not installed.
    """
    with needs_dask_ml("scoring releases chunk by chunk"):
        from dask_ml.wrappers import ParallelPostFit
    # with the type of a score given, no release is scored to infer it
    return ParallelPostFit(distinguisher, predict_meta=np.empty(0)).predict(releases)
