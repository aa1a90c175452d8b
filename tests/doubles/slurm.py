"""A real Slurm of two nodes with two processors each, all on this machine, while a test lasts."""

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def start_slurm(real_data):
    """Yield the environment in which Slurm's commands reach it; skip where it cannot be started."""
    tools = real_data.parent / "tools"
    if not (tools / "slurm_up.sh").exists():
        pytest.skip("slurm_up.sh is absent")
    if os.getuid() != 0:
        pytest.skip("only root can start Slurm")
    for command in ("munged", "slurmctld", "slurmd", "sbatch"):
        if shutil.which(command) is None:
            pytest.skip(f"{command} is absent: install slurm-wlm and munge")
    lab = Path(tempfile.mkdtemp(prefix="slurm-"))
    lab.chmod(0o755)  # munge has a user of its own
    ports = {"CTLPORT": str(free_ports(1)), "DPORT0": str(free_ports(3))}
    up = ["bash", tools / "slurm_up.sh", lab, "2", "2", "4096"]
    subprocess.run(up, env=os.environ | ports, check=True, stdout=subprocess.DEVNULL)
    try:
        yield os.environ | {"SLURM_CONF": f"{lab}/slurm.conf"}
    finally:
        down = ["bash", tools / "slurm_down.sh", lab]
        subprocess.run(down, check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(lab)


def free_ports(count):
    """Return the first of so many ports in a row that nobody uses."""
    while True:
        with ExitStack() as taken, suppress(OSError, OverflowError):
            free = taken.enter_context(socket.create_server(("127.0.0.1", 0)))
            first = free.getsockname()[1]
            for port in range(first + 1, first + count):
                taken.enter_context(socket.create_server(("127.0.0.1", port)))
            return first


class Queue:
    """What Slurm is asked, in an environment."""

    def __init__(self, env):
        self.env = env

    def ask(self, *command):
        done = subprocess.run(command, env=self.env, check=True, capture_output=True, text=True)
        return done.stdout

    def jobs(self, *options):
        """Return number and state of every job that has not ended."""
        return self.ask("squeue", "--noheader", "--format=%A %T", *options).splitlines()

    def fact(self, job, key):
        """Return what Slurm knows of a job."""
        told = self.ask("scontrol", "--oneliner", "show", "job", job)
        return dict(pair.split("=", 1) for pair in told.split() if "=" in pair)[key]
