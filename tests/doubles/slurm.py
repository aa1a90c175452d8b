"""A real Slurm of two nodes with two processors each, all on this machine, while a test lasts."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from doubles.waiting import LIMIT, wait_for

# Commands that a busy machine answers late must not count as lost: most limits are ten times
# those that Slurm has by default. What makes Slurm wait (such as batch_sched_delay) is short.
CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={lab}/munge/socket
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
SlurmdUser=root
StateSaveLocation={lab}/state
SlurmdSpoolDir={lab}/spool/%n
SlurmctldPidFile={lab}/slurmctld.pid
SlurmdPidFile={lab}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=1,sched_min_interval=0
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SlurmdParameters=config_overrides
BatchStartTimeout=300
MessageTimeout=100
SlurmctldTimeout=600
SlurmdTimeout=600
TCPTimeout=20
UnkillableStepTimeout=600
MinJobAge=7200
KillWait=5
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=4096
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=4096
PartitionName=short Nodes=n[1-2] Default=YES MaxTime=60 State=UP
"""
ATTEMPTS = 5  # another process may take a port before Slurm does


@contextmanager
def start_slurm():
    """Yield the environment in which Slurm's commands reach it; skip where it cannot be started."""
    if os.getuid() != 0:
        pytest.skip("only root can start Slurm")
    for command in ("munged", "slurmctld", "slurmd", "sbatch", "setpriv"):
        if shutil.which(command) is None:
            pytest.skip(f"{command} is absent: install slurm-wlm and munge")
    for retry in range(ATTEMPTS):
        with _started() as env:
            if env is None and retry < ATTEMPTS - 1:
                continue
            assert env is not None, "Slurm did not start"
            yield env
            return


@contextmanager
def _started():
    """Yield the environment, or None if one of the daemons ended at once."""
    lab = Path(tempfile.mkdtemp(prefix="slurm-"))
    lab.chmod(0o755)  # munge has a user of its own
    env = os.environ | {"SLURM_CONF": f"{lab}/slurm.conf"}
    daemons = []

    def start(*command):
        with open(lab / "log" / f"{len(daemons)}.log", "wb") as log:
            daemons.append(
                subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
            )

    def lost():
        return any(daemon.poll() is not None for daemon in daemons)

    try:
        start(*_write_files(lab))
        wait_for(lambda: lost() or (lab / "munge" / "socket").exists(), "the socket of munge")
        start("slurmctld", "-D")
        for name in ("n1", "n2"):
            start("slurmd", "-D", "-N", name)
        wait_for(lambda: lost() or _n_idle(env) == 2, lambda: f"two nodes: {logs(env)}")
        yield None if lost() else env
        _empty(env)
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in reversed(daemons):
            try:
                daemon.wait(LIMIT / 10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        _kill_rest(env["SLURM_CONF"])
        shutil.rmtree(lab, ignore_errors=True)


def _write_files(lab):
    """Write the files that Slurm needs in a folder; return the command that starts munge."""
    for name in ("log", "munge", "spool", "state"):
        (lab / name).mkdir(mode=0o755)
    key = lab / "munge" / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    user = pwd.getpwnam("munge")
    for path in (lab / "munge", key):
        os.chown(path, user.pw_uid, user.pw_gid)
    host = socket.gethostname().split(".")[0]
    (lab / "slurm.conf").write_text(CONFIGURATION.format(lab=lab, host=host, ports=free_ports(3)))
    (lab / "cgroup.conf").write_text("CgroupAutomount=no\n")
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid"}
    files |= {"log-file": "log", "seed-file": "seed"}
    options = [f"--{option}={lab}/munge/{name}" for option, name in files.items()]
    user = ["setpriv", "--reuid=munge", "--regid=munge", "--clear-groups"]
    return [*user, shutil.which("munged"), "--foreground", *options]


def free_ports(count):
    """Return ports that nobody uses at the moment."""
    with ExitStack() as taken:
        found = [taken.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in found]


def _n_idle(env):
    command = ["sinfo", "--noheader", "--Node", "--states=idle", "--format=%N"]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    return len(done.stdout.split())


def _empty(env):
    """Cancel all jobs, and wait until none is left."""
    subprocess.run(["scancel", "--user", "root"], env=env, check=True)
    wait_for(lambda: not Queue(env).jobs(), "an empty queue")


def _kill_rest(configuration):
    """Kill what jobs of this Slurm have left behind, if anything."""
    mark = f"SLURM_CONF={configuration}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)


def logs(env):
    """Return the ends of the logs of Slurm itself."""
    files = sorted(Path(env["SLURM_CONF"]).parent.glob("log/*.log"))
    return "\n".join(f"{file.name}: {file.read_text()[-3000:]}" for file in files)


class Queue:
    """What Slurm is asked, in an environment."""

    def __init__(self, env):
        self.env = env

    def ask(self, *command):
        done = subprocess.run(command, env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def jobs(self, *options):
        """Return number and state of every job that has not ended."""
        return self.ask("squeue", "--noheader", "--format=%A %T", *options).splitlines()

    def empty(self):
        """Cancel all jobs, and wait until none is left."""
        _empty(self.env)

    def fact(self, job, key):
        """Return what Slurm knows of a job."""
        told = self.ask("scontrol", "--oneliner", "show", "job", job)
        return dict(pair.split("=", 1) for pair in told.split() if "=" in pair)[key]

    def update(self, job, change):
        """Change a property of a job."""
        self.ask("scontrol", "update", f"JobId={job}", change)

    def until(self, condition):
        return wait_for(condition, self.said)

    def wait(self, job):
        """Wait for the end of a job; return its last state and its exit code."""
        going = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED", "SUSPENDED")
        going += ("SIGNALING",)  # for a moment
        self.until(lambda: self.fact(job, "JobState") not in going)
        return self.fact(job, "JobState"), self.fact(job, "ExitCode")

    def run_again(self, job, delay=2):
        """Wait until a job was queued again, and let it run after a delay in seconds.

        Slurm delays it for two minutes, until the credentials of its last run are out of date.
        A run that begins within the second in which the last one ended is refused, and a node that
        was lost may still end its tasks of the last run some seconds later.
        """
        self.until(lambda: self.fact(job, "Restarts") == "1")
        self.until(lambda: self.fact(job, "JobState") in ("PENDING", "RUNNING"))
        with suppress(AssertionError):  # it runs already
            self.update(job, f"StartTime=now+{delay}")

    def said(self):
        """Return what helps to understand a failure."""
        return "\n".join([*self.jobs(), logs(self.env)])
