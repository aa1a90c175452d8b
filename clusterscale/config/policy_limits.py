"""The limits of a policy as limits and bounds of advice."""

from typing import Any

from clusterscale.analyses.advise import AdvicePlan
from clusterscale.analyses.advise.goal import Aim, AttackedLimit, CertifiedLimit, ScreenedLimit
from clusterscale.errors import ConfigError
from clusterscale.metrics import EXPOSED_AUC
from clusterscale.reauditing import Limit, Policy
from clusterscale.utility import UTILITIES


def limit_by_policy(plan: AdvicePlan, policy: Policy) -> AdvicePlan:
    """Return the settings of advice that a policy would let pass.

    A mechanism has to keep all thresholds, those of warnings too. Without a limit on privacy loss,
    the verdict *not seen to be exposed* is needed. Thresholds for published values, for changes
    since earlier releases and for checks need a release, and are left to ``gate`` and ``reaudit``.

    Parameters
    ----------
    plan
        Goal, candidates and search, without the limits that the policy has.
    policy
        The limits.

    Returns
    -------
    AdvicePlan
        With the limits of the policy, and with bounds on the measures that it limits.

    Raises
    ------
    ConfigError
        If both set the same limit, or a limit of the policy cannot be shown to hold.
    """
    limits: dict[str, Any] = {"attacked": _attacked(policy)}
    if policy.certified_auc is not None:
        auc = _strictest(policy.certified_auc, 0.5)
        limits["certified"] = CertifiedLimit(auc=min(1.0, auc))
    if policy.share_exposed is not None:
        share = _strictest(policy.share_exposed, 0.0)
        if share <= 0:
            raise ConfigError(
                "policy.share_exposed: 0 users cannot be shown by a screen; give a share above 0"
            )
        if share < 1:
            limits["screened"] = ScreenedLimit(loss=policy.exposed_above, share=share)
    for name, limit in limits.items():
        if limit is not None and getattr(plan.limits, name) is not None:
            raise ConfigError(f"limits.{name}: the policy limits the same; leave one of them out")
    known = {name: limit for name, limit in limits.items() if limit is not None}
    return plan.model_copy(
        update={"limits": plan.limits.model_copy(update=known), "goal": _goal(plan.goal, policy)}
    )


def _attacked(policy: Policy) -> AttackedLimit | None:
    mean, worst = policy.mean_privacy_loss, policy.worst_privacy_loss
    if mean is None and worst is None and policy.share_exposed is None:
        return AttackedLimit(mean_auc=EXPOSED_AUC, worst_auc=EXPOSED_AUC)
    if mean is None and worst is None:
        return None
    return AttackedLimit(
        mean_auc=None if mean is None else _auc(_strictest(mean, 0.0)),
        worst_auc=None if worst is None else _auc(_strictest(worst, 0.0)),
    )


def _auc(loss: float) -> float:
    """Return the AUC of a privacy loss, 2 AUC − 1."""
    return 0.5 + min(max(loss, 0.0), 1.0) / 2


def _strictest(limit: Limit, ideal: float) -> float:
    """Return the threshold that is closest to the ideal."""
    given = [value for value in (limit.warn, limit.fail) if value is not None]
    return min(given, key=lambda value: abs(value - ideal))


def _goal(goal: tuple[Aim, ...], policy: Policy) -> tuple[Aim, ...]:
    """Return the goal with a bound on each measure that the policy limits."""
    found = list(goal)
    for name, limit in policy.utility.items():
        places = [i for i, aim in enumerate(found) if aim.measure.name == name]
        if any(found[i].bound is not None for i in places):
            raise ConfigError(
                f"goal: {name} has a bound, and the policy limits it, too; leave one of them out"
            )
        if not places:
            places = [len(found)]
            found.append(Aim(measure=UTILITIES.create(name), weight=0.0))
        for i in places:
            aim = found[i]
            bound = _strictest(limit, aim.measure.ideal)
            found[i] = aim.model_copy(update={"bound": bound, "weight": aim.factor})
    return tuple(found)
