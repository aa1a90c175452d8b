"""What is counted over parts of the users, and added, is what one worker counts: to the bit."""

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from conftest import write_cube
from cube import crowd
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each, mostly_slow
from oracles.entries import build

from clusterscale.analyses.audit import AuditPlan, Period
from clusterscale.analyses.audit.task import add_parts, count_part, fold_play, play_whole
from clusterscale.analyses.dp_audit.evaluation import (
    count_evaluation,
    evaluate_mechanism_task,
    fold_evaluation,
)
from clusterscale.analyses.dp_audit.privacy_units import kind_of
from clusterscale.contracts import Bounds
from clusterscale.cube import blocks
from clusterscale.errors import InputError
from clusterscale.groups import draw
from clusterscale.mechanisms import MECHANISMS
from clusterscale.runtime import SerialExecutor
from clusterscale.study.execution import Part

N_USERS, BLOCK = 60, 4
CAPPED = {
    "name": "chain",
    "steps": [
        {"name": "cap_contributions", "per_day": 4},
        {"name": "laplace", "epsilon": 0.5, "unit": "user_day"},
    ],
}
MERGED = {"name": "coarsen_time", "factor": 5}
GROUPS = {"training": 16, "challenges": 8, "validation": 8}
KNOWN = GROUPS | {"name": "known_subset", "alpha": 0.5}
MADE_UP = GROUPS | {"name": "zero_knowledge", "reference": 40}
PRIORS = {
    "independent": KNOWN,
    "paired": KNOWN | {"sampling": "paired"},
    "forgetful": KNOWN | {"known_fraction": 0.3},
    "perfect": {"name": "perfect", "groups": 12},
    "passive": {"name": "perfect", "groups": 12, "adversary": "passive"},
    "same_groups": {"name": "same_groups", "beta": 8},
    "different_groups": {"name": "different_groups", "beta": 16},
    "zero_knowledge": MADE_UP,
    "shared": MADE_UP | {"refit": "shared", "known_fraction": 0.3},
}


@pytest.fixture(scope="module")
def two_days(tmp_path_factory):
    """A cube of its own: what blocks it is read in is not what they are elsewhere."""
    dense = crowd.draw(N_USERS, 5, 48, share=0.1, seed=4)
    dense[7] = False  # somebody who was nowhere
    return write_cube(str(tmp_path_factory.mktemp("parts") / "cube.zarr"), dense)


