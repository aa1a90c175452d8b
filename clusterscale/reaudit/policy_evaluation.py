"""Why a release passes or not: each limit of a policy beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite, nan
from typing import Literal

from clusterscale.consistency import CheckResult
from clusterscale.contracts import Level, Reason
from clusterscale.mechanisms import FLOAT_NOISE_REMEDY, FLOAT_NOISE_RISK
from clusterscale.metrics import Drift
from clusterscale.reaudit.policy import Limit, Policy, worst_of
from clusterscale.reaudit.release_metrics import IntervalEstimate, ReleaseMetrics

__all__ = ["evaluate_policy", "judge_change", "judge_findings", "verdict_of"]

_UNITS = {"event": "an event", "user_day": "a day", "user": "a user", "roi_series": "a place"}


def verdict_of(reasons: Sequence[Reason]) -> Level | Literal["error"]:
    """Return the worst level of all reasons, ``error`` where a rule could not be applied.

    A check that could not be made is no reason against a release.
    """
    if any(reason.level == "error" for reason in reasons):
        return "error"
    return worst_of(reason.level for reason in reasons if reason.level != "unknown")


def evaluate_policy(
    policy: Policy, found: ReleaseMetrics, published: IntervalEstimate
) -> Iterator[Reason]:
    """Yield what a policy says of what an audit has measured.

    ``published`` is the AUC of the attack on the very values that were published.
    """
    who = f"the {found.n_targets} targets" if found.n_targets > 1 else "the one target"
    yield _exposed(policy, found)
    mean = f"the mean privacy loss of {who} is {_told(found.mean_loss)}, by {found.attack}"
    if policy.mean_privacy_loss is not None:
        yield _of("mean_privacy_loss", policy.mean_privacy_loss, found.mean_loss, mean)
    worst = IntervalEstimate.exact(found.worst_loss)
    if policy.worst_privacy_loss is not None:
        text = f"the largest privacy loss of {who} is {found.worst_loss:.2f}"
        yield _of("worst_privacy_loss", policy.worst_privacy_loss, worst, text)
    if policy.share_exposed is not None:
        text = (
            f"{found.share_exposed.value:.1%} of {found.n_screened:,} users have a privacy loss "
            f"above {found.exposed_above:g}"
        )
        yield _of("share_exposed", policy.share_exposed, found.share_exposed, text)
    yield _promised(policy, found)
    yield _rounded(policy, found)
    for name, limit in policy.utility.items():
        yield _useful(name, limit, found)
    if policy.published_auc is not None:
        text = f"the release itself tells members from others with an AUC of {_told(published)}"
        yield _of("published_auc", policy.published_auc, published, text, ideal=0.5, one_sided=True)


def judge_findings(policy: Policy, findings: Sequence[CheckResult]) -> Iterator[Reason]:
    """Yield what follows from what the checks of consistency found."""
    for each in findings:
        level: Level = "pass" if each.level == "consistent" else policy.level_of(each.check)
        told = "unknown" if each.level == "unknown" else level
        yield Reason(each.check, told, each.measured, each.expected, each.text)


def judge_change(policy: Policy, drift: Drift | None) -> Iterator[Reason]:
    """Yield what a policy says of the change since the last releases; None where there are none."""
    if drift is None or not drift.n_common:
        return
    if policy.change is not None:
        change = IntervalEstimate(drift.change, drift.low, drift.high)
        text = f"privacy loss changed by {_told(change, '+')} since the last releases"
        yield _of("change", policy.change, change, text, one_sided=True)
    if policy.newly_exposed is not None:
        share = IntervalEstimate.exact(drift.n_newly_exposed / drift.n_common)
        text = (
            f"{drift.n_newly_exposed:,} of {drift.n_common:,} users are newly exposed "
            f"({share.value:.1%})"
        )
        yield _of("newly_exposed", policy.newly_exposed, share, text)


def _of(
    check: str,
    limit: Limit,
    found: IntervalEstimate,
    text: str,
    *,
    ideal: float = 0.0,
    one_sided: bool = False,
) -> Reason:
    """Return the reason that a limit is; ``one_sided``: what is below the ideal is as good."""
    if not found.known:
        text = f"the policy limits {check}, but its value is missing"
        return Reason(check, "error", nan, nan, text)
    value, low, high = found.value, found.low, found.high
    low, high = (low if isfinite(low) else value), (high if isfinite(high) else value)
    if one_sided:
        value, low, high = (max(each, ideal) for each in (value, low, high))
    judged = limit.judge(value, low, high, ideal=ideal)
    return Reason(check, judged.level, found.value, judged.limit, f"{text}: {judged.text}")


def _exposed(policy: Policy, found: ReleaseMetrics) -> Reason:
    """Return what follows from the verdict on exposure."""
    finding = found.finding
    text = f"people are {finding.exposure}: {finding.reason}"
    if finding.exposure == "inconclusive":
        text = f"whether people are exposed is inconclusive: {finding.reason}"
    return Reason("exposure", policy.level_of_exposure(finding.exposure), finding.mean, nan, text)


def _promised(policy: Policy, found: ReleaseMetrics) -> Reason:
    """Return what trials say of a promise."""
    declared, seen = found.epsilon_declared, found.epsilon_seen
    unit = _UNITS.get(found.unit, found.unit)
    if found.verdict == "broken":
        text = f"ε {declared:g} is promised for {unit}, but {seen:.2f} is seen"
        return Reason("promise", policy.promise, seen, declared, text)
    if found.verdict == "consistent":
        text = f"ε {declared:g} is promised for {unit}, and no more is seen"
        return Reason("promise", "pass", seen, declared, text)
    if found.verdict == "too few samples":
        text = f"ε {declared:g} is promised for {unit}; too few trials to tell"
        level: Level = "pass" if policy.promise == "pass" else "warn"
        return Reason("promise", level, seen, declared, text)
    return Reason("promise", "pass", nan, nan, "nothing is promised")


def _rounded(policy: Policy, found: ReleaseMetrics) -> Reason:
    """Return whether continuous noise is published unrounded."""
    if found.float_noise == "yes":
        text = f"noise is published unrounded: {FLOAT_NOISE_RISK}; {FLOAT_NOISE_REMEDY}"
        return Reason("float_noise", policy.float_noise, nan, nan, text)
    if found.float_noise == "no":
        return Reason("float_noise", "pass", nan, nan, "no continuous noise is published unrounded")
    text = "the results do not say whether noise is published unrounded: run the audit again"
    return Reason("float_noise", policy.float_noise, nan, nan, text)


def _useful(name: str, limit: Limit, found: ReleaseMetrics) -> Reason:
    """Return what is left of the data by one measure, at its worst setting."""
    fitting = [each for key, each in found.utility.items() if name in (key, each.name)]
    if not fitting:
        return _of(name, limit, IntervalEstimate(), "")
    worst = max(fitting, key=lambda each: abs(each.value - each.ideal))
    text = f"{worst.label or name} is {worst.value:.3g}, where {worst.ideal:g} is best"
    return _of(name, limit, IntervalEstimate.exact(worst.value), text, ideal=worst.ideal)


def _told(found: IntervalEstimate, sign: str = "") -> str:
    if not isfinite(found.low):
        return f"{found.value:{sign}.2f}"
    return f"{found.value:{sign}.2f} ({found.low:{sign}.2f} to {found.high:{sign}.2f})"
