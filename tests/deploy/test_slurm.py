"""Audits on a real Slurm of two nodes, undisturbed and disturbed, give the bits of a serial run."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import xarray as xr
import yaml
from doubles.slurm import Queue, start_slurm
from real.cabs import ingest_cabs

pytest.importorskip("dask_jobqueue")
pytest.importorskip("cryptography")

pytestmark = [pytest.mark.nightly(group="slurm"), pytest.mark.dask, pytest.mark.timeout(1800)]

COMMAND = Path(sys.executable).with_name("clusterscale")
SCRIPT = Path(__file__).parents[2] / "deploy" / "slurm" / "allocation.sh"
CHEAP = {"training": 40, "challenges": 20, "validation": 20}
LONG = {"training": 1300, "challenges": 200, "validation": 200}


@pytest.fixture(scope="module")
def slurm(real_data):
    with start_slurm(real_data) as env:
        yield env | {"CLUSTERSCALE": str(COMMAND)}


@pytest.fixture(scope="module")
def cabs(tmp_path_factory, real_data):
    return ingest_cabs(real_data, str(tmp_path_factory.mktemp("cube") / "cabs.zarr")).uri


class Run(Queue):
    """One config: how it is started, and what came of it."""

    def __init__(self, folder, cabs, env, size, **cluster):
        super().__init__(env)
        self.folder, self.output = folder, folder / "output"
        self.shared, self.config = folder / "shared", folder / "config.yaml"
        place = {"interface": "lo", "shared": str(self.shared)}
        if cluster["name"] == "slurm":
            place["memory"] = "900MiB"
        fields = {
            "cube": cabs,
            "output": str(self.output),
            "cluster": cluster if cluster["name"] == "serial" else place | cluster,
            "audit": {
                "seed": 1,
                "targets": {"tertiles": 10},
                "periods": [{"name": "week", "first": 0, "epochs": 168}],
                "priors": [{"name": "known_subset", "alpha": 0.5, **size}],
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

    def submit(self, verb, *options, n_tasks=4):
        """Submit the allocation script; return the number of the job."""
        size = ("--ntasks", str(n_tasks), "--mem-per-cpu", "900M", "--time", "10")
        log = ("--output", f"{self.folder}/job-%j.log", "--chdir", self.folder)
        name = ("--parsable", "--job-name", self.folder.name)
        command = ["sbatch", *name, *size, *log, *options, SCRIPT, verb, self.config]
        return self.ask(*command).strip()

    def until(self, condition, seconds=900):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.2)

    def under_way(self, n_kept=3):
        """Wait until something is finished."""
        self.until(lambda: len(list((self.output / "journal").glob("*"))) >= n_kept)

    def wait(self, job):
        """Wait for the end of a job; return its exit code."""
        final = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY")
        self.until(lambda: self.fact(job, "JobState") in final)
        return self.fact(job, "ExitCode")

    def said(self):
        """Return the ends of all logs, Slurm's own as well."""
        logs = [*self.folder.glob("job-*.log"), *self.shared.glob("logs/*.err")]
        logs += Path(self.env.get("SLURM_CONF", "")).parent.glob("log/*.log")
        return "\n".join(f"{log.name}: {log.read_text()[-3000:]}" for log in logs)

    def log(self, job):
        """Return what all runs of an allocation wrote."""
        return (self.folder / f"job-{job}.log").read_text()

    def results(self, where="results.zarr"):
        return xr.open_zarr(self.output / where, consolidated=False).load()


def ended(process, code=0):
    said, _ = process.communicate(timeout=1200)
    assert process.returncode == code, said
    return said


@pytest.fixture(scope="module")
def serial(cabs, tmp_path_factory):
    """A serial run of the cheap audit, and of its screen."""
    run = Run(tmp_path_factory.mktemp("serial"), cabs, os.environ, CHEAP, name="serial")
    run.finish("audit")
    run.finish("screen")
    return run


def same(left, right):
    """Compare two results bit by bit, but for the time that things took."""
    times = [name for name in left.variables if "seconds" in str(name)]
    xr.testing.assert_identical(left.drop_vars(times), right.drop_vars(times))


@pytest.fixture
def start(tmp_path, cabs, slurm):
    """Return what makes a run, and see to it that nothing of it is left."""

    def make(size=CHEAP, **cluster):
        folder = tmp_path / cluster["name"]
        folder.mkdir()
        return Run(folder, cabs, slurm, size, **cluster)

    yield make
    subprocess.run(["scancel", "--user", "root"], env=slurm, check=True)


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


