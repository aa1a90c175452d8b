"""Evaluate a policy: a reason for each limit, certificate and statement of scope."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from operator import attrgetter
from typing import Any, Literal

import numpy as np
import xarray as xr

from clusterscale import phrases
from clusterscale.analyses.certify.comparison import ERROR_RATE
from clusterscale.analyses.certify.plan import ROWS_OF_RECORDS
from clusterscale.contracts import Level, Reason
from clusterscale.mechanisms import FLOAT_NOISE_REMEDY, FLOAT_NOISE_RISK
from clusterscale.metrics import Drift, UserLosses, compare_exposure, pool_exposure
from clusterscale.phrases import at_most
from clusterscale.reauditing.known_part import KnownPart
from clusterscale.reauditing.policy import Limit, Policy, worst_of
from clusterscale.reauditing.release_metrics import (
    Exposures,
    IntervalEstimate,
    ReleaseMetrics,
    exposures_of,
    measure,
)
from clusterscale.release.checks import CheckResult
from clusterscale.release.verdict import Verdict
from clusterscale.reporting import coverage
from clusterscale.reporting.certificates import covers_audit, read_brackets
from clusterscale.reporting.findings import find_emptiness
from clusterscale.reporting.run import Run
from clusterscale.reporting.section import count_unseen


def verdict_of(reasons: Sequence[Reason]) -> Level | Literal["error"]:
    """Return the worst level of reasons, or ``error`` if a limit could not be applied.

    A check that could not be made does not count against a release.
    """
    if any(reason.level == "error" for reason in reasons):
        return "error"
    return worst_of(reason.level for reason in reasons if reason.level != "unknown")


def mark_unknown(reasons: Sequence[Reason]) -> list[Reason]:
    """Return reasons of which those that are unknown say that no limit of the policy needs them."""
    mark = "; no limit of the policy needs it"
    return [
        replace(
            one,
            text=one.text + mark if one.level == "unknown" and one.check != "people" else one.text,
        )
        for one in reasons
    ]


def evaluate_audit(
    policy: Policy,
    run: Run,
    mechanism: str,
    part: KnownPart | None,
    stated: Mapping[str, int | None],
    changes: Sequence[str] = (),
    notes: Sequence[str] = (),
    published: IntervalEstimate | None = None,
    release: coverage.ReleaseScope | None = None,
) -> tuple[Exposures, ReleaseMetrics, list[Reason]]:
    """Return exposures and metrics of a mechanism in a run with an audit, and the reasons for both.

    The parameters are those of :func:`evaluate_policy` and :func:`evaluate_scope`.
    """
    assert run.audit is not None
    run, left_out = coverage.leave_out_others(run)
    notes = (*notes, *left_out)
    assert run.audit is not None
    exposures = exposures_of(run.audit, run.screen, mechanism).known(part)
    metrics = measure(run.audit, exposures, mechanism, exposed_above=policy.exposed_above)
    reasons = [
        *evaluate_policy(policy, metrics, published or IntervalEstimate(), part),
        *evaluate_scope(policy, run.audit, mechanism, stated, changes, notes, release),
        *evaluate_ceilings(policy, run, mechanism, part),
    ]
    return exposures, metrics, reasons


def evaluate_policy(
    policy: Policy,
    metrics: ReleaseMetrics,
    published: IntervalEstimate,
    part: KnownPart | None = None,
) -> Iterator[Reason]:
    """Yield a reason for each limit of a policy on the results of an audit.

    ``published`` is the AUC of the attack on the published values; ``part`` what is known of the
    people, None if the traces of all are.
    """
    who = f"the {metrics.n_targets} targets" if metrics.n_targets > 1 else "the one target"
    yield _exposure_reason(policy, metrics)
    yield from _part_reasons(policy, part)
    mean = f"the mean privacy loss of {who} is {_text(metrics.mean_loss)}, by {metrics.attack}"
    if policy.mean_privacy_loss is not None:
        yield apply_limit("mean_privacy_loss", policy.mean_privacy_loss, metrics.mean_loss, mean)
    if policy.worst_privacy_loss is not None:
        text = f"the largest privacy loss of {who} is {_text(metrics.worst_loss)}"
        limit = policy.worst_privacy_loss
        reason = apply_limit("worst_privacy_loss", limit, metrics.worst_loss, text)
        yield reason if part is None else _of_some(policy, reason)
    if policy.share_exposed is not None:
        kind = "simulated people" if part is not None and not part.n_known else "users"
        text = (
            f"{metrics.share_exposed.value:.1%} of {metrics.n_screened:,} {kind} have a privacy "
            f"loss above {metrics.exposed_above:g}"
        )
        yield apply_limit("share_exposed", policy.share_exposed, metrics.share_exposed, text)
    simulated = part is not None  # people about whom nothing is promised
    yield _guarantee_reason(policy, replace(metrics, lacks_noise=False) if simulated else metrics)
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
        level: Level = (
            "pass" if finding.level == phrases.CONSISTENT else policy.level_of(finding.check)
        )
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
    """Compare a release with the last ones of its series, the newest last.

    Exposure is compared user by user with the mean of those last releases with the same kind of
    users, all or targets only; a user is exposed above the privacy loss ``limit``. Utility is
    compared with the last release.
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
    """Return the reason that follows from a limit; an unknown estimate is an error.

    ``text`` says what was found, as a clause; with ``one_sided``, values below the ``ideal`` are as
    good.
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
    if level == "pass" and finding.exposure != phrases.NOT_SEEN:
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
    text = f"ε {declared:g} is declared per {phrases.privacy_unit(metrics.unit)}{why}"
    if metrics.verdict == phrases.BROKEN or metrics.lacks_noise:
        small = "its noise is scaled to less than one unit changes in these traces"
        broken = metrics.verdict == phrases.BROKEN
        text += f", but at least {observed:.2f} was observed" if broken else f", but {small}"
        return Reason("promise", policy.promise, observed, declared, text)
    if metrics.verdict == phrases.CONSISTENT:
        text += ", and no larger ε was observed"
        return Reason("promise", "pass", observed, declared, text)
    if metrics.verdict == phrases.TOO_FEW_SAMPLES:
        level: Level = "pass" if policy.promise == "pass" else "warn"
        return Reason("promise", level, observed, declared, f"{text}; too few trials to test it")
    if metrics.verdict == phrases.NOTHING_PROMISED:
        return Reason("promise", "pass", nan, nan, f"{phrases.NO_GUARANTEE} is declared")
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


_HELD = "if the number of people counted is fixed"


def evaluate_ceilings(
    policy: Policy, run: Run, mechanism: str, part: KnownPart | None = None
) -> Iterator[Reason]:
    """Yield the reasons that follow from the certificates of a run for a mechanism.

    ``ceiling``: whether every measured AUC may be below the ceiling of the person. It fails
    otherwise: the mechanism adds less noise than it states, or this software is wrong.
    ``certified_auc``: that limit of the policy, if there is one. Certificates about simulated
    people never pass, nor do those of some people, unless the policy states that no others are
    counted and all groups have as many.
    """
    cases = [case for case in read_brackets(run) if case.mechanism == mechanism]
    if not cases:
        text = "measured exposure is not compared with ceilings: there are no certificates"
        yield Reason("ceiling", "unknown", nan, nan, text)
    else:
        case = max(cases, key=attrgetter("bracket.is_violated", "bracket.low", "bracket.certified"))
        one = case.bracket
        simulated = part is not None and not part.n_known
        level: Level | Literal["unknown"] = "unknown" if simulated else "pass"
        level = "fail" if one.is_violated else level
        person = "simulated person" if simulated else "person"
        text = (
            f"attacks reach an AUC of at least {one.low:.3f} against one {person} of {case.period} "
            f"(an error of at most {ERROR_RATE:g}), against whom no adversary exceeds "
            f"{at_most(one.certified)} where another takes the {person}'s place, {_HELD}"
        )
        if one.is_violated:
            text = (
                "attacks did better than any adversary can if the mechanism does what it states; "
                f"by chance this has a probability of at most {one.smallest_p:.1g}"
            )
        yield Reason("ceiling", level, one.low, one.certified, text)
    if policy.certified_auc is not None:
        worst = _worst(run, mechanism, part)
        text = (
            f"no adversary tells with an AUC above {at_most(worst)} whether a user was added, "
            f"{_HELD}"
        )
        limit, estimate = policy.certified_auc, IntervalEstimate.exact(worst)
        reason = apply_limit("certified_auc", limit, estimate, text, ideal=0.5, one_sided=True)
        unknown = []
        all_known = part is None or (policy.counts_everyone and _has_all(run, part))
        if not all_known and reason.level == "pass":
            unknown.append(f"but it is not known how many counts other people change: {part}")
        if run.certify is not None and run.certify.attrs.get("rows") != "public":
            unknown.append(ROWS_OF_RECORDS)
        reason = replace(reason, text="; ".join([reason.text, *unknown]))
        if unknown and reason.level == "pass":
            reason = replace(reason, level=policy.exposure.inconclusive)
        yield reason


def _worst(run: Run, mechanism: str, part: KnownPart | None) -> float:
    """Return the largest ceiling of adding a known user; NaN unless all periods have one."""
    made = run.certify
    if made is None or not covers_audit(run) or mechanism not in made["mechanism"].values:
        return nan
    known = slice(None) if part is None or not part.n_known else slice(part.n_known)
    ceilings = made["auc"].isel(user=known).sel(neighbours="add_remove", mechanism=mechanism).values
    return float(ceilings.max()) if np.isfinite(ceilings).all() else nan


def _has_all(run: Run, part: KnownPart) -> bool:
    """Return whether all groups have as many people as are known."""
    sizes = () if run.certify is None else run.certify["group_size"].values.tolist()
    return bool(sizes) and all(coverage.is_rounded(size, part.n_known) for size in sizes)


def known_part(run: Run) -> KnownPart | None:
    """Return what is known of the people of an audit; None if nobody is simulated among them.

    Of the people of a re-audit it is not recorded who is simulated: nobody counts as known.
    """
    about = {} if run.audit is None else json.loads(run.audit.attrs.get("cube", "{}"))
    if not {"n_known", "known_fingerprint"} & about.keys():
        return None
    return KnownPart(about.get("n_known", 0), about["n_users"], basis="the counts of these")


def of_size(run: Run, group_size: int | None) -> Run:
    """Return the results for groups of one size; all of them if the audit has none of that size."""
    if run.audit is None or group_size not in run.audit["group_size"].values:
        return run
    sized: Any = {
        kind: data.sel(group_size=[group_size])
        for kind, data in run.parts()
        if kind in ("audit", "screen", "certify") and group_size in data["group_size"].values
    }
    return replace(run, **sized)


def evaluate_scope(
    policy: Policy,
    audit: xr.Dataset,
    mechanism: str,
    stated: Mapping[str, int | None],
    changes: Sequence[str] = (),
    notes: Sequence[str] = (),
    release: coverage.ReleaseScope | None = None,
) -> Iterator[Reason]:
    """Yield whether an audit is of that release, and what was audited.

    ``stated`` is how many people the ``release`` counts, by who says so; None: not said. The
    release is None if it is not named. ``changes`` are clauses on what reading it has added up or
    merged, ``notes`` on how else it was read.
    Reasons: ``group_size`` and ``coverage``, as
    :func:`~clusterscale.reporting.coverage.state_coverage` finds them; ``reading``, if the audited
    table is not the published one, and for notes; ``scope``, with sizes of groups, periods,
    targets, priors and attacks, and whether the release is nearly empty.
    """
    sizes = audit["group_size"].values
    said = {**stated, "the policy": policy.group_size}
    size, *others = coverage.state_coverage(audit, release, said)
    only = float(sizes[0]) if len(sizes) == 1 else nan
    level = "pass" if size.level == "covered" else policy.exposure.inconclusive
    yield Reason("group_size", level, only, size.number, size.text)
    yield _coverage_reason(policy, others)
    for change in changes:
        text = f"the audited table is not the published one: {change}"
        yield Reason("reading", policy.exposure.inconclusive, nan, nan, text)
    for note in notes:
        yield Reason("reading", "pass", nan, nan, note)
    yield Reason("scope", "pass", nan, nan, _scope(audit, mechanism))


def _coverage_reason(policy: Policy, aspects: Sequence[coverage.Aspect]) -> Reason:
    """Return the reason that follows from what an audit covers of a release."""
    missing = [one for one in aspects if one.level != "covered"]
    if not missing:
        text = "data, days, people and mechanism of the release are those of the audit"
        return Reason("coverage", "pass", nan, nan, text)
    known = [one for one in missing if one.level == "not covered"]
    if not known:
        return Reason("coverage", "unknown", nan, nan, missing[0].text)
    text = "; ".join(f"its {one.name}: {one.text}" for one in known)
    text = f"the audit is not of this release: {text}"
    return Reason("coverage", policy.exposure.inconclusive, nan, nan, text)


def _scope(audit: xr.Dataset, mechanism: str) -> str:
    """Return what was audited, as a clause."""
    words = find_emptiness(audit, mechanism)
    empty = {"": "is not nearly empty", "unknown": "may be nearly empty, which is not known"}
    labels = (", ".join(map(str, audit[dim].values)) for dim in ("period", "prior", "attack"))
    period, prior, attack = labels
    n, n_unseen = audit.sizes["target"], count_unseen(audit)
    unseen = f", {n_unseen} of them without an event, who are no evidence" if n_unseen else ""
    return (
        f"groups of {_sizes(audit['group_size'].values)}; period {period}; "
        f"{n} target{'s' if n > 1 else ''}{unseen}; prior {prior}; attacks {attack}; "
        f"the release {empty.get(words, f'is {words}')}"
    )


def _sizes(sizes: object) -> str:
    return ", ".join(f"{int(size):,}" for size in sizes)  # type: ignore[attr-defined]
