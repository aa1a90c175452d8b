"""The screen of a plan, and the ranking of users by exposure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clusterscale import screening
from clusterscale.audit.plan import AuditPlan
from clusterscale.audit.targets import Chosen
from clusterscale.contracts import Executor
from clusterscale.cube import TraceCube
from clusterscale.screening import is_counted
from clusterscale.validation_messages import check_kinds

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["choose_targets", "rank", "screen"]

_USERS = 1 << 18  # read at once


def screen(
    plan: AuditPlan, cube: TraceCube, output: str | Path, executor: Executor, **options: Any
) -> xr.Dataset:
    """Screen every user of ``cube`` under the plan's mechanisms, by attacks in closed form.

    For each user, each of ``plan.screen.groups`` groups is published in two worlds: with the user,
    and with another instead. No adversary is trained, and targets, priors and attacks of the plan
    are not used; the cost of a user depends only on their own events. Users without an event in a
    period are scored, but statistics leave them out unless ``targets.unseen`` is ``include``.

    Parameters
    ----------
    plan, cube
        The settings, and the traces.
    output, executor, options
        As for :func:`clusterscale.study.run`; the screen is kept in ``screen/`` below ``output``.

    Returns
    -------
    xr.Dataset
        One row per user; conforms to :data:`clusterscale.screening.SCREEN`; read lazily.

    Raises
    ------
    InputError
        If the plan or the cube has another type.
    ConfigError, PoolError
        If the plan does not fit the cube, a mechanism cannot be screened, or memory is too small.
    ExistsError
        If there is another screen and ``force`` is not set.
    """
    check_kinds(plan=(plan, AuditPlan))
    return screening.run(plan.whole_screen, cube, output, executor, **options)


def choose_targets(
    plan: AuditPlan, cube: TraceCube, output: str | Path, executor: Executor, **options: Any
) -> Chosen:
    """Choose the targets of a plan; a screen finds the most exposed users first.

    Parameters and errors are those of :func:`screen`.
    """
    exposed = plan.targets.most_exposed is not None
    return plan.choose(
        cube, rank(screen(plan, cube, output, executor, **options)) if exposed else None
    )


def rank(screened: xr.Dataset) -> NDArray[np.int64]:
    """Return the users that a screen counts, the most exposed first.

    A user's exposure is the mean AUC over group sizes, mechanisms, attacks and the periods in which
    the user is counted (:func:`~clusterscale.screening.is_counted`): several attacks agree better
    with one that is trained than any of them does alone. Among equals (many reach 1) the mean gap
    counts.
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
