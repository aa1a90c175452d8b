"""Plans: who is attacked, what is refused, what a task carries."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from clusterscale.analyses.audit import AuditPlan, Targets, predict
from clusterscale.analyses.audit.targets import TERTILES
from clusterscale.cube import Calendar, Grid, TraceCube, new_cube
from clusterscale.errors import ConfigError
from clusterscale.groups.member_lists import find_users


def test_tertiles_are_thirds_by_events(cube, dense):
    chosen = Targets(tertiles=4).choose(cube, seed=1)
    order = np.argsort(dense.sum(axis=(1, 2)), kind="stable")
    assert len(chosen.users) == 12
    assert (np.diff(chosen.users) > 0).all()
    for i, name in enumerate(TERTILES):
        third = set(order[20 * i : 20 * (i + 1)])
        mine = {user for user, t in zip(chosen.users, chosen.tertiles, strict=True) if t == name}
        assert len(mine) == 4
        assert mine <= third


def test_choices_follow_the_seed(cube):
    first, again, other = (Targets(random=9).choose(cube, seed=s).users for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert set(first) != set(other)
    assert len(Targets(all=True).choose(cube, seed=0).users) == 60


def test_listed_users_are_found_by_pseudonym(cube):
    chosen = Targets(listed=("u041", "u003")).choose(cube, seed=0)
    np.testing.assert_array_equal(chosen.users, [3, 41])


def test_users_of_long_ids_are_found_by_these_and_by_the_names_of_results(tmp_path, dense):
    """NumPy keeps strings of 16 bytes and more elsewhere, and its search cannot compare them."""
    ids = [f"a-name-as-long-as-{(7 * i) % 60:02d}-and-longer" for i in range(60)]
    calendar = Calendar.parse("2024-01-01T00:00", "1h", dense.shape[2], "UTC")
    regions = Grid.parse(f"50,0,51,1/1x{dense.shape[1]}").regions
    flat = dense.reshape(60, -1)
    with new_cube(str(tmp_path / "cube"), regions, calendar, provenance={}) as writer:
        writer.append(ids, flat.sum(axis=1), np.nonzero(flat)[1])
    cube = TraceCube(str(tmp_path / "cube"))
    listed = (ids[41], "row 3", ids[5], "row 59", str(cube.pseudonyms(np.array([7]))[0]))
    chosen = Targets(listed=listed).choose(cube, seed=0)
    np.testing.assert_array_equal(chosen.users, [3, 5, 7, 41, 59])
    for unknown in ("row 60", "row -1", "row", "3", "Row 3", ids[0][:-1]):
        with pytest.raises(ConfigError, match="1 of 2 users are not in the cube"):
            Targets(listed=(ids[1], unknown)).choose(cube, seed=0)


@pytest.mark.parametrize("pseudonyms", [False, True])
def test_a_row_is_never_confused_with_an_id_of_its_form(tmp_path, pseudonyms):
    ids = ["row 2", "ann", "row 0", "row 007", "row 9"]
    calendar = Calendar.parse("2024-01-01T00:00", "1h", 2, "UTC")
    regions = Grid.parse("50,0,51,1/1x1").regions
    uri = str(tmp_path / "cube")
    with new_cube(uri, regions, calendar, provenance={}, pseudonyms=pseudonyms) as writer:
        writer.append(ids, np.ones(5, np.int64), np.zeros(5, np.int64))
    cube, rows = TraceCube(uri), np.arange(5)
    np.testing.assert_array_equal(find_users(cube, cube.pseudonyms(rows).tolist()), rows)
    np.testing.assert_array_equal(find_users(cube, [f"row {row}" for row in rows]), rows)
    np.testing.assert_array_equal(find_users(cube, ["row 9", "row 007", "ann"]), [-1, 3, 1])


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (
            {"listed": ["u001", "nobody"]},
            "targets.listed: 1 of 2 users are not in the cube",
        ),
        ({"random": 61}, "targets.random: 61 requested, but there are 60 to draw from"),
        ({"tertiles": 21}, "targets.tertiles: 21 requested, but there are 20 to draw from"),
    ],
)
def test_unknown_targets_are_refused(cube, targets, message):
    with pytest.raises(ConfigError) as caught:
        Targets(**targets).choose(cube, seed=0)
    assert str(caught.value) == message


def test_a_plan_the_cube_cannot_answer(cube, plan_fields):
    plan_fields["periods"] = [{"name": "long", "first": 24, "epochs": 168}]
    plan_fields["group_sizes"] = [3, 29]
    with pytest.raises(ConfigError) as caught:
        AuditPlan(**plan_fields).check(cube)
    assert str(caught.value).splitlines() == [
        "periods.0: epochs 24 to 192 exceed the 48 of the cube",
        "group_sizes.1: groups of 29 are too large: the known_subset training pool has 30 users "
        "including the target, and 40 distinct groups are needed; the largest that fits is 28",
    ]


def test_what_is_not_known_cannot_be_used(cube, plan_fields):
    plan_fields["priors"] = [{"name": "same_groups", "beta": 20}]
    plan_fields["periods"] = [{"name": "second day", "first": 24, "epochs": 24}]
    with pytest.raises(ConfigError) as caught:
        AuditPlan(**plan_fields).check(cube)
    assert str(caught.value).splitlines() == [
        "periods.0: same_groups learns from past releases: set the first epochs of past windows, "
        "e.g. observed: [0]",
        "attacks.1: projection needs the target's locations, which same_groups does not provide; "
        "remove one of them",
    ]
    plan_fields["periods"][0]["observed"] = [0]
    plan_fields["attacks"].pop()
    plan = AuditPlan(**plan_fields)
    plan.check(cube)
    task = next(plan.tasks(cube, plan.targets.choose(cube, plan.seed)))
    assert task.source.spans == ((0, 24), (24, 48))
    held = cube.n_events * 4 + 2 * 60 * 8 + 60 * 48
    assert predict(plan, cube).resources.trace_bytes == held


def test_tasks_of_a_period_come_together(cube, plan_fields):
    """A worker keeps the traces of one period, not of all."""
    plan_fields["periods"] = [{"name": str(i), "first": 8 * i, "epochs": 8} for i in range(6)]
    plan = AuditPlan(**plan_fields)
    names = [task.period for task in plan.tasks(cube, plan.targets.choose(cube, plan.seed))]
    assert names == sorted(names, key=lambda name: int(name.partition("-")[0]))


def test_tasks_are_small_distinct_and_name_the_cube(cube, plan_fields):
    plan = AuditPlan(**plan_fields)
    tasks = list(plan.tasks(cube, plan.targets.choose(cube, plan.seed)))
    assert len(tasks) == len({task.key for task in tasks}) == 8
    assert all(task.source.fingerprint == cube.fingerprint for task in tasks)
    assert len(pickle.dumps(tasks[0])) < 2000


def test_a_worker_elsewhere_finds_a_cube_named_from_here(cube, plan_fields, monkeypatch):
    path = Path(cube.uri)
    monkeypatch.chdir(path.parent)
    near, plan = TraceCube(path.name), AuditPlan(**plan_fields)
    task = next(plan.tasks(near, plan.targets.choose(near, plan.seed)))
    assert task.source.uri == str(path)


def test_prediction_counts_what_runs(cube, plan_fields):
    plan = AuditPlan(**plan_fields)
    cost = predict(plan, cube)
    assert (cost.n_targets, cost.n_tasks, cost.n_cases) == (4, 10, 32)
    assert cost.store_bytes == cube.n_events * 4 + 61 * 8
    assert cost.resources.trace_bytes == cube.n_events * 4 + 60 * 8 + 60 * 48


def test_digest_is_of_the_question(plan_fields):
    plan = AuditPlan(**plan_fields)
    assert plan.digest == AuditPlan(**plan_fields).digest
    assert plan.digest != plan.model_copy(update={"seed": 4}).digest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group_sizes": [5, 5]}, "group_sizes: 5 is listed twice"),
        ({"group_sizes": [1]}, "group_sizes.0: is 1, but should be greater than or equal to 2"),
        (
            {"periods": [{"name": "day", "first": 24, "epochs": 24, "observed": [8, 0]}]},
            "periods.0: observed: the window of 24 epochs from 8 ends after the period begins, "
            "at 24",
        ),
        (
            {"periods": [{"name": "day", "first": 24, "epochs": 24, "observed": [0, 0]}]},
            "periods.0.observed: 0 is listed twice",
        ),
        (
            {"targets": {"random": 3, "all": True}},
            "targets: give exactly one of tertiles, random, most_exposed, listed, all",
        ),
    ],
)
def test_refused_fields(plan_fields, change, message):
    with pytest.raises(ConfigError) as caught:
        AuditPlan(**(plan_fields | change))
    assert str(caught.value) == f"AuditPlan.{message}"
