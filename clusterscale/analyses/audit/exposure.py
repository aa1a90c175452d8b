"""Exposure of users in a run: the screen of a plan, the ranking by it, and finished results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clusterscale import study
from clusterscale.analyses.audit.plan import AuditPlan
from clusterscale.analyses.audit.targets import Chosen
from clusterscale.analyses.screening import ScreenAnalysis, is_counted
from clusterscale.cube import TraceCube
from clusterscale.study.execution import Executor

if TYPE_CHECKING:
    import xarray as xr


_USERS = 1 << 18  # read at once


def choose_targets(
    plan: AuditPlan, cube: TraceCube, output: str | Path, executor: Executor, **options: Any
) -> Chosen:
    """Choose the targets of a plan; a screen finds the most exposed users first."""
    if plan.targets.most_exposed is None:
        return plan.choose(cube)
    screened = study.run(ScreenAnalysis(plan.whole_screen), cube, output, executor, **options)
    return plan.choose(cube, rank(screened))


def rank(screened: xr.Dataset) -> NDArray[np.int64]:
    """Return the users that a screen counts, the most exposed first.

    A user's exposure is the mean AUC over group sizes, mechanisms, attacks and the periods in which
    the user is counted (``is_counted``): several attacks agree better
    with one that is trained than any of them does alone. Among equals (many reach 1) the mean gap
    counts.

    Parameters
    ----------
    screened
        Dataset of a finished screen, conforming to :data:`clusterscale.analyses.screening.SCREEN`.

    Returns
    -------
    int64, shape (counted user,)
        Indices in the cube.
    """
    n_users, counted = screened.sizes["user"], np.asarray(is_counted(screened))
    exposure, gap = np.empty(n_users), np.empty(n_users)
    for first in range(0, n_users, _USERS):
        some = slice(first, first + _USERS)
        for name, out in (("auc", exposure), ("score_gap", gap)):
            values = screened[name].isel(user=some).transpose("user", "period", ...).values
            mean = values.reshape(len(values), -1).mean(axis=1, dtype=np.float64)
            mine = counted[some]
            partly = np.asarray(mine.any(axis=1) & ~mine.all(axis=1))
            if partly.any():
                by_period = values[partly].reshape(int(partly.sum()), mine.shape[1], -1)
                where = mine[partly][:, :, None]
                mean[partly] = by_period.mean(axis=(1, 2), dtype=np.float64, where=where)
            out[some] = np.where(np.isnan(mean), -np.inf, mean)  # NaN goes last
    order: NDArray[np.int64] = np.lexsort((np.arange(n_users), -gap, -exposure))
    return order[np.asarray(counted.any(axis=1))[order]]
