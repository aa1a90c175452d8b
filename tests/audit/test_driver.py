"""Runs end with the same bits, however they were interrupted, and wherever they ran."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
import xarray as xr
from oracles.entries import build
from running import run as run_lazily

from clusterscale import attacks
from clusterscale.analyses.audit import AuditPlan, open_results
from clusterscale.analyses.audit import task as audit_task
from clusterscale.analyses.audit.finished_tasks import FinishedTasks, entries_in
from clusterscale.analyses.dp_audit.evaluation import evaluations_in
from clusterscale.attacks import ATTACKS
from clusterscale.errors import (
    ConfigError,
    DamagedError,
    ExistsError,
    FormatError,
    InputError,
    MissingError,
)
from clusterscale.mechanisms import MECHANISMS
from clusterscale.reauditing.release_metrics import exposures_of, measure
from clusterscale.reporting import write_report
from clusterscale.runtime import Local, SerialExecutor
from clusterscale.storage import manifest
from clusterscale.study.identity import run_in


def run(*args, **options):
    """Run, and read all results before anything else can be written in their place."""
    return run_lazily(*args, **options).load()


def same(left, right):
    """Compare two results bit by bit, but for the time that things took."""
    xr.testing.assert_identical(left.drop_vars("seconds"), right.drop_vars("seconds"))


class Backwards(SerialExecutor):
    """Takes the last task first."""

    def map_batches(self, function, items, **options):
        return super().map_batches(function, reversed(list(items)), **options)


LITTLE = {"verdict": {"trials": 40}, "utility": {"groups": 2}}


@pytest.fixture
def plan_fields(plan_fields):
    """The same with little to compute beside the attacks."""
    return plan_fields | LITTLE


@pytest.fixture
def plan(plan_fields):
    return AuditPlan(**plan_fields)


class Idle(SerialExecutor):
    """Refuses to compute anything."""

    def map_batches(self, function, items, **options):
        assert not list(items), "a finished run has nothing left to compute"
        return iter(())

    map_reductions = reduce = None


@pytest.fixture(scope="session")
def finished(cube, shared_plan_fields, tmp_path_factory):
    """One undisturbed serial run, which tests only read: plan, folder, results and progress."""
    plan = AuditPlan(**(shared_plan_fields | LITTLE))
    folder, seen = tmp_path_factory.mktemp("reference") / "run", []
    results = run(plan, cube, folder, SerialExecutor(), on_progress=seen.append)
    return plan, folder, results, seen


@pytest.fixture(scope="session")
def reference(cube, finished, tmp_path_factory):
    """Results of an undisturbed serial run of a plan; computed at first use."""
    known = {finished[0].digest: finished[2]}

    def get(plan):
        if plan.digest not in known:
            folder = str(tmp_path_factory.mktemp("reference") / "run")
            known[plan.digest] = run(plan, cube, folder, SerialExecutor())
        return known[plan.digest]

    return get


def test_results_are_complete_and_kept(finished, cube):
    plan, folder, results, seen = finished
    assert (results.status == "done").all()
    assert results.auc.notnull().all()
    np.testing.assert_allclose(results.privacy_loss, np.maximum(0, 2 * results.auc - 1), atol=1e-12)
    xr.testing.assert_identical(results, open_results(folder))
    xr.testing.assert_identical(results, open_results(folder / "results.zarr"))
    audited = [p.n_done for p in seen if p.stage == "audit" and (p.n_tasks, p.n_failed) == (10, 0)]
    assert (audited[0], audited[-1]) == (0, 10)
    assert audited == sorted(audited)
    assert [(p.n_tasks, p.n_done) for p in seen[len(audited) :]] == [(1, 0), (1, 1)], "results"
    assert results.attrs["plan_digest"] == plan.digest
    assert results.attrs["cube_fingerprint"] == cube.fingerprint
    assert json.loads(results.attrs["plan"])["seed"] == 3


@pytest.mark.slow
def test_results_say_whose_noise_is_published_unrounded(cube, tmp_path, plan_fields):
    laplace = {"name": "laplace", "epsilon": 1.0, "unit": "event"}
    ways = [{"name": "exact"}, laplace, laplace | {"integers": "round"}]
    small = {"targets": {"random": 1}, "group_sizes": [3], "attacks": [{"name": "projection"}]}
    small |= {"verdict": {"trials": 100}, "utility": {"measures": [{"name": "pearson"}]}}
    plan = AuditPlan(**(plan_fields | small | {"mechanisms": ways}))
    results = run(plan, cube, tmp_path / "run", SerialExecutor())
    assert results.float_noise.dims == ("period", "mechanism")
    assert set(map(tuple, results.float_noise.values.tolist())) == {("no", "yes", "no")}
    unsaid = results.drop_vars("float_noise")
    for found, known in ((results, "yes"), (unsaid, "")):
        exposures = exposures_of(found, None, plan.mechanisms[1].id)
        numbers = measure(found, exposures, plan.mechanisms[1].id, exposed_above=0.5)
        assert numbers.float_noise == known


@pytest.mark.slow
def test_a_lost_variable_is_an_error_even_if_the_rest_was_sealed_again(cube, plan, tmp_path):
    run(plan, cube, tmp_path / "run", SerialExecutor())
    missing = ("mechanism_title/c", "mechanism_title", "prior/c", "float_noise")
    for lost in (*missing, "auc/c", "error/c"):
        shutil.copytree(tmp_path / "run", tmp_path / lost.replace("/", "-"))
        store = tmp_path / lost.replace("/", "-") / "results.zarr"
        shutil.rmtree(store / lost)
        manifest.seal(str(store))
        with pytest.raises(
            (FormatError, DamagedError), match=f"{store.parent.name[:9]}.* is missing"
        ):
            open_results(store.parent)


def test_no_user_id_leaves_the_cube(cube, tmp_path, plan_fields):
    """The cube's ids were never pseudonymised, and the plan names two of them."""
    small = {"targets": {"listed": ["u041", "u003"]}, "group_sizes": [3]}
    plan = AuditPlan(**(plan_fields | small))
    results = run(plan, cube, tmp_path / "run", SerialExecutor())
    assert list(results.pseudonym.values) == ["row 3", "row 41"]
    write_report(results, tmp_path / "run" / "report.html")
    for path in (path for path in (tmp_path / "run").rglob("*") if path.is_file()):
        content = path.read_bytes()
        assert b"u041" not in content, path
        assert b"u003" not in content, path


