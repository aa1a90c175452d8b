"""A screen ends with the same bits, however it was cut up, interrupted or spread."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
from conftest import write_cube
from running import run, screen

from clusterscale import open_screen
from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.audit.analysis import rank
from clusterscale.analyses.screening import (
    SCREEN,
    ScreenPlan,
    base_groups,
    predict,
    resources,
    scoring,
)
from clusterscale.analyses.screening.base_groups import open_groups
from clusterscale.analyses.screening.plan import ScreenSetting
from clusterscale.attacks import create as attack
from clusterscale.cube import TraceCube, blocks
from clusterscale.errors import (
    ConfigError,
    DamagedError,
    ExistsError,
    FormatError,
    MissingError,
    PoolError,
)
from clusterscale.runtime import Local, SerialExecutor

SERIES = {"name": "fourier", "epsilon": 5.0, "coefficients": 4}
CAPPED = {
    "name": "chain",
    "steps": [
        {"name": "cap_contributions", "per_day": 3},
        {"name": "laplace", "epsilon": 1.0, "unit": "user_day"},
    ],
}


@pytest.fixture
def plan(plan_fields):
    """Two sizes; exact, Laplace, capped Laplace; all three closed forms; 40 groups."""
    plan_fields |= {"verdict": {"trials": 40}, "utility": {"groups": 2}}
    fields = {"mechanisms": [*plan_fields["mechanisms"], CAPPED], "screen": {"groups": 40}}
    return AuditPlan(**plan_fields | fields)


@pytest.fixture
def small_blocks(monkeypatch):
    """Four blocks of 16 users, of which 60 fill not quite the last."""
    monkeypatch.setattr(blocks, "_MOST_USERS", 16)


@pytest.fixture(scope="session")
def keep(tmp_path_factory):
    """Folders of undisturbed screens, each made once; they are not to be written to."""
    known = {}

    def get(plan, cube):
        key = plan.digest, blocks._MOST_USERS
        if key not in known:
            known[key] = tmp_path_factory.mktemp("screen")
            screen(plan, cube, known[key], SerialExecutor())
        return known[key]

    return get


@pytest.fixture
def undisturbed(plan, cube, small_blocks, keep):
    return open_screen(keep(plan, cube)).load()


@pytest.fixture
def copied(plan, cube, keep, tmp_path):
    """A folder with a finished screen, which may be written to."""
    shutil.copytree(keep(plan, cube), tmp_path / "run")
    return tmp_path / "run"


class Backwards(SerialExecutor):
    """Takes the last task first, and three parts of what is to be added up."""

    n_workers = 3

    def map_batches(self, function, items, **options):
        return super().map_batches(function, reversed(list(items)), **options)


@pytest.mark.slow
def test_one_row_a_user_is_kept(plan, cube, dense, tmp_path, small_blocks):
    seen = []
    found = screen(plan, cube, tmp_path / "run", SerialExecutor(), on_progress=seen.append)
    assert dict(found.sizes) == {
        "user": 60,
        "period": 1,
        "group_size": 2,
        "mechanism": 3,
        "attack": 3,
    }
    assert set(SCREEN) <= set(found.variables)
    assert found.auc.notnull().all()
    np.testing.assert_array_equal(found.n_events, dense.sum(axis=(1, 2))[:, None])
    assert found.n_seen.values.tolist() == [60]
    xr.testing.assert_identical(found.load(), open_screen(tmp_path / "run").load())
    for place in ("run/screen", "run/screen/results.zarr"):
        xr.testing.assert_identical(found, open_screen(tmp_path / place).load())
    assert [p.n_done for p in seen if p.stage == "score"][-1] == seen[-1].n_tasks == 60 * 2 * 3
    assert sorted(path.name for path in (tmp_path / "run" / "screen").iterdir()) == [
        "done",
        "lease",
        "results.zarr",
        "screen.json",
    ], "what only an unfinished screen needs is gone"


@pytest.mark.slow
def test_order_parts_and_memory_change_no_bit(plan, cube, tmp_path, undisturbed, monkeypatch):
    backwards = screen(plan, cube, tmp_path / "backwards", Backwards())
    xr.testing.assert_identical(undisturbed, backwards.load())
    monkeypatch.setattr(resources, "PROCESS_BYTES", 0)
    cells = 9 * 48
    tight = 3 * 4 * 16 * (cube.n_events // 60 + 1) + 4 * 16 * 3 * 2 * 40
    tight += 7 * resources.table_bytes(cells, 1, 3) + resources._CELL * cells
    slices = []
    real = resources.plan_screen_resources

    def watch(*args, **kwargs):
        slices.append(real(*args, **kwargs))
        return slices[-1]

    monkeypatch.setattr(resources, "plan_screen_resources", watch)
    slow = screen(plan, cube, tmp_path / "tight", SerialExecutor(), memory=tight)
    assert all(7 <= each.width < 12 for each in slices), "no more than so many groups fit"
    xr.testing.assert_identical(undisturbed, slow.load())


@pytest.mark.slow
@pytest.mark.dask
def test_workers_change_no_bit(plan, cube, tmp_path, undisturbed, local_cluster):
    assert local_cluster.n_workers == 2
    found = screen(plan, cube, tmp_path / "dask", local_cluster)
    xr.testing.assert_identical(undisturbed, found.load())


@pytest.mark.slow
@pytest.mark.dask
def test_one_worker_changes_no_bit(plan, cube, tmp_path, undisturbed):
    with Local(workers=1).open() as executor:
        found = screen(plan, cube, tmp_path / "dask", executor)
    xr.testing.assert_identical(undisturbed, found.load())


@pytest.mark.slow
def test_series_by_parts_change_no_bit(plan_fields, cube, tmp_path, monkeypatch):
    plan = AuditPlan(**plan_fields | {"mechanisms": [SERIES], "screen": {"groups": 40}})
    whole = screen(plan, cube, tmp_path / "whole", SerialExecutor()).load()
    monkeypatch.setattr(resources, "_SERIES_USERS", 7)
    parts = screen(plan, cube, tmp_path / "parts", Backwards()).load()
    xr.testing.assert_identical(whole, parts)


@pytest.mark.slow
def test_a_finished_screen_is_not_made_again(plan, cube, copied, monkeypatch):
    first = open_screen(copied).load()
    monkeypatch.setattr(scoring, "score", lambda task: 1 / 0)
    monkeypatch.setattr(base_groups, "count", lambda task: 1 / 0)
    again = screen(plan, cube, copied, SerialExecutor())
    xr.testing.assert_identical(first, again.load())


@pytest.mark.slow
def test_what_fails_is_told_and_tried_again(plan, cube, tmp_path, undisturbed, monkeypatch):
    real = scoring.score

    def fail(task):
        if task.start == 32 and task.setting.group_size == 6:
            raise MemoryError("no room")
        return real(task)

    with monkeypatch.context() as patch:
        patch.setattr(scoring, "score", fail)
        with pytest.raises(MemoryError, match="no room") as caught:
            screen(plan, cube, tmp_path / "run", SerialExecutor())
    assert "1 of 4 tasks of stage score failed" in caught.value.__notes__[0]
    with pytest.raises(MissingError, match="has not finished; run it again"):
        open_screen(tmp_path / "run")
    found = screen(plan, cube, tmp_path / "run", SerialExecutor())
    xr.testing.assert_identical(undisturbed, found.load())


@pytest.mark.parametrize("name", ["cells", "base", "stand_in"])
def test_counts_of_groups_that_are_lost_or_changed_are_an_error(
    plan, cube, tmp_path, monkeypatch, name
):
    def fail(task):
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(scoring, "score", fail)
        with pytest.raises(MemoryError, match="no room"):
            screen(plan, cube, tmp_path, SerialExecutor())
    (groups,) = tmp_path.glob("**/groups-0.zarr")
    chunk = groups / name / "c" / "0"
    written = chunk.read_bytes()
    for damage, told in (
        (chunk.unlink, "missing"),
        (lambda: chunk.write_bytes(written[::-1]), "damaged"),
    ):
        damage()
        open_groups.cache_clear()
        with pytest.raises(DamagedError, match=f"chunk 0 of {name} is {told}"):
            screen(plan, cube, tmp_path, SerialExecutor())
    chunk.write_bytes(written)
    about = json.loads((groups / "zarr.json").read_text())
    del about["attributes"]["files"]
    (groups / "zarr.json").write_text(json.dumps(about))
    open_groups.cache_clear()
    with pytest.raises(DamagedError, match="does not list its files: remove it"):
        screen(plan, cube, tmp_path, SerialExecutor())


class Died(BaseException):
    """Ends a driver in the middle of its work."""


STAGES = (("count", 0), ("score", 152), ("count", 180), ("score", 276))
"""Of each size before it is counted and in the middle, by the rows that are done."""


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_a_screen_whose_driver_dies_goes_on(plan, cube, tmp_path, undisturbed, stage):
    scored = [0]

    def die(now):
        if now.stage == "score":
            scored[0] = now.n_done
        if (now.stage, scored[0]) == stage:
            raise Died

    with pytest.raises(Died):
        screen(plan, cube, tmp_path / "run", SerialExecutor(), on_progress=die)
    check_that_it_goes_on(plan, cube, tmp_path / "run", undisturbed, stage[1])


def check_that_it_goes_on(plan, cube, folder, expected, n_done):
    with pytest.raises(MissingError):
        open_screen(folder)
    seen = []
    found = screen(plan, cube, folder, SerialExecutor(), on_progress=seen.append)
    assert next(now for now in seen if now.stage == "score").n_done == n_done
    xr.testing.assert_identical(expected, found.load())


SCRIPT = """
import json, sys, threading
from clusterscale import study
from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.screening import ScreenAnalysis
from clusterscale.cube import TraceCube, blocks
from clusterscale.runtime import SerialExecutor

