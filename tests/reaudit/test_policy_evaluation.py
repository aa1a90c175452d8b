"""Why a release passes or not: levels, numbers and words."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from oracles.verdicts import FINDING, FOUND

from clusterscale.contracts import Reason
from clusterscale.metrics import Drift
from clusterscale.reauditing import Policy, json_safe
from clusterscale.reauditing.policy_evaluation import (
    evaluate_change,
    evaluate_findings,
    evaluate_policy,
    verdict_of,
)
from clusterscale.reauditing.release_metrics import IntervalEstimate, UtilityValue
from clusterscale.release.checks import CheckResult as Inconsistency
from clusterscale.reporting.findings import EXPOSURES

DRIFT = Drift(200, 0.125, 0.0625, 0.25, 0.01, 10, 3)


UNKNOWN = IntervalEstimate()


def judged(policy, found=FOUND, published=UNKNOWN):
    reasons = {each.check: each for each in evaluate_policy(policy, found, published)}
    json.dumps([json_safe(asdict(each)) for each in reasons.values()], allow_nan=False)
    return reasons


def test_what_is_not_limited_is_not_judged():
    assert list(judged(Policy())) == ["exposure", "promise", "float_noise"]
    assert list(evaluate_change(Policy(), DRIFT)) == []


@pytest.mark.parametrize(
    ("fail", "level", "words"),
    [
        (0.1, "fail", "above 0.1 (fail)"),
        (0.25, "warn", "the interval reaches above 0.25 (fail)"),
        (0.3, "warn", "the interval reaches above 0.3 (fail)"),
        (0.5, "pass", "fails above 0.5"),
    ],
)
def test_mean_loss(fail, level, words):
    reason = judged(Policy(mean_privacy_loss=fail))["mean_privacy_loss"]
    assert (reason.level, reason.measured, reason.limit) == (level, 0.25, fail)
    assert reason.text == (
        "the mean privacy loss of the 20 targets is 0.25 (0.12 to 0.50), by forest · known: "
        + words
    )


@pytest.mark.parametrize("exposure", EXPOSURES)
def test_exposure(exposure):
    found = replace(FOUND, finding=replace(FINDING, exposure=exposure))
    reason = judged(Policy(), found)["exposure"]
    assert (reason.level, reason.measured) == (Policy().level_of_exposure(exposure), 0.625)
    assert exposure in reason.text
    assert reason.text.endswith(": so it is")


def test_one_target_is_judged_by_what_it_loses():
    found = replace(FOUND, n_targets=1, mean_loss=IntervalEstimate(0.9))
    reason = judged(Policy(mean_privacy_loss=0.5), found)["mean_privacy_loss"]
    assert reason.level == "fail"
    assert reason.text.startswith("the mean privacy loss of the one target is 0.90, by")


@pytest.mark.parametrize(
    ("name", "measured", "words"),
    [
        (
            "worst_privacy_loss",
            0.75,
            "the largest privacy loss of the 20 targets is 0.75 (0.50 to 0.75)",
        ),
        ("share_exposed", 0.0625, "6.2% of 1,000 users have a privacy loss above 0.5"),
    ],
)
def test_single_numbers(name, measured, words):
    for fail, level in ((measured - 0.01, "fail"), (measured, "pass"), (measured + 0.01, "pass")):
        reason = judged(Policy(**{name: {"fail": fail, "warn": 0.001}}))[name]
        assert reason.level == (level if level == "fail" else "warn")
        assert reason.measured == measured
        limit = f"above {fail:g} (fail)" if level == "fail" else "above 0.001 (warn)"
        assert reason.text == f"{words}: {limit}"


def test_the_largest_loss_passes_no_limit_that_its_interval_exceeds():
    found = replace(FOUND, worst_loss=IntervalEstimate(0.5, 0.25, 0.8125))
    levels = {0.45: "fail", 0.75: "warn", 0.875: "pass"}
    for limit, level in levels.items():
        reason = judged(Policy(worst_privacy_loss=limit), found)["worst_privacy_loss"]
        assert (reason.level, reason.measured) == (level, 0.5)
        assert "is 0.50 (0.25 to 0.81): " in reason.text


DECLARED = "ε 1 is declared per user's day"


@pytest.mark.parametrize(
    ("verdict", "level", "words", "measured", "limit"),
    [
        ("consistent", "pass", f"{DECLARED}, and no larger ε was observed", 0.5, 1.0),
        ("broken", "warn", f"{DECLARED}, but at least 0.50 was observed", 0.5, 1.0),
        ("too few samples", "warn", f"{DECLARED}; too few trials to test it", 0.5, 1.0),
        ("nothing promised", "pass", "no guarantee is declared", np.nan, np.nan),
    ],
)
def test_promises(verdict, level, words, measured, limit):
    reason = judged(Policy(promise="warn"), replace(FOUND, verdict=verdict))["promise"]
    assert reason.level == level
    assert [json_safe(each) for each in (reason.measured, reason.limit)] == json_safe(
        [measured, limit]
    )
    assert reason.text.startswith(words)


def test_a_broken_promise_fails_unless_another_level_is_said():
    broken = replace(FOUND, verdict="broken")
    for level in ("pass", "warn", "fail"):
        assert judged(Policy(promise=level), broken)["promise"].level == level
    assert judged(Policy(), broken)["promise"].level == "fail"


def test_noise_for_less_than_one_unit_breaks_a_promise_that_no_test_refutes():
    reason = judged(Policy(), replace(FOUND, verdict="consistent", lacks_noise=True))["promise"]
    assert reason.level == "fail"
    assert "its noise is scaled to less than one unit changes" in reason.text


def test_nothing_promised_has_no_number():
    found = replace(
        FOUND, verdict="nothing promised", epsilon_seen=np.nan, epsilon_declared=np.inf, unit="none"
    )
    assert judged(Policy(), found)["promise"].text == "no guarantee is declared"


@pytest.mark.parametrize("level", ["pass", "warn", "fail"])
def test_unrounded_noise(level):
    """A warning unless another level is given, also where the results do not say."""
    reasons = {
        word: judged(Policy(float_noise=level), replace(FOUND, float_noise=word))["float_noise"]
        for word in ("yes", "no", "")
    }
    assert [each.level for each in reasons.values()] == [level, "pass", level]
    for words in ("low-order bits", "publish whole numbers: integers: round", "discrete: true"):
        assert words in reasons["yes"].text
    assert judged(Policy(), replace(FOUND, float_noise="yes"))["float_noise"].level == "warn"
    assert "run the audit again" in reasons[""].text


def test_utility():
    """Floors for what is good when large, ceilings for what is good when small."""
    policy = Policy(utility={"pearson": 0.7, "mean_relative_error": 0.4, "hotspot_f1": 0.5})
    reasons = judged(policy)
    assert reasons["pearson"].level == "pass"
    assert reasons["pearson"].text == "pearson is 0.75, where 1 is best: fails below 0.7"
    assert reasons["mean_relative_error"].level == "fail"
    assert reasons["mean_relative_error"].text.startswith("mean_relative_error(floor=1.0) is 0.5")
    assert reasons["hotspot_f1"].level == "error"
    assert reasons["hotspot_f1"].text == "the policy limits hotspot_f1, but its value is missing"
    assert isnan(reasons["hotspot_f1"].measured)
    assert judged(Policy(utility={"pearson": 0.8}))["pearson"].level == "fail"


def test_one_measure_twice_is_judged_where_it_is_worst():
    found = replace(
        FOUND, utility={str(x): UtilityValue(x, 1.0, "hotspot_f1") for x in (0.9, 0.25)}
    )
    reason = judged(Policy(utility={"hotspot_f1": 0.5}), found)["hotspot_f1"]
    assert (reason.level, reason.measured) == ("fail", 0.25)


@for_each(
    ("published", "level"),
    [
        (IntervalEstimate(0.75, 0.6, 0.9), "fail"),
        (IntervalEstimate(0.65, 0.55, 0.75), "warn"),
        (IntervalEstimate(0.55, 0.45, 0.6), "pass"),
        (IntervalEstimate(0.1, 0.0, 0.2), "pass"),
        (IntervalEstimate(0.9), "fail"),
    ],
)
def test_the_values_themselves(published, level):
    """Below ½ is a chance finding, and none against a release."""
    reason = judged(Policy(published_auc=0.7), published=published)["published_auc"]
    assert (reason.level, reason.limit) == (level, 0.7)
    assert json_safe(reason.measured) == json_safe(published.value)


def test_a_limited_value_that_is_missing_is_an_error():
    reason = judged(Policy(published_auc=0.7))["published_auc"]
    assert reason.level == "error"
    assert reason.text == "the policy limits published_auc, but its value is missing"


@for_each(
    ("drift", "level"),
    [
        (DRIFT, "fail"),
        (replace(DRIFT, low=0.01), "fail"),
        (replace(DRIFT, change=-0.5, low=-0.6, high=-0.4), "pass"),
        (replace(DRIFT, change=0.01, low=-0.02, high=0.04), "pass"),
        (replace(DRIFT, change=0.01, low=-0.02, high=0.06), "warn"),
        (replace(DRIFT, low=np.nan, high=np.nan), "fail"),
        (replace(DRIFT, change=np.nan, low=np.nan, high=np.nan), "error"),
    ],
)
def test_change(drift, level):
    (reason,) = evaluate_change(Policy(change=0.05), drift)
    assert reason.level == level
    if drift == DRIFT:
        assert reason.text.startswith("privacy loss changed by +0.12 (+0.06 to +0.25) since the la")


def test_newly_exposed():
    for fail, level in ((0.04, "fail"), (0.05, "pass")):
        (reason,) = evaluate_change(Policy(newly_exposed=fail), DRIFT)
        assert (reason.level, reason.measured) == (level, 0.05)
        assert reason.text.startswith("10 of 200 users are newly exposed (5.0%)")


def test_nothing_to_compare_with():
    policy = Policy(change=0.05, newly_exposed=0.01)
    assert list(evaluate_change(policy, None)) == []
    assert list(evaluate_change(policy, replace(DRIFT, n_common=0))) == []


def test_findings():
    levels = ("consistent", "unknown", "inconsistent")
    findings = [Inconsistency("totals", level, 3.0, np.nan, 9, "so it is") for level in levels]
    for said in ("pass", "warn", "fail"):
        policy = Policy(consistency=said)
        found = [each.level for each in evaluate_findings(policy, findings)]
        assert found == ["pass", "unknown", said]
    (first, *_) = evaluate_findings(Policy(), findings)
    assert (first.check, first.measured, first.text) == ("totals", 3, "so it is")
    assert isnan(first.limit)


@given(st.lists(st.sampled_from(["pass", "warn", "fail", "unknown", "error"])))
def test_the_verdict_is_that_of_the_worst(levels):
    reasons = [Reason("check", level, np.nan, np.nan, "text") for level in levels]
    worst_first = ("error", "fail", "warn", "pass")
    assert verdict_of(reasons) == next((it for it in worst_first if it in levels), "pass")
