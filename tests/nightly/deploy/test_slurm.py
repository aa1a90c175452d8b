"""Audits on a real Slurm of two nodes, undisturbed and disturbed, give the bits of a serial run."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import yaml
from conftest import draw_dense, write_cube
from doubles.gate import Gate
from doubles.slurm import Queue
from doubles.waiting import LIMIT
from oracles.disks import fill, make_read_only, small_disk

import clusterscale

pytest.importorskip("dask_jobqueue")
pytest.importorskip("cryptography")

pytestmark = [
    pytest.mark.nightly(group="slurm"),
    pytest.mark.dask,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("slurm-audits"),
]

COMMAND = Path(sys.executable).with_name("clusterscale")
SCRIPTS = Path(__file__).parents[3] / "deploy" / "slurm"


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A cube of 150 users, 100 ROIs and a week: its matrices are large enough for BLAS threads."""
    dense = draw_dense(np.random.default_rng(5), 150, 100, 168)
    return write_cube(str(tmp_path_factory.mktemp("cube") / "crowd.zarr"), dense).uri


class Run(Queue):
    """One config: how it is started, and what came of it."""

    def __init__(self, folder, cube, env, **cluster):
        self.gate = Gate(folder / "gate")
        super().__init__(env | self.gate.environment)
        self.folder, self.output = folder, folder / "output"
        self.shared, self.config = folder / "shared", folder / "config.yaml"
        place = {"interface": "lo", "shared": str(self.shared)}
        if cluster["name"] == "slurm":
            place["memory"] = "900MiB"
        fields = {
            "cube": cube,
            "output": str(self.output),
            "cluster": cluster if cluster["name"] == "serial" else place | cluster,
            "audit": {
                "seed": 1,
                "targets": {"tertiles": 10},
                "periods": [{"name": "week", "first": 0, "epochs": 168}],
                "priors": [
                    {
                        "name": "known_subset",
                        "alpha": 0.5,
                        "training": 40,
                        "challenges": 20,
                        "validation": 20,
                    }
                ],
                "group_sizes": [20],
                "mechanisms": [{"name": "exact"}],
                "attacks": [{"name": "logistic"}, {"name": "projection"}],
            },
        }
        self.config.write_text(yaml.safe_dump(fields))

    def start(self, verb="audit", *options):
        return subprocess.Popen(
            [COMMAND, verb, self.config, *options],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, verb="audit", *options):
        """Run to the end and return what was said."""
        return ended(self.start(verb, *options))

    def submit(self, verb, *options, n_tasks=4, script="allocation.sh"):
        """Submit a script; return the number of the job."""
        size = ("--ntasks", str(n_tasks), "--mem-per-cpu", "900M", "--time", "60")
        log = ("--output", f"{self.folder}/job-%j.log", "--chdir", self.folder)
        name = ("--parsable", "--job-name", self.folder.name)
        command = ["sbatch", *name, *size, *log, *options, SCRIPTS / script, verb, self.config]
        return self.ask(*command).strip()

    def submit_held(self, n_batches, **options):
        """Submit an audit that waits at the gate once so many batches are kept."""
        self.gate.shut(n_batches)
        job = self.submit("audit", **options)
        self.until(lambda: len(self.kept()) == n_batches)
        return job

    def kept(self):
        """Return the files of the journal, one for each batch of tasks."""
        return {file.name for file in (self.output / "journal").glob("*.record")}

    def workers(self):
        """Return the logs of those jobs whose worker has joined the scheduler."""
        logs = {file: file.read_text() for file in self.shared.glob("logs/*.err")}
        return {file: text for file, text in logs.items() if "Registered to:" in text}

    def said(self):
        """Return the ends of all logs, Slurm's own as well."""
        logs = [*self.folder.glob("job-*.log"), *self.shared.glob("logs/*.err")]
        own = "\n".join(f"{log.name}: {log.read_text()[-3000:]}" for log in logs)
        return f"{own}\n{super().said()}"

    def log(self, job):
        """Return what all runs of an allocation wrote."""
        file = self.folder / f"job-{job}.log"
        return file.read_text() if file.exists() else ""

    def results(self, where="results.zarr"):
        return xr.open_zarr(self.output / where, consolidated=False).load()


def ended(process, code=0):
    """Return what a process said until it ended; kill it if it does not end."""
    try:
        said, _ = process.communicate(timeout=2 * LIMIT)
    finally:
        process.kill()
    assert process.returncode == code, said
    return said


