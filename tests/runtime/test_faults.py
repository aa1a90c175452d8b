"""Faults of a cluster: no finished result is lost, and none is wrong.

Every fault occurs at an event: in a certain task, or when a certain number of batches has ended.
"""

import os
import time
from contextlib import ExitStack
from functools import partial
from itertools import count, takewhile

import pytest
import xarray as xr
from oracles import poison
from oracles.processes import LIMIT, end, joined, reserved_port, scheduler, worker
from running import run

from clusterscale.analyses.audit import AuditPlan
from clusterscale.errors import ClusterError, StalledError
from clusterscale.runtime import Local, SerialExecutor

pytest.importorskip("distributed")
from clusterscale.runtime.dask import DaskExecutor

pytestmark = [pytest.mark.dask, pytest.mark.nightly(group="faults"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def fields():
    """Return a plan of six tasks of a few milliseconds each, and a price."""
    return {
        "seed": 5,
        "targets": {"random": 6},
        "group_sizes": [4],
        "periods": [{"name": "all", "first": 0, "epochs": 48}],
        "priors": [{"name": "known_subset", "alpha": 0.5, "training": 40, "challenges": 20}],
        "mechanisms": [{"name": "exact"}],
        "attacks": [{"name": "logistic"}, {"name": "projection"}],
        "verdict": {"trials": 40},
    }


@pytest.fixture(scope="module")
def reference(fields, cube, tmp_path_factory):
    """Return the results of a serial run without faults."""
    return run(
        AuditPlan(**fields), cube, tmp_path_factory.mktemp("reference") / "run", SerialExecutor()
    ).load()


@pytest.fixture
def audit(fields, cube, tmp_path):
    """Return a function that runs the audit on an executor, always in the same folder."""
    return lambda executor: run(AuditPlan(**fields), cube, tmp_path / "run", executor).load()


def environment():
    """Return the environment of this process, without the variables of pytest."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}


@pytest.fixture(scope="module")
def local():
    """A cluster that outlives the loss of its workers, which are replaced, and leaves nothing."""
    before = environment()
    with Local(workers=2).open() as executor:
        yield executor
    assert environment() == before


@pytest.fixture
def executor(local):
    """The same cluster when both of its workers are there."""
    local._client.wait_for_workers(2, timeout=LIMIT)
    return local


@pytest.fixture
def port():
    with reserved_port() as number:
        yield number


def same(left, right):
    """Compare two results bit by bit, except for the time that each took."""
    xr.testing.assert_identical(left.drop_vars("seconds"), right.drop_vars("seconds"))


def check_isolated(found, reference, target, error):
    """Assert that only ``target`` has failed, with ``error``, and all others are unchanged."""
    failed = found.sel(target=target)
    assert (failed.status == "failed").all()
    assert all(str(text).startswith(error) for text in failed.error.values.ravel())
    others = [each for each in reference.target.values if each != target]
    names = ["auc", "auc_low", "status", "level_inside", "epsilon_lower"]
    xr.testing.assert_identical(
        found[names].sel(target=others), reference[names].sel(target=others)
    )


def test_a_killed_worker_costs_nothing(audit, executor, reference, tmp_path):
    harm = partial(poison.die_once, str(tmp_path / "killed"))
    bad = partial(poison.is_target, int(reference.target[2]))
    same(reference, audit(poison.Poisoned(executor, harm, bad)))
    assert (tmp_path / "killed").exists()


def test_a_poison_task_is_found_and_the_rest_completes(audit, executor, reference, tmp_path):
    target = int(reference.target[3])
    found = audit(poison.Poisoned(executor, poison.die, partial(poison.is_target, target)))
    check_isolated(found, reference, target, "WorkerLostError: 4 workers died while running it")
    told = (tmp_path / "run" / "failures.txt").read_text()
    assert told.startswith(
        f"target {target}, all, known_subset(alpha=0.5, training=40, challenges=20), groups of 4\n"
    )
    assert len(executor._client.cluster.workers) == 2, "a worker that is started again is kept"
    same(reference, audit(executor))
    assert not (tmp_path / "run" / "failures.txt").exists()


def test_a_worker_out_of_memory_costs_only_who_used_it(audit, reference):
    """Each worker may fail its task once only: the test before has it fail as often as allowed."""
    target = int(reference.target[0])
    with Local(workers=2, memory="900MB").open() as executor:
        executor._client.cluster.scheduler.allowed_failures = 0
        harm = partial(poison.fill_memory, 1_200_000_000)
        found = audit(poison.Poisoned(executor, harm, partial(poison.is_target, target)))
    check_isolated(found, reference, target, "WorkerLostError: 1 workers died while running it")


def test_what_hangs_is_given_up_and_told_where_it_was(audit, executor, reference, tmp_path):
    target, lock = int(reference.target[5]), str(tmp_path / "lock")
    patient = DaskExecutor(executor._client, patience=20, clock=poison.HangClock(lock, step=30))
    harm = partial(poison.hang_with_lock, lock)
    found = audit(poison.Poisoned(patient, harm, partial(poison.is_target, target)))
    check_isolated(found, reference, target, "StalledError: nothing was finished for 20 s")
    told = (tmp_path / "run" / "failures.txt").read_text()
    assert "2 workers" in told
    assert "time.sleep(1e6)" in told or "in hang" in told
    same(reference, audit(patient))


def test_a_cluster_that_hangs_altogether_is_given_up():
    with Local(workers=1).open() as executor:
        impatient = DaskExecutor(executor._client, patience=8, clock=partial(next, count(0, 9)))
        batches = impatient.map_batches(time.sleep, [1e6] * 9)
        ended = [each for _ in range(2) for each in next(batches)]
        assert all(isinstance(each.error, StalledError) for each in ended)
        with pytest.raises(StalledError, match="nothing was finished for 8 seconds"):
            list(batches)


def test_a_result_that_cannot_travel_is_an_error_of_its_item(executor):
    (finished,) = next(executor.map_batches(lambda item: (each for each in [item]), [1]))
    assert isinstance(finished.error, Exception)
    assert next(executor.map_batches(abs, [-3]))[0].value == 3


def test_an_error_that_cannot_travel_says_what_it_was(executor):
    class Odd(Exception):
        def __reduce__(self):
            raise TypeError("not me")

    def fail(item):
        raise Odd(f"at {item}")

    (finished,) = next(executor.map_batches(fail, [7]))
    assert str(finished.error) == "Odd: at 7"
    assert "in fail" in finished.traceback


def test_a_lost_node_costs_nothing(audit, reference, port, tmp_path):
    harm = partial(poison.leave_with_nanny, str(tmp_path / "lost"))
    bad = partial(poison.is_target, int(reference.target[1]))
    with scheduler(port), worker(port), worker(port), joined(port) as executor:
        executor._client.wait_for_workers(2, timeout=LIMIT)
        same(reference, audit(poison.Poisoned(executor, harm, bad)))
        assert executor.n_workers == 1
    assert (tmp_path / "lost").exists()


def wait_for_results(client, n_results):
    """Wait until all tasks of a client have finished, at least so many of them."""
    assert len(client.futures) >= n_results
    while any(state.status != "finished" for state in list(client.futures.values())):
        time.sleep(0.01)


def test_results_that_went_with_their_worker_are_made_anew(port):
    """Finished, but not fetched yet, when the only worker that had them ends."""
    seen = []
    with ExitStack() as stack:
        stack.enter_context(scheduler(port))
        first = stack.enter_context(worker(port))
        executor = stack.enter_context(joined(port, window=6))
        for batch in executor.map_batches(abs, range(6)):
            if not seen:
                wait_for_results(executor._client, 5)
                end(first)
                stack.enter_context(worker(port))
            seen += [each.value for each in batch]
    assert sorted(seen) == list(range(6))


def test_workers_that_live_shorter_than_the_work(port, tmp_path):
    """As under a batch system: each ends in the midst of a task, and another takes its place."""
    replaced, left, ended = tmp_path / "replaced", [None], []
    again = "--lifetime-restart"
    with scheduler(port), worker(port, again), worker(port, again), joined(port) as executor:
        client = executor._client
        client.wait_for_workers(2, timeout=LIMIT)
        first = sorted(client.nthreads())
        items = takewhile(lambda item: left, count())
        task = partial(poison.leave_gracefully, first, str(replaced))
        for batch in executor.map_batches(task, items):
            ended += [each.value for each in batch]
            there = client.nthreads()
            left = [address for address in first if address in there]
            if first[0] not in there and len(there) == 2:
                replaced.touch()
    assert sorted(ended) == list(range(len(ended)))


def test_a_lost_scheduler_that_comes_back(audit, reference, port, tmp_path):
    marker = tmp_path / "lost"
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


def test_a_scheduler_that_is_gone_ends_the_run_and_keeps_what_was_finished(
    audit, reference, port, tmp_path
):
    told = "the scheduler was lost; finished work is kept"
    with (
        scheduler(port) as first,
        worker(port),
        joined(port, comes_back=False) as executor,
        pytest.raises(ClusterError, match=told),
    ):
        audit(poison.Losing(executor, lambda: end(first)))
    folders = [tmp_path / "run" / name for name in ("journal", "evaluations")]
    kept = {path: path.read_bytes() for folder in folders for path in folder.iterdir()}
    assert len(kept) >= 2, "what the driver heard of, and what a worker had written besides"
    same(reference, audit(SerialExecutor()))
    assert all(path.read_bytes() == content for path, content in kept.items())


def test_a_cluster_without_workers_is_told(port):
    told = r"no worker connected within 0\.1 seconds"
    with (
        scheduler(port),
        joined(port, patience=0.1) as executor,
        pytest.raises(ClusterError, match=told),
    ):
        executor.preflight(int)


def test_what_differs_is_told_in_one_error_before_anything_runs(audit, port, tmp_path):
    """A worker with another scipy and two threads."""
    fake = tmp_path / "site" / "scipy-0.1.dist-info"
    fake.mkdir(parents=True)
    (fake / "METADATA").write_text("Metadata-Version: 2.1\nName: scipy\nVersion: 0.1\n")
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


def test_a_cube_that_workers_cannot_read_is_told_before_anything_runs(executor):
    def probe():
        raise FileNotFoundError("nowhere/cube.zarr: nothing is stored there")

    with pytest.raises(ClusterError) as caught:
        executor.preflight(probe)
    assert "FileNotFoundError: nowhere/cube.zarr: nothing is stored there" in str(caught.value)
    assert str(caught.value).count("nowhere") == 1, "one line for all workers"
