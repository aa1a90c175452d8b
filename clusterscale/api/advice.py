"""Advice on what to publish."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clusterscale.analyses.advise import Advice, AdvicePlan, AdviseAnalysis
from clusterscale.analyses.audit import AuditPlan
from clusterscale.api.execution import run_analysis
from clusterscale.config.policy_limits import limit_by_policy
from clusterscale.config.reading import load_policy
from clusterscale.reauditing import Policy
from clusterscale.study import Tell
from clusterscale.validation_messages import check_kinds

if TYPE_CHECKING:
    import xarray as xr

    from clusterscale.cube import TraceCube
    from clusterscale.runtime import Cluster
    from clusterscale.study.execution import Executor


def advise(
    plan: AuditPlan,
    cube: TraceCube,
    output: str | Path,
    executor: Executor | Cluster | None = None,
    *,
    wanted: AdvicePlan | None = None,
    policy: Policy | str | Path | None = None,
    confirm: TraceCube | None = None,
    memory: int | None = None,
    force: bool = False,
    progress: bool | Tell = True,
) -> xr.Dataset:
    """Search for the mechanism that serves a goal within limits, and confirm it.

    Candidates are certified, screened, measured and, if they get so far, attacked as ``plan`` says;
    its mechanisms are candidates, too.

    Parameters
    ----------
    plan, cube, output, executor, memory, force, progress
        As for :func:`clusterscale.audit`; the advice is kept in ``advise/`` below ``output``.
    wanted
        Goal, limits, candidates and search; the defaults where None.
    policy
        A ``Policy`` or a YAML file of one, whose limits hold in addition.
    confirm
        The cube on which the advice is confirmed, such as the real one where ``cube`` is synthetic.
        None: ``cube``, with users that the search does not target.

    Returns
    -------
    xr.Dataset
        One row per candidate, read lazily; conforms to ``ADVICE``. Its
        attributes ``verdict``, ``advised`` and ``yaml`` are the answer.

    Raises
    ------
    InputError, ConfigError, PoolError, ExistsError
        As :func:`clusterscale.audit`; or if there are too few users for the targets, or ``wanted``
        and ``policy`` limit the same.
    StudyError
        If attacks failed; the same call runs them again.
    """
    check_kinds(plan=(plan, AuditPlan))
    chosen = wanted or AdvicePlan()
    if policy is not None:
        rules = load_policy(policy) if isinstance(policy, str | Path) else policy
        check_kinds(policy=(rules, Policy))
        chosen = limit_by_policy(chosen, rules)
    analysis = AdviseAnalysis(Advice(chosen, plan), confirm)
    return run_analysis(analysis, cube, output, executor, memory, force, progress)
