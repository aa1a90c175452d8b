"""Exposure of users in a run: the screen of a plan, the ranking by it, and finished results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clusterscale import study
from clusterscale.analyses.audit.plan import AuditPlan
from clusterscale.analyses.audit.results import open_results
from clusterscale.analyses.audit.targets import Chosen
from clusterscale.analyses.screening import ScreenAnalysis, is_counted
from clusterscale.analyses.traits import TargetAUCs, list_exposures
from clusterscale.cube import TraceCube
from clusterscale.errors import ExistsError, MissingError
from clusterscale.storage import exists
from clusterscale.study.execution import Executor
from clusterscale.study.identity import has_code

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


def find_exposures(plan: AuditPlan, cube: TraceCube, output: str) -> list[TargetAUCs]:
    """Return where the AUCs of every case are: first of a finished audit, then of a screen.

    Parameters
    ----------
    plan, cube
        The plan of the run, and the traces.
    output
        Folder of the run.

    Returns
    -------
    list[TargetAUCs]
        References to the stored AUCs, one for each case.

    Raises
    ------
    MissingError
        If neither has finished.
    ExistsError
        If one of them is of another plan or cube.
    """
    exposures: list[TargetAUCs] = []
    audited, screened = f"{output}/results.zarr", f"{output}/screen/results.zarr"
    if exists(f"{audited}/zarr.json"):
        results = open_results(output)
        same = results.attrs["plan_digest"] == plan.digest and has_code(output, "audit", plan)
        _compare(results, cube, output, same, "audit")
        exposures += list_exposures(results, audited, "audit")
    if (screen := _open_screen(f"{output}/screen")) is not None:
        whole = plan.whole_screen
        same = screen.attrs["plan_digest"] == whole.digest
        same &= has_code(f"{output}/screen", "screen", whole)
        _compare(screen, cube, output, same, "screen")
        exposures += list_exposures(screen, screened, "screen")
    if not exposures:
        raise MissingError(
            f"{output}: neither an audit nor a screen has finished there; "
            "run `clusterscale audit` or `clusterscale screen` with this config first"
        )
    return exposures


def _open_screen(uri: str) -> xr.Dataset | None:
    try:
        return ScreenAnalysis.read(uri)
    except MissingError:
        return None


def _compare(results: xr.Dataset, cube: TraceCube, output: str, same: bool, what: str) -> None:
    other = [] if same else ["plan, or of other code"]
    other += [] if results.attrs["cube_fingerprint"] == cube.fingerprint else ["cube"]
    if other:
        raise ExistsError(
            f"{output} holds a{'n' * (what == 'audit')} {what} of another {' and '.join(other)}: "
            f"run `clusterscale {what}` with this config first, or choose another output"
        )
