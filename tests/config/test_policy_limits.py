"""The limits of a policy as limits of advice."""

import pytest

from clusterscale.analyses.advise import AdvicePlan
from clusterscale.config.policy_limits import limit_by_policy
from clusterscale.errors import ConfigError
from clusterscale.reauditing import Policy


def limited(policy, **plan):
    return limit_by_policy(
        AdvicePlan.model_validate(plan, strict=False), Policy.model_validate(policy, strict=False)
    )


def test_the_strictest_threshold_of_each_limit_is_taken():
    found = limited(
        {
            "mean_privacy_loss": {"warn": 0.2, "fail": 0.5},
            "worst_privacy_loss": 0.8,
            "share_exposed": {"warn": 0.1, "fail": 0.05},
            "exposed_above": 0.4,
            "certified_auc": {"fail": 0.9},
            "utility": {"hotspot_f1": {"warn": 0.6, "fail": 0.5}, "pearson": 0.7},
        }
    )
    limits = found.limits
    assert limits.attacked.mean_auc == pytest.approx(0.6)
    assert limits.attacked.worst_auc == pytest.approx(0.9)
    assert (limits.screened.loss, limits.screened.share) == (0.4, 0.05)
    assert limits.certified.auc == 0.9
    assert limits.guarantee is None
    goal = {aim.measure.name: aim for aim in found.goal}
    assert goal["hotspot_f1"].bound == 0.6, "closer to the ideal, which is 1"
    assert (goal["pearson"].bound, goal["pearson"].factor) == (0.7, 0.0)
    assert goal["hotspot_f1"].factor == 1.0, "a measure of the goal keeps its weight"
    assert AdvicePlan.model_validate(found.model_dump(), strict=False) == found


def test_a_measure_that_is_0_for_raw_counts_has_the_smallest_threshold():
    found = limited({"utility": {"mean_relative_error": {"warn": 0.2, "fail": 0.4}}})
    (bound,) = (a.bound for a in found.goal if a.measure.name == "mean_relative_error")
    assert bound == 0.2


def test_without_a_limit_on_loss_nobody_may_be_seen_to_be_exposed():
    assert limited({}).limits.attacked.model_dump() == {"mean_auc": 0.75, "worst_auc": 0.75}
    assert limited({"share_exposed": 0.1}).limits.attacked is None


@pytest.mark.parametrize(
    ("policy", "plan", "words"),
    [
        ({"certified_auc": 0.9}, {"limits": {"certified": {"auc": 0.8}}}, "limits.certified"),
        ({}, {"limits": {"attacked": {"mean_auc": 0.8}}}, "limits.attacked"),
        ({"share_exposed": 0.0}, {}, "share_exposed"),
        (
            {"utility": {"pearson": 0.5}},
            {"goal": [{"measure": {"name": "pearson"}, "bound": 0.6}]},
            "pearson has a bound",
        ),
    ],
)
def test_what_contradicts_is_refused(policy, plan, words):
    with pytest.raises(ConfigError, match=words):
        limited(policy, **plan)
