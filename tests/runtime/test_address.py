"""A scheduler that runs already: joined over TLS, lost, and joined again."""

import gc
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import chain

import pytest
from pydantic import ValidationError

from clusterscale.errors import ClusterError, ConfigError
from clusterscale.runtime import CLUSTERS, Address

pytestmark = pytest.mark.dask


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    pytest.importorskip("distributed")
    pytest.importorskip("cryptography")
    from clusterscale.runtime.security import make_certificates

    return make_certificates(tmp_path_factory.mktemp("certificates"))


def start(kind, tls, *args):
    files = ("--tls-ca-file", tls.ca, "--tls-cert", tls.certificate, "--tls-key", tls.key)
    return subprocess.Popen(
        [sys.executable, "-m", "dask", kind, *map(str, args), *files],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@contextmanager
def running(kind, tls, *args):
    process = start(kind, tls, *args)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def cluster(tls, port):
    """Run a scheduler and one worker."""
    place = ("--host", "127.0.0.1", "--port", port, "--protocol", "tls")
    quiet = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")
    with (
        running("scheduler", tls, *place, *quiet) as scheduler,
        running("worker", tls, f"tls://127.0.0.1:{port}", "--nthreads", 1, "--no-nanny", *quiet),
    ):
        yield scheduler


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


# A client that is joining while the scheduler goes leaves its socket to the garbage collector.
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_scheduler_that_comes_back_is_joined_again(tls, port, ending):
    """Whether it says goodbye or not."""
    place = Address(address=f"tls://127.0.0.1:{port}", tls=tls, patience=60)
    first = cluster(tls, port)
    scheduler = first.__enter__()
    with place.open() as executor:
        executor.preflight(lambda: None)
        batches = executor.map_batches(slow_square, range(40))
        finished = list(next(batches))
        scheduler.send_signal(ending)
        scheduler.wait()
        first.__exit__(None, None, None)
        with cluster(tls, port):
            finished += chain(*batches)
    gc.collect()  # here, and not in a test that did nothing to it
    assert sorted((each.item, each.value) for each in finished) == [(i, i * i) for i in range(40)]


def slow_square(number):
    time.sleep(0.1)
    return number**2


def test_a_scheduler_that_never_answers(port):
    place = Address(address=f"tcp://127.0.0.1:{port}", patience=1)
    with pytest.raises(ClusterError, match=f"no scheduler answers at tcp://127.0.0.1:{port} with"):
        place.open().__enter__()


def test_who_does_not_encrypt_or_has_other_certificates_is_refused(tls, port, tmp_path):
    from distributed import Client

    from clusterscale.runtime.security import make_certificates

    with cluster(tls, port):
        with Address(address=f"tls://127.0.0.1:{port}", tls=tls).open() as executor:
            executor.preflight(lambda: None)
        with pytest.raises(OSError, match=r"Timed out|in <TCP"):
            Client(f"tcp://127.0.0.1:{port}", timeout=2)
        other = make_certificates(tmp_path / "other")
        stranger = Address(address=f"tls://127.0.0.1:{port}", tls=other, patience=1)
        with pytest.raises(ClusterError, match="no scheduler answers"):
            stranger.open().__enter__()


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"address": "host:8786"}, "address"),
        ({"address": "tls://host"}, "address"),
        ({"address": "tcp://host:8786"}, "say tls: false"),
        ({"address": "tcp://10.0.0.1:8786"}, "say tls: false"),
        ({"address": "tls://host:8786", "tls": False}, "tls cannot be false"),
        (
            {
                "address": "tcp://localhost:8786",
                "tls": {"ca": "a", "certificate": "b", "key": "c"},
            },
            "not encrypted",
        ),
    ],
)
def test_what_is_not_encrypted_must_be_said_to_be(fields, fault):
    with pytest.raises(ValidationError, match=fault):
        Address(**fields)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_this_machine_needs_no_encryption(host):
    assert CLUSTERS.create("address", address=f"tcp://{host}:1").tls is None


def test_an_encrypted_scheduler_needs_certificates():
    pytest.importorskip("distributed")
    with pytest.raises(ConfigError, match="give tls"):
        Address(address="tls://127.0.0.1:1").open().__enter__()


def test_dasks_own_certificates_serve(tls, port):
    import dask

    theirs = {
        "distributed.comm.tls.ca-file": tls.ca,
        "distributed.comm.tls.client.cert": tls.certificate,
        "distributed.comm.tls.client.key": tls.key,
    }
    with (
        cluster(tls, port),
        dask.config.set(theirs),
        Address(address=f"tls://127.0.0.1:{port}").open() as executor,
    ):
        executor.preflight(lambda: None)
        assert executor.n_workers == 1