@pytest.fixture(scope="module")
def serial(crowd, tmp_path_factory):
    """A serial run of the audit, and of its screen."""
    run = Run(tmp_path_factory.mktemp("serial"), crowd, os.environ, name="serial")
    run.finish("audit")
    run.finish("screen")
    return run


def errors(log):
    """Return what a log reports as errors, but for heartbeats of workers that end.

    A worker that closes its connections while a heartbeat is on its way logs an error.
    """
    records = re.split(r"^(?=\d{4}-\d\d-\d\d )", log, flags=re.MULTILINE)
    ending = (i for i, one in enumerate(records) if re.search("Stopping worker|Closing Nanny", one))
    end = next(ending, len(records))
    late = [one for one in records[end:] if "scheduler during heartbeat" in one]
    return [one for one in records if one not in late and ("Traceback" in one or "ERROR" in one)]


def same(left, right):
    """Compare two results bit by bit, but for the time that things took."""
    times = [name for name in left.variables if "seconds" in str(name)]
    xr.testing.assert_identical(left.drop_vars(times), right.drop_vars(times))


@pytest.fixture
def start(tmp_path, crowd, slurm):
    """Return what makes a run, and see to it that nothing of it is left."""
    env = slurm | {"CLUSTERSCALE": str(COMMAND)}

    def make(**cluster):
        folder = tmp_path / cluster["name"]
        folder.mkdir()
        return Run(folder, crowd, env, **cluster)

    yield make
    Queue(env).empty()


@contextmanager
def killed_in_the_end(process):
    with process:  # whose pipe is closed, too
        try:
            yield process
        finally:
            process.kill()


def test_audit_and_screen_by_jobs(start, serial):
    run = start(name="slurm", jobs=2)
    run.finish("audit")
    run.finish("screen", "--workers", "2")
    same(serial.results(), run.results())
    same(serial.results("screen/results.zarr"), run.results("screen/results.zarr"))
    assert run.jobs() == []
    assert [path.name for path in run.shared.iterdir()] == ["logs"], "certificates were left"
    logs = [log.read_text() for log in run.shared.glob("logs/*.err")]
    assert all("Registered to:" in log for log in logs)
    assert all("tls://" in log and "tcp://" not in log for log in logs)
    assert [errors(log) for log in logs] == [[] for _ in logs]


def test_audit_and_screen_in_one_allocation(start, serial):
    run = start(name="slurm-allocation")
    for verb in ("audit", "screen"):
        job = run.submit(verb)
        assert run.wait(job) == ("COMPLETED", "0:0"), run.said()
        assert errors(run.log(job)) == []
    same(serial.results(), run.results())
    same(serial.results("screen/results.zarr"), run.results("screen/results.zarr"))
    assert list(run.shared.iterdir()) == [], "certificates were left"
    assert not list(run.folder.glob(".*"))


def test_an_allocation_writes_nothing_where_it_was_submitted(start, serial):
    run = start(name="slurm-allocation")
    job = run.submit("audit", "--chdir", "/proc")
    assert run.wait(job) == ("COMPLETED", "0:0"), run.said()
    assert "queues again" not in run.log(job)
    same(serial.results(), run.results())


def test_a_walltime_that_is_too_near_to_the_signal_is_refused(start):
    run = start(name="slurm-allocation")
    job = run.submit("audit", "--time", "10")
    assert run.wait(job) == ("FAILED", "2:0"), run.said()
    assert "stopped 300 seconds before its walltime" in run.log(job)
    assert "give it at least --time=11" in run.log(job)


def test_an_allocation_that_cannot_run_ends_at_once(start):
    run = start(name="slurm-allocation")
    run.config.write_text(run.config.read_text().replace("known_subset", "known_subway"))
    assert run.wait(run.submit("audit")) == ("FAILED", "2:0"), run.said()
    assert "known_subway" in run.said()


def test_an_allocation_that_is_lost_too_often_gives_up(start):
    run = start(name="slurm-allocation")
    run.env = run.env | {"LOSSES": "1"}
    assert run.wait(run.submit("audit", n_tasks=2)) == ("FAILED", "75:0"), run.said()
    assert "a job of 2 tasks is too small" in run.said()
    assert "run 1 ended with 75 before the audit was done, and it was lost 1 times" in run.said()
    assert not list(run.folder.glob(".*"))


