"""Another user of the machine tries to run code on the local cluster of a run."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.dask]

NOBODY = 65534
N_PORTS = 5  # scheduler, nanny and worker; HTTP of scheduler and worker
CONFIG = """
cube: {{preset: tfl, users: 2000, path: {folder}/cube.zarr}}
output: {folder}/run
cluster: {{name: local, workers: 1}}
audit:
  seed: 1
  targets: {{random: 1000}}
  group_sizes: [100]
  priors: [{{name: known_subset, alpha: 0.2}}]
  mechanisms: [{{name: exact}}]
  attacks: [{{name: logistic}}]
"""
INTRUDER = """
import asyncio, os, sys
import distributed.comm.tcp  # before: another user may not read this environment
from distributed.core import connect, send_recv
from distributed.protocol.pickle import dumps
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({nobody})
    os.setuid({nobody})
def mark(path):
    import os
    open(path, "w").write(str(os.geteuid()))
async def call(port, op):
    comm = await connect(f"tcp://127.0.0.1:{{port}}", timeout=2)
    packed = dict(function=dumps(mark), args=dumps((sys.argv[1],)), kwargs=dumps({{}}))
    await send_recv(comm, op=op, wait=True, **packed)
async def main():
    for port in sys.argv[2:]:
        for op in ("run_function", "run"):
            try:
                await asyncio.wait_for(call(port, op), 3)
            except Exception:
                pass
    os._exit(0)
asyncio.run(main())
"""


def descendants(pid):
    """Return the ids of a process and of all that it started."""
    found = [pid]
    for parent in found:
        with suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def listening(pid):
    """Return the TCP ports of IPv4 on which these processes listen."""
    inodes = set()
    for process in descendants(pid):
        with suppress(OSError):
            for descriptor in Path(f"/proc/{process}/fd").iterdir():
                with suppress(OSError):
                    inodes.add(os.readlink(descriptor))
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    return [
        int(r[1].split(":")[1], 16) for r in rows if r[3] == "0A" and f"socket:[{r[9]}]" in inodes
    ]


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="lists sockets as Linux does")
def test_another_user_cannot_run_code_on_the_local_cluster(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(folder=tmp_path))
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    for folder in (tmp_path, *tmp_path.parents):
        with suppress(PermissionError):
            folder.chmod(folder.stat().st_mode | 0o011)
    marker = open_folder / "marker"
    intruder = INTRUDER.format(nobody=NOBODY)
    with (tmp_path / "log").open("w") as log:
        run = subprocess.Popen(
            [sys.executable, "-m", "clusterscale", "audit", str(config)], stdout=log, stderr=log
        )
        try:
            ports, end = [], monotonic() + 120
            while monotonic() < end and run.poll() is None and len(ports) < N_PORTS:
                sleep(0.2)
                ports = listening(run.pid)
            command = [sys.executable, "-c", intruder, str(marker), *map(str, ports)]
            subprocess.run(command, timeout=120, capture_output=True, check=False)
            still_runs = run.poll() is None
        finally:
            run.terminate()
            run.wait(60)
    assert still_runs, (tmp_path / "log").read_text()
    assert len(ports) >= N_PORTS
    assert not marker.exists(), f"code ran as user {marker.read_text()}"
