"""A scheduler that runs already: joined over TLS, lost, and joined again."""

import gc
import signal
import socket
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain

import pytest
from loops import for_each
from oracles import poison, processes

from clusterscale.errors import ClusterError, ConfigError
from clusterscale.runtime import CLUSTERS, Address
from clusterscale.runtime.clusters.base import end_workers

pytestmark = pytest.mark.dask


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    pytest.importorskip("distributed")
    pytest.importorskip("cryptography")
    from clusterscale.runtime.security import make_certificates

    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def encrypted(tls):
    """Return the address of a scheduler in this process that asks for certificates."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol="tls",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        security=tls.security(),
    ) as cluster:
        yield cluster.scheduler_address


@contextmanager
def cluster(tls, port):
    """Run a scheduler and one worker, in processes of their own."""
    files = ("--tls-ca-file", tls.ca, "--tls-cert", tls.certificate, "--tls-key", tls.key)
    quiet = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0", *files)
    place = ("--host", "127.0.0.1", "--port", port, "--protocol", "tls")
    alone = ("--nthreads", 1, "--no-nanny")
    with (
        processes.process("scheduler", *place, *quiet) as scheduler,
        processes.process("worker", f"tls://127.0.0.1:{port}", *alone, *quiet),
    ):
        yield scheduler


# A client that is joining while the scheduler goes leaves its socket to the garbage collector.
@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_scheduler_that_comes_back_is_joined_again(tls, ending, tmp_path, monkeypatch):
    """Whether it says goodbye or not. All items but the first wait until it was lost."""
    monkeypatch.setattr("clusterscale.runtime.dask._MOST_BETWEEN", 0.5)
    lost = tmp_path / "lost"
    with processes.reserved_port() as port, ExitStack() as first:
        place = Address(address=f"tls://127.0.0.1:{port}", tls=tls, patience=240)
        scheduler = first.enter_context(cluster(tls, port))
        with place.open() as executor:
            executor.preflight(lambda: None)
            batches = executor.map_batches(partial(poison.square_after, str(lost)), range(40))
            finished = list(next(batches))
            scheduler.send_signal(ending)
            scheduler.wait()
            first.close()
            lost.touch()
            with cluster(tls, port):
                finished += chain(*batches)
    gc.collect()  # here, and not in a test that did nothing to it
    assert sorted((each.item, each.value) for each in finished) == [(i, i * i) for i in range(40)]


def test_workers_of_a_lost_scheduler_are_not_ended():
    """Another error would take the place of that of the run, whose exit code a job goes by."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.close()  # as a client that cannot reconnect does
        end_workers(client)


def test_a_scheduler_that_never_answers():
    with socket.socket() as taken:  # and nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        message = f"no scheduler answers at {address} within 0.2 seconds"
        with pytest.raises(ClusterError, match=message):
            Address(address=address, patience=0.2).open().__enter__()


def test_who_does_not_encrypt_is_refused(encrypted):
    from distributed import Client

    plain = encrypted.replace("tls://", "tcp://")
    with pytest.raises(OSError, match="in <TCP"):
        Client(plain, timeout=60, set_as_default=False)


def test_other_certificates_are_refused(encrypted, tmp_path):
    from distributed import Client

    from clusterscale.runtime.security import make_certificates

    other = make_certificates(tmp_path / "other")
    with pytest.raises(OSError, match="TLS certificate does not match"):
        Client(encrypted, security=other.security(), timeout=60, set_as_default=False)
    with pytest.raises(ClusterError, match="no scheduler answers"):
        Address(address=encrypted, tls=other, patience=0.2).open().__enter__()


def test_an_encrypted_scheduler_is_joined_with_its_certificates(encrypted, tls):
    with Address(address=encrypted, tls=tls).open() as executor:
        executor.preflight(lambda: None)
        assert executor.n_workers == 1


@for_each(
    ("fields", "fault"),
    [
        ({"address": "host:8786"}, "address"),
        ({"address": "tls://host"}, "address"),
        ({"address": "tcp://host:8786"}, "set tls: false"),
        ({"address": "tcp://10.0.0.1:8786"}, "set tls: false"),
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
    with pytest.raises(ConfigError, match=fault):
        Address(**fields)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_this_machine_needs_no_encryption(host):
    assert CLUSTERS.create("address", address=f"tcp://{host}:1").tls is None


def test_an_encrypted_scheduler_needs_certificates():
    pytest.importorskip("distributed")
    with pytest.raises(ConfigError, match="give tls"):
        Address(address="tls://127.0.0.1:1").open().__enter__()


def test_dasks_own_certificates_serve(encrypted, tls):
    import dask

    theirs = {
        "distributed.comm.tls.ca-file": tls.ca,
        "distributed.comm.tls.client.cert": tls.certificate,
        "distributed.comm.tls.client.key": tls.key,
    }
    with dask.config.set(theirs), Address(address=encrypted).open() as executor:
        executor.preflight(lambda: None)
        assert executor.n_workers == 1