def test_a_cancelled_job_is_replaced_and_strangers_are_kept_out(start, serial):
    from distributed import Client

    run = start(name="slurm", jobs=1)
    run.gate.shut(1)
    with killed_in_the_end(run.start()) as driver:
        run.until(lambda: len(run.kept()) == 1)
        (log,) = run.workers().values()
        address = log.partition("Registered to:")[2].split()[0]
        assert address.startswith("tls://")
        with pytest.raises(OSError, match=r"Timed out|in <TCP"):
            Client(address.replace("tls://", "tcp://"), timeout=2)
        (job,) = run.jobs()
        number = job.split()[0]
        run.ask("scancel", number)
        # The gate stays shut until the first job has ended: only another one can do the rest.
        assert run.wait(number)[0] == "CANCELLED"
        run.gate.open()
        ended(driver)
    assert len(run.workers()) == 2
    same(serial.results(), run.results())


def test_a_driver_that_is_ended_leaves_no_jobs(start, serial):
    """SIGTERM makes the driver cancel its jobs; after SIGKILL the workers notice its absence."""
    run = start(name="slurm", jobs=2)
    run.gate.shut(2)
    with killed_in_the_end(run.start()) as driver:
        run.until(lambda: len(run.kept()) == 2)
        kept = run.kept()
        driver.send_signal(signal.SIGTERM)
        ended(driver, 143)
    run.until(lambda: run.jobs() == [])
    before = set(run.workers())
    with killed_in_the_end(run.start()) as driver:
        run.until(lambda: len(set(run.workers()) - before) == 2)
        driver.kill()
        driver.communicate()
    run.until(lambda: run.jobs() == [])
    assert kept <= run.kept()  # a worker that closes ends its task, and writes the result itself
    run.gate.open()
    run.finish()  # with what was kept
    same(serial.results(), run.results())


def test_a_job_that_slurm_refuses_is_told(start):
    run = start(name="slurm", queue="nowhere")
    said = ended(run.start(), 75)
    assert "the batch system accepts no job" in said
    assert "invalid partition" in said
    assert "Traceback" not in said


def test_jobs_are_replaced_when_their_walltime_is_near(start, serial):
    run = start(name="slurm", jobs=1, walltime="00:10:00")
    run.gate.shut(1)
    with killed_in_the_end(run.start()) as driver:
        run.until(lambda: len(run.kept()) == 1)
        (job,) = run.jobs()
        number = job.split()[0]
        # Slurm knows the walltime, and the worker is to leave before it: by then Dask calls what
        # the gate calls here without waiting for that time.
        assert run.fact(number, "TimeLimit") == "00:10:00"
        (lifetime,) = run.gate.lifetimes
        assert 240 <= lifetime <= 480
        run.gate.expire_one_worker()
        # The job ends by itself when its worker has left, and only another one can do the rest.
        assert run.wait(number) == ("COMPLETED", "0:0"), run.said()
        run.gate.open()
        ended(driver)
    assert len(run.workers()) == 2
    same(serial.results(), run.results())


def test_an_allocation_queues_again_when_its_walltime_is_near(start, serial):
    run = start(name="slurm-allocation")
    job = run.submit_held(3, n_tasks=3)
    kept = run.kept()
    # The script asks Slurm for a signal 300 seconds before the walltime: with a walltime that is
    # nearer than that, Slurm sends it when it next looks at walltimes, every 30 seconds.
    run.update(job, "TimeLimit=5")
    run.run_again(job)
    run.update(job, "TimeLimit=60")
    assert "run 1 ended with 143 before the audit was done" in run.log(job)
    assert errors(run.log(job)) == []
    assert run.kept() >= kept
    run.gate.open()
    assert run.wait(job) == ("COMPLETED", "0:0"), run.said()
    same(serial.results(), run.results())


def test_an_allocation_that_finishes_nothing_before_its_walltime_gives_up(start, serial):
    run = start(name="slurm-allocation")
    shutil.copytree(serial.output, run.output)  # all that an audit does before its tasks
    for name in ("journal", "results.zarr"):
        shutil.rmtree(run.output / name)
    run.gate.shut(0, firmly=True)
    job = run.submit("audit", n_tasks=3)
    run.until(lambda: "dashboard" in run.log(job))
    run.update(job, "TimeLimit=5")
    assert run.wait(job) == ("FAILED", "143:0"), run.said()
    assert "it finished nothing: a task needs more time than --time" in run.log(job)
    assert run.kept() == set()


