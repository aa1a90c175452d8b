"""Which way an audit goes, what it is said to take, and that it keeps to it."""

from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.analyses.audit import AuditAnalysis, AuditPlan, plan_resources, predict
from clusterscale.analyses.audit.resources import _PROCESS, UNSURE
from clusterscale.analyses.screening import predict as predict_screen
from clusterscale.attacks import ATTACKS
from clusterscale.cube import blocks
from clusterscale.cube.sized import SizedCube
from clusterscale.errors import ConfigError
from clusterscale.study import measure_slowness

GB = 10**9


@pytest.fixture(autouse=True, scope="module")
def small():
    """Fifteen blocks of four users."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_MOST_USERS", 4)
        yield


def plan(fields, **change):
    return AuditPlan(**(fields | {"group_sizes": [6]} | change))


@pytest.fixture(scope="module")
def wide(cube):
    """A handle to a cube that says it is of a million users, and that nobody reads."""
    found = type(cube)(cube.uri)
    found.attributes |= {"n_users": 10**6, "n_events": 5 * 10**8}
    return found


@pytest.fixture(scope="module")
def broad(cube):
    """A handle to a cube that says it is of 5,000 ROIs, so that counts are what takes room."""
    found = type(cube)(cube.uri)
    found.attributes |= {"n_rois": 5000}
    return found


def beside(plan, cube):
    return plan_resources(plan, cube, 64 * GB, 1).task_bytes


def test_what_fits_is_held_in_memory(cube, plan_fields):
    found = predict(plan(plan_fields), cube).resources
    assert found.users == ()
    assert found.why.startswith("the traces of all users and a task need ")
    assert found.worker_bytes < 2 * GB


def test_each_further_group_needs_more_memory(broad, plan_fields):
    cube, row = broad, 5001 * 48 * 4
    bare = plan_fields | {"mechanisms": [{"name": "exact"}]}
    least = beside(plan(bare), cube)
    noisy = beside(plan(plan_fields), cube)
    assert noisy - least >= 70 * row * 2, "values are float64"
    attacks = [*bare["attacks"], {"name": "cells"}]
    validated = beside(plan(bare, attacks=attacks), cube)
    assert validated - least >= 100 * row
    assert least - beside(plan(bare, control=False), cube) >= 10 * row
    precise = plan(bare, precision={"width": 0.1, "most": 640})
    assert beside(precise, cube) - least >= (320 - 70) * row, "the last 320 are counted at once"


@given(
    memory=st.lists(st.integers(6 * 10**8, 8 * GB), min_size=2, max_size=5),
    workers=st.integers(1, 40),
)
def test_more_memory_means_fewer_parts_and_all_are_kept_to(wide, memory, workers):
    fields = {
        "targets": {"random": 4},
        "group_sizes": [1000],
        "periods": [{"name": "all", "first": 0, "epochs": 48}],
        "priors": [{"name": "known_subset", "alpha": 0.5}],
        "mechanisms": [{"name": "exact"}],
        "attacks": [{"name": "projection"}],
    }
    found = [plan_resources(AuditPlan(**fields), wide, each, workers) for each in sorted(memory)]
    parts = [len(each.users) or 1 for each in found]
    assert parts == sorted(parts, reverse=True)
    for each, allowed in zip(found, sorted(memory), strict=True):
        assert each.worker_bytes <= allowed
        if each.users:
            assert each.users[0][0] == 0
            assert each.users[-1][1] == 10**6
            assert all(one[1] == other[0] for one, other in pairwise(each.users))
            assert all(first % 4 == 0 for first, _ in each.users)
            assert len(each.users) >= workers, "nobody is idle"


def test_too_little_memory_is_told_with_what_is_needed(cube, plan_fields):
    chosen = plan(plan_fields)
    with pytest.raises(ConfigError, match=r"memory: 1,000 bytes per worker are too few") as caught:
        predict(chosen, cube, 1000)
    needed = int(str(caught.value).split(" need ")[1].split(";")[0].replace(",", ""))
    assert needed > _PROCESS
    assert len(plan_resources(chosen, cube, needed, 1).users or [()]) >= 1
    with pytest.raises(ConfigError, match="memory"):
        plan_resources(chosen, cube, needed - 1, 1)


def test_seconds_grow_with_what_is_asked(wide, plan_fields):
    few, many = (plan_resources(plan(plan_fields), wide, 16 * GB, 4, n_targets=n) for n in (1, 10))
    assert few.core_seconds < many.core_seconds
    assert many.seconds < many.core_seconds
    two = plan_resources(plan(plan_fields, group_sizes=[6, 20_000]), wide, 16 * GB, 4)
    assert two.core_seconds > few.core_seconds


def test_studying_every_release_costs_as_often(wide, plan_fields):
    def told(refit, training):
        prior = {"name": "zero_knowledge", "training": training, "challenges": 100, "refit": refit}
        attack = [{"name": "projection"}]  # which is not trained again for intervals
        chosen = plan(
            plan_fields, priors=[prior], group_sizes=[1000], control=False, attacks=attack
        )
        return plan_resources(chosen, wide, 16 * GB, 1)

    once, every = (
        told(refit, 80).core_seconds - told(refit, 40).core_seconds
        for refit in ("shared", "per_release")
    )
    assert every == pytest.approx(100 * once)
    assert told("per_release", 40).task_bytes == told("shared", 40).task_bytes, "one at a time"


def test_seconds_are_told_for_this_machine(cube, plan_fields):
    usual, slow = (
        predict(plan(plan_fields), cube, 16 * GB, 4, slowness=slowness) for slowness in (1.0, 2.5)
    )
    for name in ("seconds", "core_seconds"):
        one, other = getattr(usual.resources, name), getattr(slow.resources, name)
        assert other == pytest.approx(2.5 * one)
    least, most = usual.seconds_range
    assert least * UNSURE == pytest.approx(usual.resources.seconds) == most / UNSURE


def test_slowness_is_higher_where_the_same_work_takes_longer():
    def clock(seconds):
        """Return a clock that moves on by so much at every second look."""
        looks = count()
        return lambda: (next(looks) + 1) // 2 * seconds

    fast, slow = (measure_slowness(clock(seconds)) for seconds in (0.05, 0.2))
    assert slow == pytest.approx(4 * fast)
    assert measure_slowness() > 0


def test_a_screen_that_finds_the_targets_is_part_of_the_cost(cube, plan_fields):
    fields = plan_fields | {"screen": {"groups": 60}}
    some = predict(plan(fields, targets={"random": 5}), cube)
    exposed = plan(fields, targets={"most_exposed": 5})
    (required,) = AuditAnalysis(exposed).requires()
    assert required.plan == exposed.whole_screen
    screen = predict_screen(exposed.whole_screen, cube)
    with_screen = predict(exposed, cube)
    assert with_screen.n_targets == some.n_targets
    more = with_screen.resources.seconds - some.resources.seconds
    assert more == pytest.approx(screen.seconds)


def test_sizes_are_enough_for_a_prediction(cube, plan_fields):
    sizes = SizedCube(
        users=cube.n_users,
        places=cube.n_rois,
        epochs=cube.n_epochs,
        events_per_user=cube.n_events / cube.n_users,
    )
    for targets in ({"random": 5}, {"tertiles": 2}, {"all": True}, {"most_exposed": 0.1}):
        fields = plan_fields | {"screen": {"groups": 60}, "targets": targets}
        assert predict(plan(fields), sizes) == predict(plan(fields), cube)
    with pytest.raises(ConfigError, match="targets: 63 requested, but there are 60 users"):
        predict(plan(plan_fields, targets={"tertiles": 21}), sizes)


def test_work_that_is_done_once_is_not_counted_per_target(wide, plan_fields):
    one, two, three = (
        plan_resources(plan(plan_fields), wide, 16 * GB, 1, n_targets=n).core_seconds
        for n in (1, 2, 3)
    )
    assert two - one == pytest.approx(three - two)
    assert one > two - one, "processes are started, promises are tried"
    trials = plan_fields | {"verdict": {"trials": 200_000}}
    more = plan_resources(plan(trials), wide, 16 * GB, 1, n_targets=1).core_seconds
    assert more > one


@pytest.mark.parametrize("name", list(ATTACKS))
def test_every_attack_costs_something(wide, plan_fields, name):
    bare = plan_fields | {"attacks": [{"name": "projection"}]}
    both = plan_fields | {"attacks": [{"name": "projection"}, {"name": name}]}
    if name == "projection":
        both = plan_fields | {"attacks": [{"name": "projection"}, {"name": "cells"}]}
    one, two = (
        plan_resources(plan(fields), wide, 16 * GB, 1).core_seconds for fields in (bare, both)
    )
    assert two > one
