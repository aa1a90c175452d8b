"""What is allowed: levels by brute force, and names that are not known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each

from clusterscale.contracts import VERDICT_LEVELS
from clusterscale.errors import ConfigError
from clusterscale.reauditing import Limit, Policy
from clusterscale.reauditing.policy import worst_of
from clusterscale.release.checks import CHECKS
from clusterscale.reporting.findings import EXPOSURES
from clusterscale.utility import UTILITIES

SIXTEENTHS = st.integers(-32, 32).map(lambda i: i / 16)
MAYBE = st.none() | SIXTEENTHS


@given(SIXTEENTHS, SIXTEENTHS, SIXTEENTHS, MAYBE, MAYBE, st.sampled_from([0.0, 0.5, 1.0]))
def test_a_level_is_that_of_the_estimate_and_then_of_its_interval(
    value, low, high, warn, fail, ideal
):
    """The estimate beyond the limit: fail; any value of the interval: warn. Sixteenths are exact.

    So only a whole interval within every limit passes.
    """
    low, value, high = sorted((low, value, high))
    if warn is None and fail is None:
        return
    inside = np.arange(low * 64, high * 64 + 1) / 64
    expected = "pass"
    for limit in (warn, fail):
        if limit is not None and (abs(inside - ideal) > abs(limit - ideal)).any():
            expected = "warn"
    if fail is not None and abs(value - ideal) > abs(fail - ideal):
        expected = "fail"
    judged = Limit(warn=warn, fail=fail).evaluate(value, low, high, ideal=ideal)
    assert judged.level == expected
    assert judged.limit in (warn, fail)


@given(SIXTEENTHS, MAYBE, MAYBE)
def test_a_number_that_is_known_fails_or_not(value, warn, fail):
    if warn is None and fail is None:
        return
    level = Limit(warn=warn, fail=fail).evaluate(value, value, value).level
    assert (level == "fail") == (fail is not None and abs(value) > abs(fail))


@for_each(
    ("value", "low", "high", "ideal", "judged"),
    [
        (0.6, 0.2, 0.7, 0.0, ("fail", 0.5, "above 0.5 (fail)")),
        (0.4, 0.2, 0.6, 0.0, ("warn", 0.3, "above 0.3 (warn)")),
        (0.2, 0.1, 0.6, 0.0, ("warn", 0.5, "the interval reaches above 0.5 (fail)")),
        (0.2, 0.1, 0.4, 0.0, ("warn", 0.3, "the interval reaches above 0.3 (warn)")),
        (0.2, 0.1, 0.3, 0.0, ("pass", 0.3, "fails above 0.5, warns above 0.3")),
        (0.2, 0.2, 0.2, 1.0, ("fail", 0.5, "below 0.5 (fail)")),
    ],
)
def test_the_limit_that_was_crossed_is_named(value, low, high, ideal, judged):
    assert Limit(fail=0.5, warn=0.3).evaluate(value, low, high, ideal=ideal) == judged


@pytest.mark.parametrize("exposure", EXPOSURES)
def test_the_level_of_a_verdict_on_exposure(exposure):
    ours = {"exposed": "fail", "partly exposed": "warn", "inconclusive": "warn"}
    assert Policy().level_of_exposure(exposure) == ours.get(exposure, "pass")
    limited = Policy(mean_privacy_loss=0.9)
    assert limited.level_of_exposure(exposure) == ("warn" if exposure == "inconclusive" else "pass")
    strict = {"exposed": "fail", "partly_exposed": "fail", "inconclusive": "fail"}
    level = Policy(exposure=strict, share_exposed=0.1).level_of_exposure(exposure)
    assert level == ("pass" if exposure == EXPOSURES[-1] else "fail")


def test_an_inconclusive_verdict_never_passes():
    with pytest.raises(ConfigError):
        Policy(exposure={"inconclusive": "pass"})


def test_a_number_alone_is_where_it_fails():
    policy = Policy(
        mean_privacy_loss=0.2, worst_privacy_loss=1, utility={"pearson": 0.9}, change={"warn": 0.1}
    )
    assert policy.mean_privacy_loss == Limit(fail=0.2)
    assert policy.worst_privacy_loss == Limit(fail=1.0)
    assert policy.utility == {"pearson": Limit(fail=0.9)}
    assert policy.change == Limit(warn=0.1)


@for_each("wrong", [{}, True, "0.2", [0.1], float("nan"), float("inf"), {"file": 1}])
def test_what_is_no_limit(wrong):
    with pytest.raises(ConfigError):
        Policy(mean_privacy_loss=wrong)


@for_each(
    "wrong",
    [
        {"certified_auc": 0.1}, {"published_auc": {"warn": 0.4}}, {"mean_privacy_loss": -0.1},
        {"worst_privacy_loss": 1.1}, {"share_exposed": 25}, {"change": -0.1}, {"newly_exposed": 2},
    ],
)  # fmt: skip
def test_limits_beyond_all_values_would_pass_everything(wrong):
    with pytest.raises(ConfigError, match=rf"{next(iter(wrong))} is .*: give a number from 0"):
        Policy(**wrong)


@pytest.mark.parametrize(
    ("wrong", "told", "known"),
    [
        ({"utility": {"pearsn": 0.9}}, "utility.pearsn is not known: choose from", UTILITIES),
        ({"consistency": {"totls": "warn"}}, "consistency.totls is not known: choose from", CHECKS),
    ],
)
def test_names_that_are_not_known(wrong, told, known):
    with pytest.raises(ConfigError) as caught:
        Policy(**wrong)
    assert told in str(caught.value)
    assert all(name in str(caught.value) for name in known)


@for_each(
    "wrong",
    [
        {"promise": "bad"}, {"consistency": "bad"}, {"last": 0}, {"exposed_above": 1.5},
        {"consistency": {next(iter(CHECKS)): "bad"}}, {"unknown": 1},
    ],
)  # fmt: skip
def test_fields_that_are_wrong(wrong):
    with pytest.raises(ConfigError):
        Policy(**wrong)


def test_levels_of_checks():
    one, *_, last = CHECKS
    assert Policy().level_of(one) == "fail"
    assert Policy(consistency="warn").level_of(one) == "warn"
    mixed = Policy(consistency={one: "pass"})
    assert (mixed.level_of(one), mixed.level_of(last)) == ("pass", "fail")


@given(st.lists(st.sampled_from(VERDICT_LEVELS)))
def test_the_worst_counts(levels):
    expected = next((each for each in ("fail", "warn", "pass") if each in levels), "pass")
    assert worst_of(iter(levels)) == expected


def test_another_policy_has_another_digest():
    some = [Policy(), Policy(last=3), Policy(promise="warn"), Policy(mean_privacy_loss=0.2)]
    some.append(Policy(mean_privacy_loss={"warn": 0.2}))
    assert len({each.digest for each in some}) == len(some)
    assert Policy(mean_privacy_loss=0.2).digest == Policy(mean_privacy_loss={"fail": 0.2}).digest