def test_a_finished_run_is_not_run_again(finished, cube):
    plan, folder, results, _ = finished
    xr.testing.assert_identical(results, run(plan, cube, folder, Idle()))


@pytest.mark.slow
def test_task_order_does_not_matter(plan, cube, tmp_path, reference):
    same(reference(plan), run(plan, cube, tmp_path / "run", Backwards()))


@pytest.mark.slow
def test_an_interrupted_run_with_more_challenges_ends_with_the_same_bits(
    cube, tmp_path, plan_fields, reference, monkeypatch
):
    plan = AuditPlan(**(plan_fields | {"precision": {"width": 0.2, "most": 80}}))

    def fail_once(task):
        if task.group_size == 6:
            raise MemoryError("no room")
        return audit_task.play_whole(task)

    with monkeypatch.context() as patch:
        patch.setattr("clusterscale.analyses.audit.analysis.play_whole", fail_once)
        broken = run(plan, cube, tmp_path / "run", SerialExecutor())
    assert (broken.sel(group_size=6).n_challenges == 0).all()
    assert (broken.sel(group_size=6).level_inside == 0).all()
    assert broken.sel(group_size=6).pooled_tpr.isnull().all()
    same(reference(plan), run(plan, cube, tmp_path / "run", SerialExecutor()))


def test_failed_tasks_are_recorded_and_run_again(plan, cube, tmp_path, monkeypatch, reference):
    def fail_once(task):
        if task.group_size == 6:
            raise MemoryError("no room")
        return audit_task.play_whole(task)

    with monkeypatch.context() as patch:
        patch.setattr("clusterscale.analyses.audit.analysis.play_whole", fail_once)
        broken = run(plan, cube, tmp_path / "run", SerialExecutor())
    failed = broken.sel(group_size=6)
    assert (failed.status == "failed").all()
    assert (failed.error == "MemoryError: no room").all()
    assert failed.auc.isnull().all()
    assert (broken.sel(group_size=3).status == "done").all()
    same(reference(plan), run(plan, cube, tmp_path / "run", SerialExecutor()))


