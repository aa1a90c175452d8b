"""A cluster of processes of their own, which can be ended one by one."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from random import SystemRandom


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


def fixed_port():
    """Return a free port that no outgoing connection takes, for a server that stops and restarts.

    The system gives outgoing connections ports from 32768 on.
    """
    while True:
        with socket.socket() as sock, suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", SystemRandom().randrange(15_000, 32_000)))
            return sock.getsockname()[1]


def scheduler(port):
    return process("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")


def worker(port, *more, environment=None):
    return process(
        "worker", f"tcp://127.0.0.1:{port}", "--nthreads", 1, "--no-dashboard",
        "--death-timeout", 30, *more, environment=environment,
    )  # fmt: skip


@contextmanager
def joined(port, *, comes_back=True, **options):
    from distributed import Client

    from clusterscale.runtime.dask import DaskExecutor

    def connect():
        return Client(f"tcp://127.0.0.1:{port}", timeout=40)

    client = connect()
    executor = DaskExecutor(client, reconnect=connect if comes_back else None, **options)
    try:
        yield executor
    finally:
        client.close(timeout=2)