def test_an_audit_as_a_job_array(start, serial):
    run = start(name="slurm-allocation")
    job = run.submit("audit", "--array=0-3", n_tasks=1, script="array.sh")
    run.until(lambda: not run.jobs())
    for element in range(4):
        number = run.fact(f"{job}_{element}", "JobId")
        assert run.wait(number) == ("COMPLETED", "0:0"), run.said()
    same(serial.results(), run.results())
    assert list(run.shared.iterdir()) == [], "certificates were left"


def test_a_job_array_stops_before_its_walltime_and_takes_no_gaps(start, serial):
    run = start(name="slurm-allocation")
    job = run.submit("audit", "--array=1-3", n_tasks=1, script="array.sh")
    run.until(lambda: not run.jobs())
    assert run.fact(run.fact(f"{job}_1", "JobId"), "ExitCode") == "2:0"
    run.gate.shut(2)
    # Two nodes of two processors: the last two elements wait.
    job = run.submit("audit", "--array=0-5", n_tasks=1, script="array.sh")
    run.until(lambda: len(run.kept()) == 2)
    driver = run.fact(f"{job}_1", "JobId")
    with suppress(AssertionError):  # the command sends it twice, and finds that the job has ended
        run.ask("scancel", "--batch", "--signal=TERM", driver)
    assert run.wait(driver) == ("FAILED", "143:0"), run.said()
    run.until(lambda: not run.jobs())
    run.gate.open()
    job = run.submit("audit", "--array=0-3", n_tasks=1, script="array.sh")
    assert run.wait(run.fact(f"{job}_1", "JobId")) == ("COMPLETED", "0:0"), run.said()
    same(serial.results(), run.results())


@contextmanager
def out_of_service(run, node, state):
    """Take a node out of service, as an administrator does."""
    run.ask("scontrol", "update", f"NodeName={node}", f"State={state}", "Reason=test")
    try:
        yield
    finally:
        with suppress(AssertionError):  # a node that is only down comes back by itself
            run.ask("scontrol", "update", f"NodeName={node}", "State=RESUME")


def test_a_node_is_drained_below_an_allocation(start, serial):
    run = start(name="slurm-allocation")
    job = run.submit_held(2)
    with out_of_service(run, "n2", "DRAIN"):
        run.gate.open()
        assert run.wait(job) == ("COMPLETED", "0:0"), run.said()
    assert run.fact(job, "Restarts") == "0"
    same(serial.results(), run.results())


def test_an_allocation_queues_again_when_it_loses_a_node(start, serial):
    run = start(name="slurm-allocation")
    job = run.submit_held(2)
    kept = run.kept()
    with out_of_service(run, "n2", "DOWN"):
        run.until(lambda: run.fact(job, "Restarts") == "1")
    run.gate.open()
    run.run_again(job, delay=15)
    assert run.wait(job) == ("COMPLETED", "0:0"), run.said()
    assert kept <= run.kept()
    same(serial.results(), run.results())


def test_jobs_on_a_lost_node_are_replaced(start, serial):
    run = start(name="slurm", jobs=2)
    run.gate.shut(2)
    with killed_in_the_end(run.start()) as driver:
        run.until(lambda: len(run.kept()) == 2)
        with out_of_service(run, "n1", "DOWN"):
            run.gate.open()
            ended(driver)
    same(serial.results(), run.results())


def test_a_quota_that_is_full_ends_an_allocation_which_goes_on_later(start, serial):
    run = start(name="slurm-allocation")
    with small_disk(run.output, 16) as disk:
        run.env = run.env | {"LOSSES": "1"}
        job = run.submit_held(2)
        kept = run.kept()
        fill(disk)
        run.gate.open()
        assert run.wait(job) == ("FAILED", "75:0"), run.said()
        assert "is full; finished work is kept; free some space" in run.log(job)
        (disk / "ballast").unlink()
        job = run.submit("audit")
        assert run.wait(job) == ("COMPLETED", "0:0"), run.said()
        assert kept <= run.kept()
        same(serial.results(), run.results())


def test_software_and_home_are_read_only(start, serial, tmp_path):
    run = start(name="slurm-allocation")
    with small_disk(tmp_path / "software", 64) as software:
        package = software / "clusterscale"
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(clusterscale.__file__).parent, package, ignore=without)
        make_read_only(software)
        run.env = run.env | {"HOME": str(software), "PYTHONPATH": f"{software}"}
        for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
            run.env.pop(name, None)
        job = run.submit("audit")
        assert run.wait(job) == ("COMPLETED", "0:0"), run.said()
        assert errors(run.log(job)) == []
        assert not list(package.rglob("__pycache__"))
    same(serial.results(), run.results())
