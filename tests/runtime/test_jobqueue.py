"""Jobs of batch systems: what is asked of them, and what happens when they do not do it."""

import os
import signal
import stat
import time
from functools import partial

import pytest
from oracles import poison

from clusterscale.errors import ClusterError, ConfigError
from clusterscale.runtime import CLUSTERS
from clusterscale.runtime.clusters.jobqueue import load_dask_jobqueue

pytest.importorskip("dask_jobqueue")
pytest.importorskip("cryptography")
pytestmark = pytest.mark.dask

# What each batch system must read in the script of a job with the fields below.
SCRIPTS = {
    "slurm": ["#SBATCH -p fast", "#SBATCH -A lab", "#SBATCH -t 02:00:00", "#SBATCH --mem=4G"],
    "pbs": ["#PBS -q fast", "#PBS -A lab", "walltime=02:00:00", "select=1:ncpus=2:mem=4096MB"],
    "moab": ["#PBS -q fast", "#PBS -A lab", "walltime=02:00:00", "select=1:ncpus=2:mem=4096MB"],
    "sge": ["#$ -q fast", "#$ -P lab", "#$ -l h_rt=02:00:00"],
    "oar": ["#OAR -q fast", "#OAR --project lab", "core=2,walltime=02:00:00"],
    "lsf": ["#BSUB -q fast", '#BSUB -P "lab"', "#BSUB -W 02:00", "#BSUB -n 2"],
    "htcondor": ["DaskWorkerCores = 2", "DaskWorkerMemory = 4294967296", "DaskWorkerDisk = 1024"],
}


def create(name, tmp_path, **fields):
    """Build a cluster that keeps to this machine."""
    return CLUSTERS.create(name, interface="lo", shared=str(tmp_path / "shared"), **fields)


def script(place, tmp_path):
    """Return what would be submitted."""
    from clusterscale.runtime.security import encrypt

    with encrypt(place.tls, tmp_path / "shared") as tls:
        module = load_dask_jobqueue()
        with place._start(module, tls, tmp_path / "logs") as cluster:
            return cluster.job_script(), cluster.scheduler_address, cluster.dashboard_link


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_same_keys_serve_every_batch_system(name, tmp_path):
    fields = {"workers_per_job": 2, "memory": "2GiB", "prologue": ["module load python"]}
    if name == "htcondor":
        fields |= {"disk": "1KiB", "directives": ["accounting_group = lab"]}
    else:
        fields |= {"queue": "fast", "account": "lab", "walltime": "02:00:00"}
        fields |= {"directives": ["--exclusive"]}
    text, address, dashboard = script(create(name, tmp_path, **fields), tmp_path)
    wanted = SCRIPTS[name] + ["accounting_group = lab" if name == "htcondor" else " --exclusive"]
    assert [line for line in wanted if line not in text] == [], text
    assert "module load python" in text
    assert "export OMP_NUM_THREADS=1" in text
    assert "--nthreads 1 --memory-limit 2.00GiB --nworkers 2 --nanny" in text
    assert "--death-timeout 60" in text
    assert "--no-dashboard --dashboard-address 127.0.0.1:0" in text
    assert ("--lifetime 6600s --lifetime-stagger 300s" in text) == (name != "htcondor")
    assert address.startswith("tls://127.0.0.1:")
    assert "--protocol tls:// --tls-ca-file " in text
    assert dashboard.startswith("http://127.0.0.1:")


def test_workers_leave_before_a_short_walltime_too(tmp_path):
    text, *_ = script(create("slurm", tmp_path, walltime="00:01:00"), tmp_path)
    assert "--lifetime 36s --lifetime-stagger 12s" in text


def test_without_encryption_if_that_is_said(tmp_path):
    text, address, _ = script(create("slurm", tmp_path, tls=False), tmp_path)
    assert address.startswith("tcp://")
    assert "tls" not in text
    assert not (tmp_path / "shared").exists()


def test_dask_jobqueue_does_not_keep_sigint():
    def mine(*_):
        raise AssertionError

    before = signal.signal(signal.SIGINT, mine)
    try:
        load_dask_jobqueue()
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"walltime": "4 hours"}, "walltime"),
        ({"walltime": "00:00:59"}, "a minute or more"),
        ({"memory": "much"}, "memory"),
        ({"jobs": 0}, "jobs"),
        ({"disk": "1GiB"}, "disk"),
    ],
)
def test_keys_are_checked(fields, fault, tmp_path):
    with pytest.raises(ConfigError, match=fault):
        create("slurm", tmp_path, **fields)


def test_workers_are_as_many_jobs_as_they_need(tmp_path):
    place = create("slurm", tmp_path, workers_per_job=4)
    assert [place.resize(n).jobs for n in (1, 4, 5)] == [1, 1, 2]


def test_logs_are_kept_for_some_days(tmp_path):
    names = ("clusterscale-1.err", "clusterscale-2.err", "thesis.txt")
    old, new, other = (tmp_path / "logs" / name for name in names)
    old.parent.mkdir()
    for file, age in ((old, 31), (new, 29), (other, 31)):
        file.touch()
        os.utime(file, times=(time.time() - age * 86_400,) * 2)
    place = CLUSTERS.create("slurm", interface="eth99", shared=str(tmp_path), tls=False)
    with pytest.raises(ClusterError):
        place.open().__enter__()
    assert [new.exists(), old.exists(), other.exists()] == [True, False, True]