blocks._MOST_USERS = 16

scored = [0]

def stop(now):
    if now.stage == "score":
        scored[0] = now.n_done
    if [now.stage, scored[0]] == json.loads(sys.argv[4]):
        print("stopped", flush=True)
        threading.Event().wait()

screen = ScreenAnalysis(AuditPlan(**json.loads(sys.argv[1])).whole_screen)
study.run(screen, TraceCube(sys.argv[2]), sys.argv[3], SerialExecutor(), on_progress=stop)
"""


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_screen_goes_on(plan, cube, tmp_path, undisturbed, stage):
    """It stops by itself in the middle, and is killed there."""
    fields = json.dumps(plan.model_dump(mode="json"))
    command = [sys.executable, "-c", SCRIPT, fields, cube.uri, tmp_path / "run", json.dumps(stage)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"stopped\n"
        finally:
            process.kill()
    check_that_it_goes_on(plan, cube, tmp_path / "run", undisturbed, stage[1])


@pytest.mark.slow
def test_another_screen_needs_force(plan_fields, cube, copied):
    first = open_screen(copied).load()
    other = AuditPlan(**plan_fields | {"seed": 9})
    with pytest.raises(ExistsError, match="holds a screen of another plan"):
        screen(other, cube, copied, SerialExecutor())
    xr.testing.assert_identical(first, open_screen(copied).load())
    forced = screen(other, cube, copied, SerialExecutor(), force=True)
    assert forced.sizes["mechanism"] == 2


@pytest.mark.slow
def test_another_cube_in_the_same_place_is_not_taken_for_the_first(plan, cube, dense, tmp_path):
    """In one process, which remembers what it made of the first."""
    other = write_cube(str(tmp_path / "other.zarr"), dense[::-1].copy())
    screen(plan, cube, tmp_path / "run", SerialExecutor())
    forced = screen(plan, other, tmp_path / "run", SerialExecutor(), force=True).load()
    fresh = screen(plan, other, tmp_path / "fresh", SerialExecutor()).load()
    xr.testing.assert_identical(forced, fresh)


def test_targets_and_attacks_of_a_plan_do_not_matter_to_its_screen(
    plan, plan_fields, cube, copied, monkeypatch
):
    first = open_screen(copied).load()
    monkeypatch.setattr(scoring, "score", lambda task: 1 / 0)
    other = plan.model_copy(update={"targets": AuditPlan(**plan_fields).targets, "control": False})
    xr.testing.assert_identical(first, screen(other, cube, copied, SerialExecutor()).load())


def test_what_cannot_be_screened_is_refused_by_name(plan_fields, cube, tmp_path):
    wide = {"name": "suppress_unpopular", "fraction": 0.5}
    fields = plan_fields | {"mechanisms": [{"name": "exact"}, wide]}
    with pytest.raises(ConfigError) as caught:
        screen(AuditPlan(**fields), cube, tmp_path / "run", SerialExecutor())
    assert str(caught.value) == (
        "mechanisms.1: suppress_unpopular can use all counts at once (its noise_scope is "
        "release): one more visit can change any published value, so users cannot be scored by "
        "their own cells alone; leave it out of a "
        "screen, and audit chosen targets instead"
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("size", "groups", "message"),
    [
        (60, 200, "at least one of 60 users must be outside; the largest size is 59"),
        (57, 200, "a user is outside about 10 of 200, too few to estimate an AUC; draw 400"),
    ],
)
def test_groups_too_large_for_a_screen(plan_fields, cube, size, groups, message):
    fields = {"group_sizes": [size], "screen": {"groups": groups}}
    with pytest.raises(PoolError, match=message):
        predict(AuditPlan(**plan_fields | fields).whole_screen, cube)


@pytest.mark.slow
def test_memory_too_short_names_what_would_do(plan, cube, tmp_path):
    with pytest.raises(ConfigError, match=r"memory: 1,000 bytes per worker are too few .*set") as e:
        screen(plan, cube, tmp_path / "run", SerialExecutor(), memory=1000)
    enough = int(str(e.value).rsplit(" to ", 1)[1].split(" ")[0].replace(",", ""))
    screen(plan, cube, tmp_path / "run", SerialExecutor(), memory=enough)


def test_an_attack_that_must_be_trained_is_refused():
    with pytest.raises(ValueError, match="spectral must be trained for each target"):
        ScreenPlan(attacks=(attack("spectral"),))
    for wrong in ((), (attack("diagonal"), attack("diagonal"))):
        with pytest.raises(ValueError, match=r"give at least one|diagonal is listed twice"):
            ScreenPlan(attacks=wrong)


def test_predicted_seconds_know_how_many_work_at_a_time(plan, cube, small_blocks):
    alone, two, many = (predict(plan.whole_screen, cube, n_workers=n) for n in (1, 2, 100))
    assert alone.seconds == pytest.approx(alone.core_seconds)
    assert two.core_seconds < 2 * two.seconds + 1e-9
    assert (
        alone.seconds
        > two.seconds
        > many.seconds
        == pytest.approx(predict(plan.whole_screen, cube, n_workers=4).seconds)
    ), "four blocks keep four workers busy"
    assert two.core_seconds > alone.core_seconds, "each worker makes its own tables"


@pytest.mark.slow
def test_what_is_predicted_is_what_is_read(plan, cube, tmp_path, small_blocks, monkeypatch):
    cost = predict(plan.whole_screen, cube)
    assert (cost.n_rows, cost.n_blocks) == (360, 4)
    read = []
    real = TraceCube.block

    def watch(self, start, stop, *args):
        read.append((start, stop))
        return real(self, start, stop, *args)

    monkeypatch.setattr(TraceCube, "block", watch)
    screen(plan, cube, tmp_path / "run", SerialExecutor())
    assert cost.n_readings == 8, "two sizes, with and without a cap, counted and scored"
    assert sorted(read) == sorted(
        cost.n_readings * [(i, min(i + 16, 60)) for i in range(0, 60, 16)]
    )


def test_open_screen_tells_what_is_there(cube, tmp_path):
    with pytest.raises(MissingError, match="there are no results of a screen"):
        open_screen(tmp_path)
    with pytest.raises((MissingError, FormatError)):
        open_screen(cube.uri)


@pytest.mark.slow
def test_merged_hours_are_screened_as_those_of_a_merged_cube(
    cube, dense, tmp_path, plan_fields, monkeypatch
):
    """On the same groups, although the two cubes number their epochs differently."""
    monkeypatch.setattr(ScreenSetting, "path", property(lambda each: ("all", each.group_size)))
    merged = dense.reshape(60, 8, 24, 2).any(axis=3)
    coarse = write_cube(str(tmp_path / "coarse.zarr"), merged)
    common = {"screen": {"groups": 40}, "null_roi": True}
    step = AuditPlan(
        **plan_fields | common | {"mechanisms": [{"name": "coarsen_time", "factor": 2}]}
    )
    bare = plan_fields | common | {"mechanisms": [{"name": "exact"}]}
    bare["periods"] = [{"name": "all", "first": 0, "epochs": 24}]
    one = screen(step, cube, tmp_path / "one", SerialExecutor()).load()
    other = screen(AuditPlan(**bare), coarse, tmp_path / "other", SerialExecutor()).load()
    for name in ("auc", "auc_low", "auc_high", "score_gap"):
        np.testing.assert_array_equal(one[name].values, other[name].values)


@pytest.mark.slow
def test_the_most_exposed_are_audited(plan, plan_fields, cube, tmp_path):
    fields = plan.model_dump() | {"targets": {"most_exposed": 5}}
    chosen, seen = AuditPlan(**fields), []
    found = run(chosen, cube, tmp_path / "run", SerialExecutor(), on_progress=seen.append)
    stages = [now.stage for now in seen]
    assert set(stages[: stages.index("audit")]) == {"count", "score"}
    assert set(stages[stages.index("audit") :]) == {"audit", "results"}
    screened = open_screen(tmp_path / "run")
    assert set(found.target.values) == set(rank(screened)[:5])
    share = AuditPlan(**fields | {"targets": {"most_exposed": 0.1}}).targets
    assert share.n_most_exposed(cube) == 6
    with pytest.raises(ConfigError, match=r"targets\.most_exposed: 61 requested, but there are 60"):
        AuditPlan(**fields | {"targets": {"most_exposed": 61}}).check(cube)
    refused = fields | {"mechanisms": [{"name": "suppress_unpopular", "fraction": 0.5}]}
    with pytest.raises(ConfigError, match="suppress_unpopular can use all counts"):
        AuditPlan(**refused).check(cube)


@pytest.mark.slow
def test_a_screen_that_is_there_is_used_by_the_audit(plan, cube, copied, monkeypatch):
    monkeypatch.setattr(scoring, "score", lambda task: 1 / 0)
    chosen = AuditPlan(**plan.model_dump() | {"targets": {"most_exposed": 3}})
    assert run(chosen, cube, copied, SerialExecutor()).sizes["target"] == 3


def test_the_ranking_goes_by_mean_auc_then_gap():
    auc = np.array([[0.7, 0.8], [1.0, 0.6], [1.0, 1.0], [1.0, 1.0], [np.nan, np.nan]])
    gap = np.array([[1.0, 2.0], [9.0, 9.0], [7.0, 5.0], [np.inf, 5.0], [np.nan, np.nan]])
    dims = ("user", "period", "group_size", "mechanism", "attack")
    made = {name: (dims, x[:, None, None, None]) for name, x in (("auc", auc), ("score_gap", gap))}
    made["n_events"] = (dims[:2], np.ones((5, 1), int))
    assert rank(xr.Dataset(made, attrs={"plan": "{}"})).tolist() == [3, 2, 1, 0, 4]
