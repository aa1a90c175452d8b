"""Analyses of a cube: audit, screen, certificates, traits, recovery, publication, others."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from clusterscale.analyses.audit import AuditAnalysis, AuditPlan, TraitsAnalysis, count_failed
from clusterscale.analyses.certify import Certification, CertifyAnalysis, CertifyPlan
from clusterscale.analyses.recovery import RecoveryAnalysis, RecoveryPlan
from clusterscale.analyses.screening import ScreenAnalysis
from clusterscale.analyses.traits import TraitsPlan
from clusterscale.api.execution import run_analysis
from clusterscale.study import AnalysisPlan, Tell
from clusterscale.validation_messages import check_kinds

if TYPE_CHECKING:
    import xarray as xr

    from clusterscale.cube import TraceCube
    from clusterscale.runtime import Cluster
    from clusterscale.study.execution import Executor


def audit(
    plan: AuditPlan,
    cube: TraceCube,
    output: str | Path,
    executor: Executor | Cluster | None = None,
    *,
    memory: int | None = None,
    force: bool = False,
    progress: bool | Tell = True,
    certificates: CertifyPlan | None = None,
) -> xr.Dataset:
    """Run an audit, or resume an interrupted one.

    All users are certified first, as by :func:`certify`, in the same folder; the report compares
    what attacks measure with the ceilings. A plan with ``targets={"most_exposed": n}`` screens all
    users, too.

    Parameters
    ----------
    plan, cube
        The settings, and the traces.
    output
        Folder of the run, a local path or fsspec URL that all workers reach. The same call with
        the same folder resumes the run, and computes only what is left.
    executor
        Where the tasks run: an executor, or a cluster such as ``Local(workers=4)``, which is
        opened and closed. None: one after another in this process.
    memory
        Bytes that a worker may use. None: 70 % of the memory of a cluster's worker, or 2 GB if
        that is not known.
    force
        Overwrite the results of another plan or cube in ``output``.
    progress
        Show a bar in terminals and notebooks; or a function, which is called with each
        :class:`clusterscale.study.Progress`.
    certificates
        What certificates state; None: the defaults of :class:`~clusterscale.CertifyPlan`.

    Returns
    -------
    xr.Dataset
        Variables over (target, period, prior, group_size, mechanism, attack), read lazily;
        conforms to :data:`clusterscale.schema.RESULTS`.

    Raises
    ------
    InputError
        If an argument has another type.
    ConfigError, PoolError
        If the plan does not fit the cube, or memory is too small.
    ExistsError
        If ``output`` holds another study and ``force`` is not set.

    Warns
    -----
    RuntimeWarning
        If tasks failed; ``status`` and ``error`` of the results name them, and the same call runs
        them again. If an attack did better than any adversary can under what a mechanism states.
    """
    check_kinds(plan=(plan, AuditPlan))
    analysis = AuditAnalysis(plan).after(CertifyAnalysis(Certification.of(plan, certificates)))
    results = run_analysis(analysis, cube, output, executor, memory, force, progress)
    if n_failed := count_failed(results):
        warnings.warn(
            f"{n_failed} tasks of the audit failed: see `status` and `error` of the results; the "
            "same call runs them again",
            RuntimeWarning,
            stacklevel=2,
        )
    _warn_if_exceeded(output)
    return results


def _warn_if_exceeded(output: str | Path) -> None:
    from clusterscale.reporting import open_run
    from clusterscale.reporting.brackets import read_brackets

    run, _ = open_run(str(output))
    exceeded = {case.mechanism for case in read_brackets(run) if case.bracket.is_violated}
    if exceeded:
        warnings.warn(
            f"an attack did better than any adversary can if {', '.join(sorted(exceeded))} does "
            "what it states: do not publish with it",
            RuntimeWarning,
            stacklevel=3,
        )


def screen(
    plan: AuditPlan,
    cube: TraceCube,
    output: str | Path,
    executor: Executor | Cluster | None = None,
    *,
    memory: int | None = None,
    force: bool = False,
    progress: bool | Tell = True,
    certificates: CertifyPlan | None = None,
) -> xr.Dataset:
    """Score every user of a cube under a plan's mechanisms, by attacks in closed form.

    For each user, each of ``plan.screen.groups`` groups is published in two worlds: with the user,
    and with another instead. No adversary is trained, and targets, priors and attacks of the plan
    are not used; the cost of a user depends only on their own events. Users without an event in a
    period are scored, but statistics leave them out unless ``targets.unseen`` is ``include``.

    Parameters
    ----------
    plan, cube, output, executor, memory, force, progress, certificates
        As for :func:`audit`; the screen is kept in ``screen/`` below ``output``.

    Returns
    -------
    xr.Dataset
        One row per user, read lazily; conforms to :data:`clusterscale.analyses.screening.SCREEN`.

    Raises
    ------
    InputError, ConfigError, PoolError, ExistsError
        As :func:`audit`; a mechanism that cannot be screened is a ConfigError.

    Warns
    -----
    RuntimeWarning
        If an attack did better than any adversary can under what a mechanism states.
    """
    check_kinds(plan=(plan, AuditPlan))
    ceilings = CertifyAnalysis(Certification.of(plan, certificates))
    analysis = ScreenAnalysis(plan.whole_screen).after(ceilings)
    results = run_analysis(analysis, cube, output, executor, memory, force, progress)
    _warn_if_exceeded(output)
    return results


def certify(
    plan: AuditPlan,
    cube: TraceCube,
    output: str | Path,
    executor: Executor | Cluster | None = None,
    *,
    how: CertifyPlan | None = None,
    memory: int | None = None,
    force: bool = False,
    progress: bool | Tell = True,
) -> xr.Dataset:
    """State the best that any adversary can do against each user, under a plan's mechanisms.

    The adversary knows everything but whether the user is inside. Targets, priors and attacks of
    the plan are not used.

    Parameters
    ----------
    plan, cube, output, executor, memory, force, progress
        As for :func:`audit`; the certificates are kept in ``certify/`` below ``output``.
    how
        What is stated; None: the defaults of :class:`~clusterscale.CertifyPlan`.

    Returns
    -------
    xr.Dataset
        One row per user, read lazily; conforms to ``CERTIFICATES``.

    Raises
    ------
    InputError, ConfigError, ExistsError
        As :func:`audit`.
    """
    check_kinds(plan=(plan, AuditPlan))
    analysis = CertifyAnalysis(Certification.of(plan, how))
    return run_analysis(analysis, cube, output, executor, memory, force, progress)


def traits(
    plan: AuditPlan,
    cube: TraceCube,
    output: str | Path,
    executor: Executor | Cluster | None = None,
    *,
    how: TraitsPlan | None = None,
    memory: int | None = None,
    force: bool = False,
    progress: bool | Tell = True,
) -> xr.Dataset:
    """Compare the users that a run found most and least exposed.

    Parameters
    ----------
    plan, cube, output
        Those of a finished audit or screen.
    executor, memory, force, progress
        As for :func:`audit`; the traits are kept in ``traits/`` below ``output``.
    how
        How users are compared; None: the defaults of :class:`~clusterscale.TraitsPlan`.

    Returns
    -------
    xr.Dataset
        Conforms to :data:`clusterscale.analyses.traits.TRAITS`; read lazily.

    Raises
    ------
    MissingError
        If neither an audit nor a screen has finished in ``output``.
    InputError, ConfigError, ExistsError
        As :func:`audit`.
    """
    check_kinds(plan=(plan, AuditPlan))
    return run_analysis(TraitsAnalysis(plan, how), cube, output, executor, memory, force, progress)


def recover(
    plan: RecoveryPlan,
    cube: TraceCube,
    output: str | Path,
    executor: Executor | Cluster | None = None,
    *,
    memory: int | None = None,
    force: bool = False,
    progress: bool | Tell = True,
) -> xr.Dataset:
    """Infer the locations of every user from published counts and prior knowledge.

    Parameters
    ----------
    plan, cube, output, executor, memory, force, progress
        As for :func:`audit`; the recovery is kept in ``recovery/`` below ``output``.

    Returns
    -------
    xr.Dataset
        Errors of the adversary, per user; conforms to ``RECOVERY``; read
        lazily.

    Raises
    ------
    InputError, ConfigError, ExistsError
        As :func:`audit`.
    """
    check_kinds(plan=(plan, RecoveryPlan))
    return run_analysis(RecoveryAnalysis(plan), cube, output, executor, memory, force, progress)


def analyse(
    plan: AnalysisPlan,
    cube: TraceCube,
    output: str | Path,
    executor: Executor | Cluster | None = None,
    *,
    memory: int | None = None,
    force: bool = False,
    progress: bool | Tell = True,
) -> xr.Dataset:
    """Run an analysis of another package, or resume an interrupted one.

    Parameters
    ----------
    plan, cube, output, executor, memory, force, progress
        As for :func:`audit`; the results are kept in a folder below ``output`` that has the name of
        the plan.

    Returns
    -------
    xr.Dataset
        The results of the analysis.

    Raises
    ------
    InputError, ConfigError, ExistsError
        As :func:`audit`.
    """
    check_kinds(plan=(plan, AnalysisPlan))
    return run_analysis(plan.analysis(), cube, output, executor, memory, force, progress)
