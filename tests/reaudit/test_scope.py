"""A verdict is about a release of one size, and says what was audited."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each

from clusterscale.reauditing import Policy
from clusterscale.reauditing.policy_evaluation import evaluate_scope

SIZES = st.integers(2, 2000)


def audited(sizes, share=1.0):
    dims = ("period", "group_size", "mechanism")
    return xr.Dataset(
        {"released_share": (dims, np.full((1, len(sizes), 1), share))},
        coords={
            "period": ["first week"],
            "group_size": list(sizes),
            "mechanism": ["threshold"],
            "prior": ["perfect"],
            "attack": ["projection", "likelihood"],
            "target": [4, 7],
        },
    )


def reasons(policy, audit, **stated):
    found = evaluate_scope(policy, audit, "threshold", stated)
    return {reason.check: reason for reason in found}


@given(
    st.lists(SIZES, min_size=1, max_size=4, unique=True), SIZES, st.sampled_from(["warn", "fail"])
)
def test_only_the_audited_size_passes(sizes, size, level):
    policy = Policy(exposure={"inconclusive": level})
    found = reasons(policy, audited(sizes), release=size)["group_size"]
    assert found.level == ("pass" if size in sizes else level)
    assert f"counts {size:,} people" in found.text


def test_a_gate_cannot_pass_without_the_size_of_the_release():
    found = reasons(Policy(), audited([100]))["group_size"]
    assert found.level == "warn"
    assert "`--group-size`" in found.text
    assert reasons(Policy(group_size=100), audited([100]))["group_size"].level == "pass"


def test_sizes_that_contradict_each_other_are_inconclusive():
    found = reasons(Policy(group_size=900), audited([100, 900]), release=100)["group_size"]
    assert found.level == "warn"
    assert found.text.endswith("100 people by release, 900 people by the policy")


@for_each(
    ("size", "level"),
    [(22000, "pass"), (22200, "pass"), (23000, "pass"), (20000, "warn"), (22150, "pass"),
     (22147, "warn")],
)  # fmt: skip
def test_a_number_that_is_rounded_is_that_of_the_audited_people(size, level):
    """A gate audits the number counted; the release and the policy state a rounded one."""
    policy = Policy(group_size=size)
    found = reasons(policy, audited([22157]), catalogue=22157, release=22000)["group_size"]
    assert found.level == level, found.text
    found = reasons(Policy(group_size=22157), audited([22000]), release=22000)["group_size"]
    assert found.level == "warn", "the number counted was not audited"


def test_a_table_of_which_rows_were_added_cannot_pass():
    changes = ("3 rows were added to others of one place and time",)
    found = evaluate_scope(Policy(), audited([100]), "threshold", {"release": 100}, changes)
    (reading,) = (reason for reason in found if reason.check == "reading")
    assert reading.level == "warn"
    assert reading.text == f"the audited table is not the published one: {changes[0]}"


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (1.0, "is not nearly empty"),
        (0.01, "is nearly empty"),
        (0.0, "is empty"),
        (np.nan, "may be nearly empty, which is not known"),
    ],
)
def test_the_scope_of_a_pass(share, words):
    found = reasons(Policy(), audited([100], share), release=100)["scope"]
    assert found.level == "pass"
    assert found.text == (
        "groups of 100; period first week; 2 targets; prior perfect; attacks projection, "
        f"likelihood; the release {words}"
    )
