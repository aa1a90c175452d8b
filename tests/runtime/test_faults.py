"""What can befall a cluster, done to it: nothing finished is lost, nothing is computed wrongly."""

import os
import time
from contextlib import ExitStack
from functools import partial
from itertools import chain

import pytest
import xarray as xr
from oracles import poison
from oracles.processes import end, free_port, joined, scheduler, worker

from clusterscale.audit import AuditPlan, run
from clusterscale.errors import ClusterError, StalledError
from clusterscale.runtime import Local, SerialExecutor

pytest.importorskip("distributed")
pytestmark = [pytest.mark.dask, pytest.mark.nightly(group="faults"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def fields():
    """Few targets, and a task of some tenths of a second: time enough for a fault in its midst."""
    return {
        "seed": 5,
        "targets": {"random": 6},
        "group_sizes": [4],
        "periods": [{"name": "all", "first": 0, "epochs": 48}],
        "priors": [{"name": "known_subset", "alpha": 0.5, "training": 400, "challenges": 40}],
        "mechanisms": [{"name": "exact"}],
        "attacks": [{"name": "forest"}, {"name": "projection"}],
        "verdict": {"trials": 40},
    }


@pytest.fixture(scope="module")
def reference(fields, cube, tmp_path_factory):
    """What an undisturbed serial run finds."""
    return run(
        AuditPlan(**fields), cube, tmp_path_factory.mktemp("reference") / "run", SerialExecutor()
    ).load()


@pytest.fixture
def audit(fields, cube, tmp_path):
    """Run the audit on an executor; always in the same folder."""
    return lambda executor: run(AuditPlan(**fields), cube, tmp_path / "run", executor).load()


def same(left, right):
    """Compare two results bit by bit, but for the time that things took."""
    xr.testing.assert_identical(left.drop_vars("seconds"), right.drop_vars("seconds"))


def check_isolated(found, reference, target, error):
    """Only ``target`` has failed, for ``error``; all others are what they were."""
    failed = found.sel(target=target)
    assert (failed.status == "failed").all()
    assert all(str(text).startswith(error) for text in failed.error.values.ravel())
    others = [each for each in reference.target.values if each != target]
    names = [name for name in ("auc", "auc_low", "status", "level_inside", "epsilon_lower")]
    xr.testing.assert_identical(
        found[names].sel(target=others), reference[names].sel(target=others)
    )


def test_a_killed_worker_costs_nothing(audit, reference, tmp_path):
    harm = partial(poison.die_once, str(tmp_path / "killed"))
    bad = partial(poison.is_target, int(reference.target[2]))
    with Local(workers=2).open() as executor:
        same(reference, audit(poison.Poisoned(executor, harm, bad)))
    assert (tmp_path / "killed").exists()


def test_a_poison_task_is_found_and_the_rest_completes(audit, reference, tmp_path):
    target = int(reference.target[3])
    with Local(workers=2).open() as executor:
        found = audit(poison.Poisoned(executor, poison.die, partial(poison.is_target, target)))
        check_isolated(found, reference, target, "WorkerLostError: 4 workers died of it")
        told = (tmp_path / "run" / "failures.txt").read_text()
        assert told.startswith(
            f"target {target}, all, known_subset(alpha=0.5, challenges=40), groups of 4\n"
        )
        same(reference, audit(executor))
    assert not (tmp_path / "run" / "failures.txt").exists()


def test_a_worker_out_of_memory_costs_only_who_used_it(audit, reference):
    target = int(reference.target[0])
    with Local(workers=2, memory="900MB").open() as executor:
        bad = partial(poison.is_target, target)
        found = audit(poison.Poisoned(executor, poison.eat_memory, bad))
    check_isolated(found, reference, target, "WorkerLostError: 4 workers died of it")


def test_what_hangs_is_given_up_and_told_where_it_was(audit, reference, tmp_path):
    target = int(reference.target[5])
    with Local(workers=2, patience=20).open() as executor:
        found = audit(poison.Poisoned(executor, poison.hang, partial(poison.is_target, target)))
        check_isolated(found, reference, target, "StalledError: nothing was finished for 20 s")
        told = (tmp_path / "run" / "failures.txt").read_text()
        assert "2 workers" in told
        assert "time.sleep(1e6)" in told or "in hang" in told
        same(reference, audit(executor))


def test_a_cluster_that_hangs_altogether_is_given_up():
    with Local(workers=1, patience=8).open() as executor:
        batches = executor.map_batches(time.sleep, [1e6] * 9)
        ended = [each for _ in range(2) for each in next(batches)]
        assert all(isinstance(each.error, StalledError) for each in ended)
        with pytest.raises(StalledError, match="nothing was finished for 8 seconds"):
            list(batches)


def test_a_result_that_cannot_travel_is_an_error_of_its_item():
    with Local(workers=1).open() as executor:
        (finished,) = next(executor.map_batches(lambda item: (each for each in [item]), [1]))
        assert isinstance(finished.error, Exception)
        assert next(executor.map_batches(abs, [-3]))[0].value == 3


def test_an_error_that_cannot_travel_says_what_it_was():
    class Odd(Exception):
        def __reduce__(self):
            raise TypeError("not me")

    def fail(item):
        raise Odd(f"at {item}")

    with Local(workers=1).open() as executor:
        (finished,) = next(executor.map_batches(fail, [7]))
    assert str(finished.error) == "Odd: at 7"
    assert "in fail" in finished.traceback


def test_a_lost_node_costs_nothing(audit, reference, tmp_path):
    port = free_port()
    harm = partial(poison.leave_with_nanny, str(tmp_path / "lost"))
    bad = partial(poison.is_target, int(reference.target[1]))
    with scheduler(port), worker(port), worker(port), joined(port) as executor:
        executor._client.wait_for_workers(2, timeout=60)
        same(reference, audit(poison.Poisoned(executor, harm, bad)))
        assert executor.n_workers == 1


def test_results_that_went_with_their_worker_are_made_anew():
    """Finished, but not fetched yet, when the only worker that had them ends."""
    port, seen = free_port(), []
    with ExitStack() as stack:
        stack.enter_context(scheduler(port))
        first = stack.enter_context(worker(port))
        executor = stack.enter_context(joined(port, window=6))
        for batch in executor.map_batches(partial(poison.after, 0.3), range(6)):
            seen += [each.value for each in batch]
            if len(seen) == 1:
                time.sleep(3)  # the others are finished by now
                end(first)
                stack.enter_context(worker(port))
    assert sorted(seen) == list(range(6))


def test_workers_that_live_shorter_than_the_work():
    """As under a batch system: each ends after a while, and another comes in its place."""
    port = free_port()
    life = ("--lifetime", "6s", "--lifetime-stagger", "2s", "--lifetime-restart")
    with scheduler(port), worker(port, *life), worker(port, *life), joined(port) as executor:
        executor._client.wait_for_workers(2, timeout=60)
        first = set(executor._client.nthreads())
        ended = list(chain(*executor.map_batches(partial(poison.after, 0.7), range(24))))
        assert sorted(each.value for each in ended) == list(range(24))
        assert not first & set(executor._client.nthreads())


def test_a_lost_scheduler_that_comes_back(audit, reference, tmp_path):
    port, marker = free_port(), tmp_path / "lost"
    with ExitStack() as stack:
        first = stack.enter_context(scheduler(port))
        stack.enter_context(worker(port))
        executor = stack.enter_context(joined(port))

        def replace():
            marker.touch()
            end(first)
            stack.enter_context(scheduler(port))
            stack.enter_context(worker(port))

        same(reference, audit(poison.Losing(executor, replace)))
        assert marker.exists()


def test_a_scheduler_that_is_gone_ends_the_run_and_keeps_what_was_finished(audit, reference):
    port, told = free_port(), "the scheduler was lost; what was finished is kept"
    with (
        scheduler(port) as first,
        worker(port),
        joined(port, comes_back=False) as executor,
        pytest.raises(ClusterError, match=told),
    ):
        audit(poison.Losing(executor, lambda: end(first)))
    same(reference, audit(SerialExecutor()))


def test_a_cluster_without_workers_is_told(cube):
    port = free_port()
    told = "no worker came within 3 seconds"
    with (
        scheduler(port),
        joined(port, patience=3) as executor,
        pytest.raises(ClusterError, match=told),
    ):
        executor.preflight(int)


def test_what_differs_is_told_in_one_error_before_anything_runs(audit, tmp_path):
    """A worker with another scipy, two threads, and nothing where the cube is to be."""
    fake = tmp_path / "site" / "scipy-0.1.dist-info"
    fake.mkdir(parents=True)
    (fake / "METADATA").write_text("Metadata-Version: 2.1\nName: scipy\nVersion: 0.1\n")
    port = free_port()
    odd = {"PYTHONPATH": f"{tmp_path / 'site'}:{os.environ.get('PYTHONPATH', '')}"}
    with (
        scheduler(port),
        worker(port, "--nthreads", 2, "--memory-limit", "1GB", environment=odd),
        joined(port) as executor,
        pytest.raises(ClusterError) as caught,
    ):
        audit(executor)
    told = str(caught.value)
    assert "has 2 threads: give each worker one" in told
    assert "scipy is 0.1 there and" in told
    assert not (tmp_path / "run").exists()


def test_a_cube_that_workers_cannot_read_is_told_before_anything_runs():
    def probe():
        raise FileNotFoundError("nowhere/cube.zarr: nothing is stored there")

    with Local(workers=2).open() as executor, pytest.raises(ClusterError) as caught:
        executor.preflight(probe)
    assert "FileNotFoundError: nowhere/cube.zarr: nothing is stored there" in str(caught.value)
    assert str(caught.value).count("nowhere") == 1, "one line for all workers"