@pytest.mark.slow
def test_another_plan_needs_force(plan, cube, tmp_path, plan_fields):
    run(plan, cube, tmp_path / "run", SerialExecutor())
    other = AuditPlan(**(plan_fields | {"group_sizes": [3], "seed": 9}))
    with pytest.raises(ExistsError) as caught:
        run(other, cube, tmp_path / "run", SerialExecutor())
    assert str(caught.value) == (
        f"{tmp_path}/run holds an audit of another plan: "
        "choose another `output`, or overwrite it with `force=True`"
    )
    assert open_results(tmp_path / "run").sizes["group_size"] == 2, "nothing may be lost"
    forced = run(other, cube, tmp_path / "run", SerialExecutor(), force=True)
    assert forced.sizes["group_size"] == 1
    assert open_results(tmp_path / "run").sizes["group_size"] == 1


def test_a_foreign_folder_is_not_touched(cube, tmp_path, plan_fields):
    small = {"targets": {"random": 1}, "group_sizes": [3], "attacks": [{"name": "projection"}]}
    plan = AuditPlan(**(plan_fields | small))
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(ExistsError, match="holds something else"):
        run(plan, cube, tmp_path, SerialExecutor())
    run(plan, cube, tmp_path, SerialExecutor(), force=True)
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_an_output_that_no_file_system_serves(plan, cube):
    with pytest.raises(InputError) as caught:
        run(plan, cube, "foo://run", SerialExecutor())
    assert "addresses with the protocol 'foo' are not opened" in str(caught.value)


def test_an_impossible_plan_touches_nothing(cube, tmp_path, plan_fields):
    plan = AuditPlan(**(plan_fields | {"group_sizes": [40]}))
    with pytest.raises(ConfigError):
        run(plan, cube, tmp_path / "run", SerialExecutor())
    assert not (tmp_path / "run").exists()


def test_missing_results_are_an_error(tmp_path):
    with pytest.raises(MissingError) as caught:
        open_results(tmp_path / "nowhere")
    assert str(caught.value) == (
        f"{tmp_path}/nowhere: there are no results; has the audit finished?"
    )


@pytest.mark.slow
@pytest.mark.dask
def test_workers_give_the_bits_of_serial(plan, cube, tmp_path, reference, local_cluster):
    assert local_cluster.n_workers == 2
    same(reference(plan), run(plan, cube, tmp_path / "run", local_cluster))


@pytest.mark.slow
@pytest.mark.dask
def test_one_worker_gives_the_bits_of_serial(plan, cube, tmp_path, reference):
    pytest.importorskip("distributed")
    with Local(workers=1).open() as executor:
        assert executor.n_workers == 1
        same(reference(plan), run(plan, cube, tmp_path / "run", executor))


FEW = {"targets": {"random": 2}, "group_sizes": [6]}
EVERYTHING = {
    "what is known of places": FEW
    | {
        "priors": [
            {"name": "known_subset", "alpha": 0.5, "training": 24, "challenges": 16,
             "validation": 8, "sampling": "paired", "known_fraction": 0.7},
            {"name": "perfect", "groups": 24, "adversary": "passive"},
        ],
        "attacks": [{"name": name} for name in ATTACKS],
    },
    "what more is asked": FEW | {"precision": {"width": 0.2, "most": 80}},
    "what publishers do": FEW
    | {
        "null_roi": False,
        "mechanisms": [
            build(MECHANISMS, name).model_dump(mode="json", exclude_none=True)
            for name in MECHANISMS
        ],
        "attacks": [{"name": "projection"}],
    },
    "what was seen of groups": FEW
    | {
        "periods": [{"name": "second day", "first": 24, "epochs": 24, "observed": [0]}],
        "priors": [{"name": "same_groups", "beta": 24}, {"name": "different_groups", "beta": 32}],
        "attacks": [
            {"name": name} for name in ATTACKS if not attacks.create(name).needs_whereabouts
        ],
    },
}  # fmt: skip


