"""A cluster of processes of their own, which can be ended one by one."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import closing, contextmanager, suppress

LIMIT = 300
"""Seconds that a process may take to start: far more than one ever needs."""


@contextmanager
def process(*arguments, environment=None):
    """Run a command in a process group of its own; end all of it in the end."""
    running = subprocess.Popen(
        [sys.executable, "-m", "dask", *map(str, arguments)],
        env=os.environ | (environment or {}),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield running
    finally:
        end(running)


def end(running):
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@contextmanager
def reserved_port():
    """Yield a port that this machine gives to nobody else within the block.

    The socket is bound but does not listen, so that a server which sets ``SO_REUSEADDR``, as that
    of Dask does, can bind the same port, and can do so again after it was killed.
    """
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


def scheduler(port):
    return process("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")


def worker(port, *more, environment=None):
    return process(
        "worker", f"tcp://127.0.0.1:{port}", "--nthreads", 1, "--no-dashboard",
        "--death-timeout", LIMIT, *more, environment=environment,
    )  # fmt: skip


@contextmanager
def joined(port, *, comes_back=True, **options):
    """Yield an executor on the scheduler of this port, connected as to any running scheduler."""
    from clusterscale.runtime.dask import DaskExecutor, SchedulerConnection

    with closing(SchedulerConnection(f"tcp://127.0.0.1:{port}", None, LIMIT)) as line:
        reconnect = line.reconnect if comes_back else None
        yield DaskExecutor(line.connect(LIMIT), reconnect=reconnect, **options)