def test_an_interface_that_is_not_there(tmp_path):
    place = CLUSTERS.create("slurm", interface="eth99", shared=str(tmp_path), tls=False)
    with pytest.raises(ClusterError, match=r"cluster 'slurm' cannot start: .*eth99"):
        place.open().__enter__()


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Return what puts a command on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def put(name, text):
        path = folder / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    return put


def test_what_the_batch_system_says_when_it_refuses(commands, tmp_path):
    commands("sbatch", "echo 'sbatch: error: not on a Sunday' >&2; exit 1")
    with pytest.raises(ClusterError, match=r"accepts no job: sbatch: error: not on a Sunday$"):
        create("slurm", tmp_path).open().__enter__()


def test_jobs_that_end_at_once_are_not_submitted_for_ever(commands, tmp_path, monkeypatch):
    """A worker that cannot start is told with what it said, and all jobs are cancelled."""
    monkeypatch.setattr("clusterscale.runtime.jobs._ASK", 0.01)
    monkeypatch.setattr("clusterscale.runtime.dask._FIRST_WORKER", 0.01)
    submitted, logs = tmp_path / "submitted", tmp_path / "shared" / "logs"
    commands(
        "sbatch",
        f"echo $$ >> {submitted}; echo 'python: no such module' > {logs}/clusterscale-$$.err\n"
        "echo Submitted batch job $$",
    )
    commands("squeue", "exit 0")
    commands("scancel", "exit 0")
    with create("slurm", tmp_path, jobs=2).open() as executor:
        message = r"(?s)\d jobs ended before any worker.*\.err:\npython: no such module$"
        with pytest.raises(ClusterError, match=message):
            executor.preflight(lambda: None)
    assert 3 <= len(submitted.read_text().split()) < 20


def test_jobs_that_wait_in_the_queue_are_left_alone(commands, tmp_path, monkeypatch):
    """Patience ends when the batch system was asked three times."""
    submitted, cancelled, asked = (tmp_path / name for name in ("submitted", "cancelled", "asked"))

    def clock():
        return 3600.0 if asked.exists() and asked.read_text().count("squeue") >= 3 else 0.0

    monkeypatch.setattr("clusterscale.runtime.jobs._ASK", 0.01)
    monkeypatch.setattr("clusterscale.runtime.dask._FIRST_WORKER", 0.01)
    monkeypatch.setattr("clusterscale.runtime.dask.monotonic", clock)
    commands("sbatch", f"echo $$ >> {submitted}; echo Submitted batch job $$")
    commands("squeue", f"echo squeue >> {asked}; cat {submitted}")
    commands("scancel", f"echo $1 >> {cancelled}")
    with (
        create("slurm", tmp_path, jobs=2, patience=2).open() as executor,
        pytest.raises(ClusterError, match="no worker connected within 2 seconds"),
    ):
        executor.preflight(lambda: None)
    assert len(submitted.read_text().split()) == 2
    assert sorted(cancelled.read_text().split()) == sorted(submitted.read_text().split())


@pytest.mark.slow
def test_a_lost_job_is_replaced_and_the_work_goes_on(commands, tmp_path, monkeypatch):
    """The jobs are local processes here; that Slurm's are replaced is shown on Slurm."""
    monkeypatch.setattr("clusterscale.runtime.jobs._ASK", 0.2)
    monkeypatch.setattr("clusterscale.runtime.scheduling._TICK", 0.2)
    pids, lost = tmp_path / "pids", tmp_path / "lost"
    pids.mkdir()
    commands(
        "sbatch",
        f"cp $1 {tmp_path}/job-$$\nsetsid bash {tmp_path}/job-$$ > /dev/null 2>&1 < /dev/null &\n"
        f"touch {pids}/$!\n"
        "echo Submitted batch job $!",
    )
    commands(
        "squeue",
        f"for pid in $(ls {pids}); do kill -0 $pid 2> /dev/null && echo $pid; done; true",
    )
    commands("scancel", "kill -- -$1")
    with create("slurm", tmp_path, jobs=1, memory="1GiB").open() as executor:
        executor.preflight(lambda: None)
        batches = executor.map_batches(partial(poison.square_after, str(lost)), range(500))
        finished = list(next(batches))
        (first,) = pids.iterdir()
        os.killpg(int(first.name), signal.SIGKILL)
        lost.touch()
        for batch in batches:
            finished += batch
    assert sorted(each.value for each in finished) == [number**2 for number in range(500)]
    assert len(list(pids.iterdir())) == 2


def test_the_allocation_is_for_tasks_of_a_job(monkeypatch):
    place = CLUSTERS.create("slurm-allocation")
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    with pytest.raises(ClusterError, match="start the command with srun"):
        place.serve()
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "2")
    with pytest.raises(ClusterError, match="a job of 2 tasks is too small"):
        place.serve()


@pytest.mark.parametrize(("jobs", "seconds"), [(2, "0.01"), (10_000, "50"), (90_000, "60")])
def test_workers_of_many_jobs_do_not_all_read_at_once(tmp_path, jobs, seconds):
    prologue = create("slurm", tmp_path, jobs=jobs).arguments(None, tmp_path)["job_script_prologue"]
    assert f"export CLUSTERSCALE_START_SECONDS={seconds}" in prologue