@pytest.mark.nightly(group="faults")
@pytest.mark.dask
@pytest.mark.parametrize("what", EVERYTHING)
def test_every_attack_and_prior_gives_the_same_bits_anywhere(cube, tmp_path, plan_fields, what):
    """Serial, one worker, two workers, and tasks in reverse."""
    pytest.importorskip("distributed")
    plan = AuditPlan(**(plan_fields | EVERYTHING[what]))
    serial = run(plan, cube, tmp_path / "serial", SerialExecutor())
    assert (serial.status == "done").all(), serial.error.values
    for workers in (1, 2):
        with Local(workers=workers).open() as executor:
            found = run(plan, cube, tmp_path / str(workers), executor)
        same(serial, found)
    same(serial, run(plan, cube, tmp_path / "reversed", Backwards()))


class Died(BaseException):
    """Ends a driver in the middle of its work."""


@pytest.mark.slow
@pytest.mark.parametrize("n_batches", [1, 5])
def test_a_driver_that_dies_resumes_to_the_same_bits(
    plan, cube, tmp_path, reference, monkeypatch, n_batches
):
    note, kept = FinishedTasks.note, []

    def die(tasks, path, failed):
        note(tasks, path, failed)
        kept.append(path)
        if len(kept) == n_batches:
            raise Died

    with monkeypatch.context() as patch:
        patch.setattr(FinishedTasks, "note", die)
        patch.setattr("clusterscale.runtime.serial.BATCH_SECONDS", 0)
        with pytest.raises(Died):
            run(plan, cube, tmp_path / "run", SerialExecutor())
    resume(plan, cube, tmp_path / "run", reference, n_least=n_batches)


def resume(plan, cube, folder, reference, n_least):
    """Go on with a run: what it has kept is not done again, and the results are the reference's."""
    name = run_in(str(folder), "audit")
    n_done = sum(map(len, entries_in(f"{folder}/journal", name)))
    n_tasks = len(plan.targets.choose(cube, plan.seed).users) * len(plan.group_sizes)
    assert n_least <= n_done < n_tasks
    n_prices = len(list(evaluations_in(f"{folder}/evaluations", name)))
    seen = []
    results = run(plan, cube, folder, SerialExecutor(), on_progress=seen.append)
    assert seen[0].n_done == n_done + n_prices, "what was finished must not run again"
    same(reference(plan), results)


DRIVER = """
import json, sys, threading
from clusterscale import study
from clusterscale.analyses.audit import AuditAnalysis, AuditPlan
from clusterscale.analyses.audit.finished_tasks import FinishedTasks
from clusterscale.cube import TraceCube
from clusterscale.runtime import Local, SerialExecutor, scheduling, serial

note, n_noted = FinishedTasks.note, 0
scheduling._MAX_ITEMS = 2  # tasks in a batch, so that the first batch is not all of them
serial.BATCH_SECONDS = 0

def stop(tasks, path, failed):
    global n_noted
    note(tasks, path, failed)
    n_noted += 1
    if n_noted == int(sys.argv[5]):
        print("stopped", flush=True)
        threading.Event().wait()

if __name__ == "__main__":
    FinishedTasks.note = stop
    fields, uri, folder, kind = json.loads(sys.argv[1]), *sys.argv[2:5]
    if kind == "serial":
        study.run(AuditAnalysis(AuditPlan(**fields)), TraceCube(uri), folder, SerialExecutor())
    else:
        with Local(workers=1).open() as executor:
            study.run(AuditAnalysis(AuditPlan(**fields)), TraceCube(uri), folder, executor)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "n_batches"), [("serial", 2), pytest.param("dask", 1, marks=pytest.mark.dask)]
)
def test_a_killed_driver_resumes_to_the_same_bits(
    plan_fields, cube, tmp_path, reference, kind, n_batches
):
    """It stops by itself in the middle, and is killed there, the workers of its cluster too."""
    if kind == "dask":
        pytest.importorskip("distributed")
    script, folder = tmp_path / "drive.py", tmp_path / "run"
    script.write_text(DRIVER)
    fields = json.dumps(plan_fields)
    with subprocess.Popen(
        [sys.executable, script, fields, cube.uri, folder, kind, str(n_batches)],
        start_new_session=True,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout.readline() == b"stopped\n"
            process.kill()
            assert process.wait() == -signal.SIGKILL
        finally:
            with suppress(ProcessLookupError):  # of serial work nobody is left
                os.killpg(process.pid, signal.SIGKILL)
    resume(AuditPlan(**plan_fields), cube, folder, reference, n_least=n_batches)
