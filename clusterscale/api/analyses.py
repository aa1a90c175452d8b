"""Analyses of a cube, each as a function that runs or resumes it."""

from pathlib import Path

from clusterscale.analyses.advise import Advice, AdvicePlan, AdviseAnalysis
from clusterscale.analyses.audit import AuditAnalysis, AuditPlan
from clusterscale.analyses.audit.plan import certification_of
from clusterscale.analyses.certify import CertifyAnalysis, CertifyPlan
from clusterscale.analyses.publish import PublishAnalysis, PublishPlan
from clusterscale.analyses.recovery import RecoveryAnalysis, RecoveryPlan
from clusterscale.analyses.screening import ScreenAnalysis
from clusterscale.analyses.traits import TraitsAnalysis, TraitsPlan
from clusterscale.api.execution import AnalysisFunction, analysis_function
from clusterscale.config.policy_limits import limit_by_policy
from clusterscale.config.reading import load_policy
from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError
from clusterscale.reauditing import Gate, Policy
from clusterscale.study import Analysis, AnalysisPlan
from clusterscale.validation_messages import check_kinds


@analysis_function
def audit(plan: AuditPlan, *, certificates: CertifyPlan | None = None) -> Analysis:
    """Run an audit, or resume an interrupted one.

    All users are certified first, as by :func:`certify`, in the same folder; the report compares
    what attacks measure with the ceilings. A plan with ``targets={"most_exposed": n}`` screens all
    users, too.

    Parameters
    ----------
    certificates
        What certificates state; None: the defaults of :class:`~clusterscale.CertifyPlan`.

    Returns
    -------
    xr.Dataset
        Variables over (target, period, prior, group_size, mechanism, attack), read lazily;
        conforms to :data:`clusterscale.schema.RESULTS`.

    Warns
    -----
    RuntimeWarning
        If tasks failed; ``status`` and ``error`` of the results name them, and the same call runs
        them again. If an attack did better than any adversary can under what a mechanism states.
    """
    return AuditAnalysis(plan).after(CertifyAnalysis(certification_of(plan, certificates)))


@analysis_function
def screen(plan: AuditPlan, *, certificates: CertifyPlan | None = None) -> Analysis:
    """Score every user of a cube under a plan's mechanisms, by attacks in closed form.

    For each user, each of ``plan.screen.groups`` groups is published in two worlds: with the user,
    and with another instead. No adversary is trained, and targets, priors and attacks of the plan
    are not used; the cost of a user depends only on their own events. Users without an event in a
    period are scored, but statistics leave them out unless ``targets.unseen`` is ``include``.

    Parameters
    ----------
    certificates
        What certificates state; None: the defaults of :class:`~clusterscale.CertifyPlan`.

    Returns
    -------
    xr.Dataset
        One row per user, read lazily; conforms to :data:`clusterscale.analyses.screening.SCREEN`.

    Warns
    -----
    RuntimeWarning
        If an attack did better than any adversary can under what a mechanism states.
    """
    ceilings = CertifyAnalysis(certification_of(plan, certificates))
    return ScreenAnalysis(plan.whole_screen).after(ceilings)


@analysis_function
def certify(plan: AuditPlan, *, how: CertifyPlan | None = None) -> Analysis:
    """State the best that any adversary can do against each user, under a plan's mechanisms.

    The adversary knows everything but whether the user is inside. Targets, priors and attacks of
    the plan are not used.

    Parameters
    ----------
    how
        What is stated; None: the defaults of :class:`~clusterscale.CertifyPlan`.

    Returns
    -------
    xr.Dataset
        One row per user, read lazily; conforms to
        :data:`clusterscale.analyses.certify.CERTIFICATES`.
    """
    return CertifyAnalysis(certification_of(plan, how))


@analysis_function
def traits(plan: AuditPlan, *, how: TraitsPlan | None = None) -> Analysis:
    """Compare the users that a run found most and least exposed (POMACS20 §3).

    ``plan``, ``cube`` and ``output`` are those of a finished audit or screen.

    Parameters
    ----------
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
    """
    return TraitsAnalysis(plan, how)


@analysis_function
def recover(plan: RecoveryPlan) -> Analysis:
    """Infer the locations of every user from published counts and prior knowledge.

    Returns
    -------
    xr.Dataset
        Errors of the adversary, per user; conforms to
        :data:`clusterscale.analyses.recovery.RECOVERY`; read lazily.
    """
    return RecoveryAnalysis(plan)


@analysis_function
def advise(
    plan: AuditPlan,
    *,
    wanted: AdvicePlan | None = None,
    policy: Policy | str | Path | None = None,
    confirm: TraceCube | None = None,
) -> Analysis:
    """Search for the mechanism that serves a goal within limits, and confirm it.

    Candidates are certified, screened, measured and, if they get so far, attacked as ``plan`` says;
    its mechanisms are candidates, too.

    Parameters
    ----------
    wanted
        Goal, limits, candidates and search; the defaults where None.
    policy
        A :class:`clusterscale.reauditing.Policy` or a YAML file of one, whose limits hold in
        addition.
    confirm
        The cube on which the advice is confirmed, such as the real one where ``cube`` is synthetic.
        None: ``cube``, with users that the search does not target.

    Returns
    -------
    xr.Dataset
        One row per candidate, read lazily; conforms to
        :data:`clusterscale.analyses.advise.ADVICE`. Its attributes ``verdict``, ``advised`` and
        ``yaml`` are the answer, and ``cause`` and ``notes``, a JSON list, say why.

    Raises
    ------
    ConfigError, PoolError
        If there are too few users for the targets, or ``wanted`` and ``policy`` limit the same.
    StudyError
        If attacks failed; the same call runs them again.
    """
    chosen = wanted or AdvicePlan()
    if policy is not None:
        rules = load_policy(policy) if isinstance(policy, str | Path) else policy
        check_kinds(policy=(rules, Policy))
        size = rules.group_size
        if size is not None and size not in plan.group_sizes:
            raise ConfigError(f"policy.group_size: {size}, but audit.group_sizes does not have it")
        chosen = limit_by_policy(chosen, rules)
    return AdviseAnalysis(Advice(chosen, plan), confirm)


@analysis_function
def publish(
    plan: PublishPlan, *, gate: Gate | None = None, without_guarantee: bool = False
) -> Analysis:
    """Make a release, and enter what it spends in the budget ledger of its series.

    Exact counts are in ``publication/`` below ``output`` until the release exists. The same call
    with the same folder publishes once.

    Parameters
    ----------
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
    RefusedError
        If the budget or the gate does not allow the release, or its difference from an earlier one
        of the series shows few people.
    ExistsError
        If the period is published already.
    PackageError
        If OpenDP is not installed.
    DamagedError, StoreError
        If the ledger is damaged, another process publishes in the series, or a store fails.
    """
    if without_guarantee:
        plan = plan.model_copy(update={"without_guarantee": True})
    return PublishAnalysis(plan, gate)


@analysis_function
def analyse(plan: AnalysisPlan) -> Analysis:
    """Run an analysis of another package, or resume an interrupted one.

    Returns
    -------
    xr.Dataset
        The results of the analysis.
    """
    return plan.analysis()


def function_of(kind: type[AnalysisPlan]) -> AnalysisFunction:
    """Return the function that runs the analysis of another package, given a plan of its class."""

    def make(plan: AnalysisPlan) -> Analysis:
        return plan.analysis()

    make.__name__ = str(kind.model_fields["name"].default)
    make.__doc__ = (kind.__doc__ or "").partition("\n\n")[0]
    make.__annotations__["plan"] = kind
    return analysis_function(make)
