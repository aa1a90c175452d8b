"""Membership lists: groups are those of the plan, and nothing else about an audit changes."""

from __future__ import annotations

import numpy as np
import pytest
from running import run
from scipy.stats import chi2

from clusterscale.analyses.audit import AuditPlan
from clusterscale.contracts import GroupRequest
from clusterscale.errors import ConfigError, PoolError
from clusterscale.groups import check_lists
from clusterscale.groups.draw import ListedCandidates, Pool
from clusterscale.priors import create
from clusterscale.runtime import SerialExecutor
from clusterscale.seeds import stream

EVERYONE, TARGET = np.arange(30), 4
LISTS = ((4, 5, 6), (10, 11, 12), (20, 21, 22, 23, 24, 25))
PRIORS = [
    {"name": "known_subset", "alpha": 0.5, "training": 16, "challenges": 40},
    {"name": "perfect", "groups": 40},
    {"name": "same_groups", "beta": 40},
    {"name": "different_groups", "beta": 40},
    {"name": "zero_knowledge", "reference": 40, "training": 16, "challenges": 40},
]


def names(lists):
    return [[f"u{i:03d}" for i in each] for each in lists]


def plan_of(fields, **changed):
    lists = [list(range(0, 20)), list(range(20, 40)), list(range(40, 60))]
    return AuditPlan(**{**fields, "groups": names(lists), **changed})


def test_lists_are_equally_likely_and_every_choice_from_one_of_them():
    """Five standard errors, and a test that fails once in 10,000 seeds."""
    pool, rng = ListedCandidates(EVERYONE, TARGET, LISTS, 3), stream(0, "choices")
    found = {}
    for _ in range(6_000):
        choice = pool.choose(3, rng)
        assert TARGET not in choice.users
        members, mates = set(choice.users.tolist()), set(LISTS[choice.list_index]) - {TARGET}
        assert len(members) == 3
        assert len(members & mates) == min(3, len(mates))
        found.setdefault(choice.list_index, {}).setdefault(tuple(sorted(members)), 0)
        found[choice.list_index][tuple(sorted(members))] += 1
    totals = [sum(found[i].values()) for i in range(3)]
    assert np.abs(np.array(totals) - 2_000).max() < 5 * (6_000 * 2 / 9) ** 0.5
    assert list(found[1]) == [(10, 11, 12)]
    assert len(found[0]) == len(EVERYONE) - 3  # the two others of the list, and anybody else
    expected = totals[2] / 20
    excess = sum((n - expected) ** 2 / expected for n in found[2].values())
    assert excess < chi2.ppf(0.9999, 19)


def test_the_target_s_substitute_is_of_the_same_list_if_anybody_is_left():
    pool, rng = ListedCandidates(EVERYONE, TARGET, LISTS, 3), stream(1, "choices")
    n_ranks = len(EVERYONE) - 3
    for _ in range(60):
        choice = pool.choose(2, rng)
        found = {pool.outsider(choice, rank) for rank in range(n_ranks)}
        left = set(LISTS[choice.list_index]) - {TARGET, *choice.users.tolist()}
        everybody = set(EVERYONE.tolist()) - {TARGET, *choice.users.tolist()}
        assert found == (left or everybody)


@pytest.mark.parametrize("fields", PRIORS, ids=lambda fields: fields["name"])
def test_released_groups_of_every_prior_are_of_one_list(cube, fields, monkeypatch):
    members, draw = [], Pool.slices

    def watched(pool, *args, **options):
        for some, replacing in draw(pool, *args, **options):
            if pool.lists is not None:
                members.extend(some)
            yield some, replacing

    monkeypatch.setattr(Pool, "slices", watched)
    lists = [range(0, 20), range(20, 40), range(40, 60)]
    create(fields["name"], **{k: v for k, v in fields.items() if k != "name"}).set_up(
        GroupRequest(
            cube.traces(), 5, frame=cube.frame(), past=[cube.traces()], lists=lists, group_size=6,
            rng=stream(3, "groups"), control=stream(3, "control"),
        )
    )  # fmt: skip
    assert len(members) >= 40
    for group in members:
        # The target joins a list whose member it replaces.
        assert len({user // 20 for user in group.tolist() if user != 5}) == 1


@pytest.mark.slow
def test_an_audit_names_nobody_and_its_groups_matter(cube, plan_fields, tmp_path):
    plan_fields |= {"attacks": [{"name": "projection"}], "targets": {"random": 2}}
    plan_fields |= {"utility": {"groups": 2, "measures": [{"name": "pearson"}]}}
    listed = plan_of(plan_fields)
    assert listed.digest != AuditPlan(**plan_fields).digest
    assert listed.describe()["groups"] == "3 lists of 20 to 20 users"
    assert "groups" not in AuditPlan(**plan_fields).describe()
    with_lists = run(listed, cube, tmp_path / "a", SerialExecutor())
    without = run(AuditPlan(**plan_fields), cube, tmp_path / "b", SerialExecutor())
    assert "u001" not in with_lists.attrs["plan"]
    assert not np.array_equal(with_lists.utility, without.utility)
    assert not np.array_equal(with_lists.auc, without.auc)


def test_lists_that_do_not_fit_are_refused_by_their_key(cube, plan_fields):
    with pytest.raises(ConfigError, match=r"groups\.1: 1 of 3 users are not in the cube"):
        plan_of(plan_fields, groups=[*names([range(20)]), ["u003", "u004", "x"]]).check(cube)
    with pytest.raises(ConfigError, match=r"groups\.0: 1 of 3 users are listed twice"):
        plan_of(plan_fields, groups=[["u001", "row 1", "u003"], *names([range(20)])]).check(cube)
    with pytest.raises(ConfigError, match="the longest has 5 members"):
        plan_of(plan_fields, groups=names([range(5), range(5, 10)])).check(cube)
    with pytest.raises(ConfigError, match=r"AuditPlan\.groups\.0"):
        plan_of(plan_fields, groups=[["u001"]])


def test_too_few_lists_are_refused():
    check_lists([range(8)], size=4, n_groups=40, name="perfect")
    check_lists([range(4)] * 20, size=4, n_groups=40, name="perfect")
    with pytest.raises(PoolError, match="may give only 19 with a target"):
        check_lists([range(4)] * 19, size=4, n_groups=40, name="perfect")