@pytest.fixture(autouse=True, scope="module")
def small():
    """Blocks of four users, groups drawn by segments of eight, a slice of two groups."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_MOST_USERS", BLOCK)
        patch.setattr(draw, "_SEGMENT", 8)
        patch.setattr(draw, "_FEW", 3)
        patch.setattr(draw, "SLICE_BYTES", 1)
        yield


@st.composite
def partitions(draw):
    """All users in whole blocks, a few of these in each part."""
    starts = range(BLOCK, N_USERS, BLOCK)
    cuts = draw(st.sets(st.sampled_from(starts)))
    return list(pairwise([0, *sorted(cuts), N_USERS]))


def plan(
    prior, size, *, null_roi, mechanisms, control=True, precision=False, attacks=(), groups=None
):
    past = prior["name"] in ("same_groups", "different_groups")
    attacks = [{"name": name} for name in ("spectral", *attacks)]
    if not past:
        attacks.append({"name": "projection"})
    return AuditPlan(
        seed=5,
        null_roi=null_roi,
        targets={"random": 1},
        group_sizes=[size],
        groups=groups,
        periods=[{"name": "day", "first": 24, "epochs": 24, "observed": [0] if past else []}],
        priors=[prior],
        mechanisms=mechanisms,
        attacks=attacks,
        control=control,
        precision={"width": 0.2, "most": 32} if precision else None,
        utility={"groups": 3},
        verdict={"trials": 40, "units": 3},
    )


def the_task(cube, chosen, target):
    task = next(iter(chosen.tasks(cube, chosen.targets.choose(cube, 5))))
    return replace(task, target=target)


def by_parts(fold):
    (finished,) = SerialExecutor().map_reductions([fold])
    if finished.error is not None:
        raise finished.error
    return finished.value


def bits(outcomes):
    """All that is told but the time it took; every digit of a number."""
    return repr([replace(each, seconds=0.0) for each in outcomes])


PARTS = [(0, 8), (8, 36), (36, 60)]
MIXED = [{"name": "exact"}, CAPPED, MERGED]


def adds(prior):
    """Whether groups are added up once: who learns anew for each release is slow."""
    return PRIORS[prior]["name"] == "known_subset" or prior == "shared"


@mostly_slow("prior", ["independent", "perfect", "same_groups"])
def test_three_parts_give_the_outcomes_of_one_with_membership_lists(two_days, prior):
    groups = [[f"u{i:03d}" for i in range(first, 60, 3)] for first in range(3)]
    chosen = plan(
        PRIORS[prior], 6, null_roi=False, mechanisms=MIXED, precision=adds(prior), groups=groups
    )
    task = the_task(two_days, chosen, 9)
    assert bits(by_parts(fold_play(task, PARTS))) == bits(play_whole(task))
    evaluation = next(chosen.evaluations(two_days))
    found, whole = by_parts(fold_evaluation(evaluation, PARTS)), evaluate_mechanism_task(evaluation)
    assert repr(found) == repr(whole)  # NaN, where a guess has no value of a measure, is not itself


@mostly_slow(
    ("prior", "size", "null_roi"),
    [(prior, (6, 26)[i % 2], i % 4 < 2) for i, prior in enumerate(PRIORS)],
)
def test_three_parts_give_the_outcomes_of_one(two_days, prior, size, null_roi):
    chosen = plan(
        PRIORS[prior],
        size,
        null_roi=null_roi,
        mechanisms=MIXED,
        precision=adds(prior),
        attacks=("cells",),
    )
    task = the_task(two_days, chosen, 40)
    assert bits(by_parts(fold_play(task, PARTS))) == bits(play_whole(task))


@pytest.mark.slow
@pytest.mark.parametrize("prior", list(PRIORS))
@given(data=st.data())
def test_any_parts_give_the_outcomes_of_one(two_days, prior, data):
    chosen = plan(
        PRIORS[prior],
        data.draw(st.sampled_from([6, 26]), "size"),
        null_roi=data.draw(st.booleans(), "null_roi"),
        mechanisms=MIXED,
        control=data.draw(st.booleans(), "control"),
        precision=adds(prior) and data.draw(st.booleans(), "precision"),
        attacks=data.draw(st.sampled_from([(), ("cells",)]), "attacks"),
    )
    task = the_task(two_days, chosen, data.draw(st.integers(0, N_USERS - 1), "target"))
    whole, users = play_whole(task), data.draw(partitions(), "users")
    assert len(whole) == chosen.n_cases
    assert bits(by_parts(fold_play(task, users))) == bits(whole)


def the_evaluation(cube, size, null_roi):
    refused = ("sample_events", "tables") if null_roi else ()
    names = [name for name in MECHANISMS if name not in refused]
    mechanisms = [build(MECHANISMS, name).model_dump() for name in names]
    chosen = plan(KNOWN, size, null_roi=null_roi, mechanisms=[*mechanisms, CAPPED])
    (task,) = chosen.evaluations(cube)
    return task


@pytest.mark.slow
@pytest.mark.parametrize("size", [6, 50])
@pytest.mark.parametrize("null_roi", [False, True])
def test_three_parts_give_the_evaluation_of_one(two_days, size, null_roi):
    task = the_evaluation(two_days, size, null_roi)
    assert repr(by_parts(fold_evaluation(task, PARTS))) == repr(evaluate_mechanism_task(task))


@pytest.mark.slow
@pytest.mark.parametrize("size", [6, 50])
@pytest.mark.parametrize("null_roi", [False, True])
def test_any_parts_give_the_evaluation_of_one(two_days, size, null_roi):
    task = the_evaluation(two_days, size, null_roi)
    whole = repr(evaluate_mechanism_task(task))

    @given(users=partitions())
    def check(users):
        assert repr(by_parts(fold_evaluation(task, users))) == whole

    check()


def test_stated_guarantees_do_not_depend_on_bounds():
    """Units are counted before it is known how large they are."""
    for name in MECHANISMS:
        mechanism = build(MECHANISMS, name)
        bound = mechanism.bind(Bounds(1, 20, 48, 24, 5, False))
        assert kind_of(bound) == kind_of(mechanism)


def test_parts_and_what_they_find_are_small(two_days):
    chosen = plan(KNOWN, 6, null_roi=True, mechanisms=[{"name": "exact"}], precision=True)
    task = the_task(two_days, chosen, 3)
    fold = fold_play(task, [(0, 32), (32, 60)])
    assert all(len(pickle.dumps(part)) < 5000 for part in fold.parts)
    one, other = map(count_part, fold.parts)
    total = add_parts(one, other)
    n_rows = 16 + 8 + 8 // 2 + (32 - 8)  # no attack validates
    assert len(pickle.dumps(total)) < 1.1 * n_rows * 6 * 24 * 4 + 10_000


def test_a_worker_keeps_the_users_it_has(two_days, monkeypatch):
    read = []
    real = blocks.read_block
    monkeypatch.setattr(blocks, "read_block", lambda *args: read.append(args[2:]) or real(*args))
    chosen = plan(KNOWN, 6, null_roi=True, mechanisms=[{"name": "exact"}, CAPPED])
    (evaluation,) = chosen.evaluations(two_days)
    blocks._CACHE.clear()
    for target in range(3):
        count_part(Part(the_task(two_days, chosen, target), (8, 16)))
    count_evaluation(Part(evaluation, (8, 16)))
    assert read == [(8, 12), (12, 16)]
    count_part(Part(the_task(two_days, chosen, 0), (0, 8)))
    assert len(blocks._CACHE) == 2, "others make room before they are read"


@pytest.mark.slow
@pytest.mark.dask
def test_workers_count_parts_as_one_does(tmp_path, monkeypatch, local_cluster):
    """More users than a block and a segment have, on workers that know of no smaller ones."""
    for module, name in ((blocks, "_MOST_USERS"), (draw, "_SEGMENT")):
        monkeypatch.setattr(module, name, 1 << 16)
    monkeypatch.setattr(draw, "_FEW", 64)
    monkeypatch.setattr(draw, "SLICE_BYTES", 1 << 25)
    cube = write_cube(str(tmp_path / "cube.zarr"), crowd.draw(70_000, 2, 6, seed=6))
    chosen = plan(KNOWN, 5000, null_roi=True, mechanisms=[{"name": "exact"}, CAPPED])
    chosen = chosen.model_copy(update={"periods": (Period(name="all", epochs=6),)})
    tasks = list(chosen.tasks(cube, chosen.targets.choose(cube, 5)))
    (evaluation,) = chosen.evaluations(cube)
    users = list(blocks.ranges(0, 70_000, 1 << 16))
    (played,) = local_cluster.map_reductions([fold_play(task, users) for task in tasks])
    (evaluated,) = local_cluster.map_reductions([fold_evaluation(evaluation, users)])
    assert bits(played.value) == bits(play_whole(tasks[0]))
    assert repr(evaluated.value) == repr(evaluate_mechanism_task(evaluation))


@for_each("users", [(2, 8), (0, 6), (8, 8), (8, 64), (-4, 8)])
def test_parts_that_are_not_whole_blocks_are_refused(two_days, users):
    chosen = plan(KNOWN, 6, null_roi=True, mechanisms=[{"name": "exact"}])
    task = the_task(two_days, chosen, 0)
    with pytest.raises(InputError, match=rf"users {users[0]} to {users[1]} of 60 are not whole"):
        count_part(Part(task, users))


def test_draws_do_not_depend_on_which_users_are_in_memory(two_days):
    """Everyone alone counts as part of everyone; nobody is counted twice or left out."""
    chosen = plan(PRIORS["perfect"], 26, null_roi=True, mechanisms=[{"name": "exact"}])
    task = the_task(two_days, chosen, 0)
    parts = [count_part(Part(task, users))[0].game for users in blocks.ranges(0, 60, BLOCK)]
    everyone = sum(part.challenge.counts.sum(axis=1) for part in parts)
    assert (everyone >= 26).all(), "in every hour each member is in a place or in none"
    assert sum(len(part.adversary.whereabouts.trace) > 0 for part in parts) == 1
    seen = sum(part.adversary.whereabouts.occupancy.sum(axis=0) for part in parts)
    assert (seen >= N_USERS).all()
    assert np.array_equal(parts[0].challenge.labels, parts[1].challenge.labels)
