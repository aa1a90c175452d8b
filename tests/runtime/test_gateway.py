"""The gateway cluster, on a real Dask Gateway of this machine."""

import gc
import math
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from time import sleep

import pytest
from doubles.waiting import LIMIT, wait_for
from oracles.processes import free_port

from clusterscale.errors import ClusterError, ConfigError
from clusterscale.runtime import CLUSTERS
from clusterscale.runtime.clusters.address import Gateway

PASSWORD = "open sesame"
ATTEMPTS = 5  # another process may take a port before the gateway does


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({}, "address"),
        ({"address": "gateway.example"}, "address"),
        ({"address": "http://gateway.example"}, "use https, or set `tls: false`"),
        ({"address": "https://me:secret@gateway.example"}, "address"),
    ],
)
def test_addresses_that_are_none_or_not_safe(fields, fault):
    with pytest.raises(ConfigError, match=fault) as caught:
        Gateway(**fields)
    assert "not encrypted: use https" in str(caught.value) or "tls" not in fault


def test_what_must_be_said_can_be_said():
    assert Gateway(address="http://gateway.example", tls=False).tls is False
    assert Gateway(address="http://127.0.0.1:8000").tls is None
    options = [{"option": "worker_memory", "value": 4}]
    made = CLUSTERS.create("gateway", address="https://gateway.example", options=options)
    assert made.options[0].value == 4


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    """Address and proxy of a gateway; whoever knows the password may have clusters."""
    pytest.importorskip("dask_gateway")
    pytest.importorskip("dask_gateway_server")
    folder = tmp_path_factory.mktemp("gateway")
    shutil.copy(Path(__file__).parents[1] / "doubles" / "gateway_config.py", folder / "config.py")
    for retry in range(ATTEMPTS):
        with _serve(folder) as (server, addresses):
            wait_for(
                lambda server=server: server.poll() is not None or _answers(folder),
                (folder / "log").read_text,
            )
            if server.poll() is not None and retry < ATTEMPTS - 1:
                continue
            yield addresses
            return


@contextmanager
def _serve(folder):
    """Start a gateway; yield its process, and its address and that of its proxy."""
    ports = [str(free_port()) for _ in range(3)]
    scripts = Path(sys.executable).parent
    environment = os.environ | {
        "GATEWAY_PORTS": ",".join(ports),
        "GATEWAY_PASSWORD": PASSWORD,
        "GATEWAY_FOLDER": str(folder),
        "PATH": f"{scripts}:{os.environ['PATH']}",
    }
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(
            [str(scripts / "dask-gateway-server"), "--config", str(folder / "config.py")],
            env=environment,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
    try:
        yield server, (f"http://127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}")
    finally:
        server.terminate()
        try:
            server.wait(LIMIT / 10)
        finally:
            for pid in _strays(folder):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _answers(folder):
    """Return whether the gateway and its proxy have found each other."""
    return "200 GET /api/v1/routes" in (folder / "log").read_text()


def _strays(folder):
    """Return processes that still work in the folder of the gateway."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(entry / "cwd").startswith(str(folder)):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.fixture
def cluster(gateway, monkeypatch):
    monkeypatch.setenv("DASK_GATEWAY__AUTH__TYPE", "basic")
    import dask

    address, proxy = gateway
    options = [{"option": "worker_threads", "value": 1}]
    with dask.config.set({"gateway.auth.kwargs": {"password": PASSWORD}}):
        yield CLUSTERS.create(
            "gateway", address=address, proxy=proxy, workers=2, options=options, patience=LIMIT
        )


@pytest.mark.nightly(group="gateway")
@pytest.mark.dask
@pytest.mark.timeout(1800)
def test_a_gateway_gives_workers_and_replaces_them(cluster, tmp_path):
    """A worker is killed while it works; its replacement must be at work before any task ends."""
    folder = str(tmp_path)

    def work(_):  # within the test, so that it travels as it is
        pid = os.getpid()
        Path(folder, f"began-{pid}").touch()
        while not Path(folder, "go").exists():
            sleep(0.05)
        return pid

    def began():
        return {int(file.name.partition("-")[2]) for file in tmp_path.glob("began-*")}

    with cluster.open() as executor, ThreadPoolExecutor() as pool:
        wait_for(lambda: executor.n_workers == 2, "both workers")
        executor.preflight(os.getpid)
        ending = pool.submit(lambda: list(chain(*executor.map_batches(work, range(12)))))
        try:
            wait_for(lambda: len(began()) == 2, "work on both workers")
            lost = min(began())
            os.kill(lost, signal.SIGKILL)
            wait_for(lambda: len(began()) == 3, "work on a third worker")
        finally:
            (tmp_path / "go").touch()
        ended = ending.result()
        assert [each.error for each in ended] == [None] * 12
        assert {each.value for each in ended} <= began() - {lost}
        wait_for(lambda: executor.n_workers == 2, "two workers again")
        roots = chain(*executor.map_batches(math.isqrt, [9, 16]))
        assert sorted(each.value for each in roots) == [3, 4]


@pytest.mark.nightly(group="gateway")
@pytest.mark.dask
@pytest.mark.timeout(1800)
def test_a_gateway_that_refuses_is_said_to(cluster):
    import dask

    with (
        dask.config.set({"gateway.auth.kwargs": {"password": "wrong"}}),
        pytest.raises(ClusterError, match=r"the gateway at .* gave no cluster") as caught,
        cluster.open(),
    ):
        pass
    assert "wrong" not in str(caught.value)
    from dask_gateway import client

    left = [each for each in gc.get_objects() if isinstance(each, client.Gateway)]
    assert not any("_loop_runner" in vars(each) for each in left)  # to stop at a bad moment


@pytest.mark.nightly(group="gateway")
@pytest.mark.dask
@pytest.mark.timeout(1800)
def test_workers_of_two_threads_are_found_before_anything_runs(cluster):
    wide = cluster.model_copy(update={"options": (), "workers": 1})
    with wide.open() as executor, pytest.raises(ClusterError, match="has 2 threads"):
        executor.preflight(os.getpid)
