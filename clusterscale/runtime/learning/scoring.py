"""Score many releases with a trained distinguisher."""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterscale.runtime.learning.schedule import needs_dask_ml

__all__ = ["score_releases"]


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
