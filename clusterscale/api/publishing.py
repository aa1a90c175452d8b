"""Releases of a cube."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clusterscale.analyses.publish import PublishAnalysis, PublishPlan
from clusterscale.api.execution import run_analysis
from clusterscale.reauditing import Gate
from clusterscale.study import Tell
from clusterscale.validation_messages import check_kinds

if TYPE_CHECKING:
    import xarray as xr

    from clusterscale.cube import TraceCube
    from clusterscale.runtime import Cluster
    from clusterscale.study.execution import Executor


def publish(
    plan: PublishPlan,
    cube: TraceCube,
    output: str | Path,
    executor: Executor | Cluster | None = None,
    *,
    gate: Gate | None = None,
    without_guarantee: bool = False,
    memory: int | None = None,
    force: bool = False,
    progress: bool | Tell = True,
) -> xr.Dataset:
    """Make a release, and enter what it spends in the budget ledger of its series.

    Parameters
    ----------
    plan, cube, output, executor, memory, force, progress
        As for :func:`clusterscale.audit`; exact counts are in ``publication/`` below ``output``
        until the release exists. The same call with the same folder publishes once.
    gate
        Audit and policy that the release must pass before; None: a release without a guarantee is
        refused, unless the plan or ``without_guarantee`` allows it.
    without_guarantee
        Whether to publish without a guarantee and without a gate.

    Returns
    -------
    xr.Dataset
        The release: ``counts``, float64, over (roi, epoch), NaN where hidden; attributes say where
        it is and what is spent.

    Raises
    ------
    InputError, ConfigError
        If an argument has another type, or the plan does not fit the cube.
    RefusedError
        If the budget or the gate does not allow the release, or its difference from an earlier one
        of the series shows few people.
    ExistsError
        If the period is published already, or ``output`` holds another study.
    PackageError
        If OpenDP is not installed.
    DamagedError, StoreError
        If the ledger is damaged, another process publishes in the series, or a store fails.
    """
    check_kinds(plan=(plan, PublishPlan))
    if without_guarantee:
        plan = plan.model_copy(update={"without_guarantee": True})
    return run_analysis(
        PublishAnalysis(plan, gate), cube, output, executor, memory, force, progress
    )
