"""Evaluate a policy: a reason for each limit, with the measured value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from typing import Literal

from clusterscale.contracts import Level, Reason
from clusterscale.mechanisms import FLOAT_NOISE_REMEDY, FLOAT_NOISE_RISK
from clusterscale.metrics import Drift, UserLosses, compare_exposure, pool_exposure
from clusterscale.phrases import (
    BROKEN,
    CONSISTENT,
    NO_GUARANTEE,
    NOTHING_PROMISED,
    TOO_FEW_SAMPLES,
    privacy_unit,
)
from clusterscale.reauditing.known_part import KnownPart
from clusterscale.reauditing.ledger import Verdict
from clusterscale.reauditing.metric_types import Exposures, IntervalEstimate, ReleaseMetrics
from clusterscale.reauditing.policy import Limit, Policy, worst_of
from clusterscale.release.checks import CheckResult


def verdict_of(reasons: Sequence[Reason]) -> Level | Literal["error"]:
    """Return the verdict that follows from reasons.

    A check that could not be made does not count against a release.

    Parameters
    ----------
    reasons
        Of all checks of a release.

    Returns
    -------
    str
        The worst level, or ``error`` if a limit could not be applied.
    """
    if any(reason.level == "error" for reason in reasons):
        return "error"
    return worst_of(reason.level for reason in reasons if reason.level != "unknown")


def evaluate_policy(
    policy: Policy,
    metrics: ReleaseMetrics,
    published: IntervalEstimate,
    part: KnownPart | None = None,
) -> Iterator[Reason]:
    """Apply a policy to the results of an audit.

    Parameters
    ----------
    policy
        The limits.
    metrics
        Results of the audit for the mechanism of the release.
    published
        AUC of the attack on the published values.
    part
        What is known of the people; None: the traces of all are.

    Yields
    ------
    Reason
        One for each limit.
    """
    who = f"the {metrics.n_targets} targets" if metrics.n_targets > 1 else "the one target"
    yield _exposure_reason(policy, metrics)
    yield from _part_reasons(policy, part)
    mean = f"the mean privacy loss of {who} is {_text(metrics.mean_loss)}, by {metrics.attack}"
    if policy.mean_privacy_loss is not None:
        yield apply_limit("mean_privacy_loss", policy.mean_privacy_loss, metrics.mean_loss, mean)
    worst = IntervalEstimate.exact(metrics.worst_loss)
    if policy.worst_privacy_loss is not None:
        text = f"the largest privacy loss of {who} is {metrics.worst_loss:.2f}"
        reason = apply_limit("worst_privacy_loss", policy.worst_privacy_loss, worst, text)
        yield reason if part is None else _of_some(policy, reason)
    if policy.share_exposed is not None:
        kind = "simulated people" if part is not None and not part.n_known else "users"
        text = (
            f"{metrics.share_exposed.value:.1%} of {metrics.n_screened:,} {kind} have a privacy "
            f"loss above {metrics.exposed_above:g}"
        )
        yield apply_limit("share_exposed", policy.share_exposed, metrics.share_exposed, text)
    yield _guarantee_reason(policy, metrics)
    yield _float_noise_reason(policy, metrics)
    for name, limit in policy.utility.items():
        yield _utility_reason(name, limit, metrics)
    if policy.published_auc is not None:
        text = f"the AUC of the attack on the published values is {_text(published)}"
        yield apply_limit(
            "published_auc", policy.published_auc, published, text, ideal=0.5, one_sided=True
        )


def evaluate_findings(
    policy: Policy,
    findings: Sequence[CheckResult],
    undecided: Literal["unknown", "warn", "fail"] = "unknown",
) -> Iterator[Reason]:
    """Yield the reasons that follow from checks; the level of open ones is ``undecided``."""
    for finding in findings:
        level: Level = "pass" if finding.level == CONSISTENT else policy.level_of(finding.check)
        known = undecided if finding.level == "unknown" else level
        yield Reason(finding.check, known, finding.measured, finding.expected, finding.text)


@dataclass(frozen=True, slots=True)
class Change:
    """Change since the last releases: of exposure, None if there are none, and of utility."""

    drift: Drift | None = None
    utility: dict[str, float] = field(default_factory=dict)


def change_since(
    last: Sequence[tuple[Verdict, Exposures]],
    exposures: Exposures,
    metrics: ReleaseMetrics,
    *,
    limit: float,
) -> Change:
    """Compare a release with the last ones of its series.

    Exposure is compared user by user with the mean of those last releases with the same kind of
    users, all or targets only; utility is compared with the last release.

    Parameters
    ----------
    last
        Verdicts and exposures of the last releases, the newest last.
    exposures, metrics
        Exposures and metrics of this release.
    limit
        The privacy loss above which a user is exposed.
    """
    if not last:
        return Change()
    before = json.loads(last[-1][0].utility)
    utility = {
        key: measure.value - before[key]
        for key, measure in metrics.utility.items()
        if key in before
    }
    similar = [_losses(then) for _, then in last if then.everyone == exposures.everyone]
    if not similar:
        return Change(None, utility)
    drift = compare_exposure(pool_exposure(similar), _losses(exposures), limit=limit)
    return Change(drift, utility)


def _losses(exposures: Exposures) -> UserLosses:
    return UserLosses(exposures.users, exposures.loss, exposures.low, exposures.high)


def evaluate_change(policy: Policy, drift: Drift | None) -> Iterator[Reason]:
    """Yield the reasons that follow from the change since the last releases, if there are any."""
    if drift is None or not drift.n_common:
        return
    if policy.change is not None:
        change = IntervalEstimate(drift.change, drift.low, drift.high)
        text = f"privacy loss changed by {_text(change, '+')} since the last releases"
        yield apply_limit("change", policy.change, change, text, one_sided=True)
    if policy.newly_exposed is not None:
        share = IntervalEstimate.exact(drift.n_newly_exposed / drift.n_common)
        text = (
            f"{drift.n_newly_exposed:,} of {drift.n_common:,} users are newly exposed "
            f"({share.value:.1%})"
        )
        yield apply_limit("newly_exposed", policy.newly_exposed, share, text)


def apply_limit(
    check: str,
    limit: Limit,
    estimate: IntervalEstimate,
    text: str,
    *,
    ideal: float = 0.0,
    one_sided: bool = False,
) -> Reason:
    """Return the reason that follows from a limit.

    Parameters
    ----------
    check, limit, estimate
        Name of the limit in the policy, the limit, and what it limits; unknown is an error.
    text
        What was found, as a clause.
    ideal
        The best value.
    one_sided
        Whether values below the ideal are as good.
    """
    if not estimate.known:
        text = f"the policy limits {check}, but its value is missing"
        return Reason(check, "error", nan, nan, text)
    value, low, high = estimate.value, estimate.low, estimate.high
    low, high = (low if isfinite(low) else value), (high if isfinite(high) else value)
    if one_sided:
        value, low, high = (max(number, ideal) for number in (value, low, high))
    result = limit.evaluate(value, low, high, ideal=ideal)
    return Reason(check, result.level, estimate.value, result.limit, f"{text}: {result.text}")


def _exposure_reason(policy: Policy, metrics: ReleaseMetrics) -> Reason:
    """Return the reason that follows from the verdict on exposure."""
    finding = metrics.finding
    text = f"users are {finding.exposure}: {finding.reason}"
    if finding.exposure == "inconclusive":
        text = f"whether users are exposed is inconclusive: {finding.reason}"
    level = policy.level_of_exposure(finding.exposure)
    if level == "pass" and finding.exposure != "not seen to be exposed":
        text += "; the policy lets this pass"
    return Reason("exposure", level, finding.mean, nan, text)


def _part_reasons(policy: Policy, part: KnownPart | None) -> Iterator[Reason]:
    """Yield what is not known of the people, and what could not be done without it.

    Simulated people alone never make a release pass.
    """
    if part is None:
        return
    inconclusive = policy.exposure.inconclusive
    level = "unknown" if part.n_known and not part.doubt else inconclusive
    yield Reason("people", level, part.n_known, part.n_people, str(part))
    for text in part.left_out:
        yield Reason("left_out", inconclusive, nan, nan, text)


def _of_some(policy: Policy, reason: Reason) -> Reason:
    """Return a reason that cannot pass, because it limits the worst and some are simulated."""
    if reason.level != "pass":
        return reason
    text = f"{reason.text}; some people are simulated, and among real ones somebody may lose more"
    return replace(reason, level=policy.exposure.inconclusive, text=text)


def _guarantee_reason(policy: Policy, metrics: ReleaseMetrics) -> Reason:
    """Return the reason that follows from the test of the guarantee."""
    declared, observed = metrics.epsilon_declared, metrics.epsilon_seen
    why = f" ({metrics.guarantee_reason})" if metrics.guarantee_reason else ""
    text = f"ε {declared:g} is declared per {privacy_unit(metrics.unit)}{why}"
    if metrics.verdict == BROKEN:
        text += f", but at least {observed:.2f} was observed"
        return Reason("promise", policy.promise, observed, declared, text)
    if metrics.verdict == CONSISTENT:
        text += ", and no larger ε was observed"
        return Reason("promise", "pass", observed, declared, text)
    if metrics.verdict == TOO_FEW_SAMPLES:
        level: Level = "pass" if policy.promise == "pass" else "warn"
        return Reason("promise", level, observed, declared, f"{text}; too few trials to test it")
    if metrics.verdict == NOTHING_PROMISED:
        return Reason("promise", "pass", nan, nan, f"{NO_GUARANTEE} is declared")
    return Reason("promise", "error", nan, nan, "the test of the guarantee is missing")


def _float_noise_reason(policy: Policy, metrics: ReleaseMetrics) -> Reason:
    """Return the reason that follows from continuous noise that is published unrounded."""
    if metrics.float_noise == "yes":
        text = f"noise is published unrounded: {FLOAT_NOISE_RISK}; {FLOAT_NOISE_REMEDY}"
        return Reason("float_noise", policy.float_noise, nan, nan, text)
    if metrics.float_noise == "no":
        return Reason("float_noise", "pass", nan, nan, "no continuous noise is published unrounded")
    text = "the results do not say whether noise is published unrounded: run the audit again"
    return Reason("float_noise", policy.float_noise, nan, nan, text)


def _utility_reason(name: str, limit: Limit, metrics: ReleaseMetrics) -> Reason:
    """Return the reason that follows from one measure of utility, at its worst setting."""
    matches = [value for key, value in metrics.utility.items() if name in (key, value.name)]
    if not matches:
        return apply_limit(name, limit, IntervalEstimate(), "")
    worst = max(matches, key=lambda match: abs(match.value - match.ideal))
    text = f"{worst.label or name} is {worst.value:.3g}, where {worst.ideal:g} is best"
    return apply_limit(name, limit, IntervalEstimate.exact(worst.value), text, ideal=worst.ideal)


def _text(number: IntervalEstimate, sign: str = "") -> str:
    if not isfinite(number.low):
        return f"{number.value:{sign}.2f}"
    return f"{number.value:{sign}.2f} ({number.low:{sign}.2f} to {number.high:{sign}.2f})"