def test_audit_and_screen_in_one_allocation(start, serial):
    run = start(name="slurm-allocation")
    for verb in ("audit", "screen"):
        assert run.wait(run.submit(verb)) == "0:0", run.said()
    same(serial.results(), run.results())
    same(serial.results("screen/results.zarr"), run.results("screen/results.zarr"))
    assert list(run.shared.iterdir()) == [], "certificates were left"
    assert not list(run.folder.glob(".*.exit"))


def test_an_allocation_that_cannot_run_ends_at_once(start):
    run = start(name="slurm-allocation")
    run.config.write_text(run.config.read_text().replace("known_subset", "known_subway"))
    assert run.wait(run.submit("audit")) == "2:0"
    assert "known_subway" in run.said()


def test_an_allocation_that_is_lost_too_often_gives_up(start):
    run = start(name="slurm-allocation")
    run.env = run.env | {"LOSSES": "1"}
    assert run.wait(run.submit("audit", n_tasks=2)) == "75:0"
    assert "a job of 2 tasks is too small" in run.said()
    assert "run 1 ended with 75 before the audit was done, and it was lost 1 times" in run.said()
    assert not list(run.folder.glob(".*"))


def test_a_cancelled_job_is_replaced_and_strangers_are_kept_out(start, serial):
    from distributed import Client

    run = start(name="slurm", jobs=1)
    with killed_in_the_end(run.start()) as driver:
        run.under_way(1)
        (log,) = run.shared.glob("logs/*.err")
        address = log.read_text().partition("Registered to:")[2].split()[0]
        assert address.startswith("tls://")
        (job,) = run.jobs()
        run.ask("scancel", job.split()[0])  # at once: strangers are kept waiting for seconds
        with pytest.raises(OSError, match=r"Timed out|in <TCP"):
            Client(address.replace("tls://", "tcp://"), timeout=2)
        ended(driver)
    assert len(list(run.shared.glob("logs/*.err"))) == 2, "one job did it all"
    same(serial.results(), run.results())


def test_a_driver_that_is_ended_leaves_no_jobs(start, serial):
    """At once by SIGTERM; by SIGKILL as soon as the workers miss it. Then it goes on."""
    run = start(name="slurm", jobs=2)
    with killed_in_the_end(run.start()) as driver:
        run.under_way(2)
        driver.send_signal(signal.SIGTERM)
        ended(driver, 143)
    run.until(lambda: run.jobs() == [], 15)
    with killed_in_the_end(run.start()) as driver:
        run.until(lambda: any("RUNNING" in job for job in run.jobs()))
        time.sleep(3)
        driver.kill()
        driver.communicate()
    run.until(lambda: run.jobs() == [], 90)
    run.finish()
    same(serial.results(), run.results())


def test_a_job_that_slurm_refuses_is_told(start):
    run = start(name="slurm", queue="nowhere")
    said = ended(run.start(), 75)
    assert "the batch system takes no job" in said
    assert "invalid partition" in said
    assert "Traceback" not in said


def test_walltimes_shorter_than_the_audit(start):
    """Jobs are replaced; an allocation queues again. All at once, for each has one worker."""
    reference = start(LONG, name="serial")
    jobs = start(LONG, name="slurm", jobs=1, walltime="00:01:00")
    allocation = start(LONG, name="slurm-allocation")
    with killed_in_the_end(reference.start()) as alone, killed_in_the_end(jobs.start()) as driver:
        job = allocation.submit("audit", "--signal=B:USR1@5", n_tasks=3)
        allocation.under_way()
        hours, minutes, _ = map(int, allocation.fact(job, "RunTime").split(":"))
        limit = f"TimeLimit={60 * hours + minutes + 1}"
        allocation.ask("scontrol", "update", f"JobId={job}", limit)
        allocation.until(lambda: allocation.fact(job, "Restarts") == "1")
        allocation.until(lambda: allocation.fact(job, "JobState") in ("PENDING", "RUNNING"))
        allocation.ask("scontrol", "update", f"JobId={job}", "TimeLimit=10")
        with suppress(subprocess.CalledProcessError):  # it runs already
            # Slurm lets it wait for two minutes, until what its last run may do is out of date. A
            # run that begins within the second of the last one's end is refused.
            allocation.ask("scontrol", "update", f"JobId={job}", "StartTime=now+3")
        assert allocation.wait(job) == "0:0", allocation.said()
        ended(driver)
        ended(alone)
    assert "run 1 ended with 143" in allocation.log(job)
    assert len(list(jobs.shared.glob("logs/*.err"))) > 1, "the walltime was long enough"
    same(reference.results(), jobs.results())
    same(reference.results(), allocation.results())
