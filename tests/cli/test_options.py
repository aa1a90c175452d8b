"""Options that verbs share: which cluster is meant, and how a signal ends the work."""

import os
import signal
import subprocess
import sys

import pytest

from clusterscale.cli.options import at_work, pick_cluster
from clusterscale.errors import ConfigError, InputError
from clusterscale.runtime import CLUSTERS, Address, Local, Serial


def test_a_name_takes_the_settings_of_the_config_if_it_has_that_kind():
    slurm = CLUSTERS.create("slurm", jobs=7, queue="fast")
    assert pick_cluster(slurm, None, None) is slurm
    assert pick_cluster(slurm, "slurm", None) is slurm
    assert pick_cluster(slurm, "local", None) == Local()
    assert pick_cluster(Local(workers=3), "slurm", None) == CLUSTERS.create("slurm")


def test_an_address_takes_the_certificates_of_the_config():
    tls = {"ca": "a", "certificate": "b", "key": "c"}
    known = Address(address="tls://one:1", tls=tls, patience=5.0)
    assert pick_cluster(known, "tls://two:2", None) == known.model_copy(
        update={"address": "tls://two:2"}
    )
    assert pick_cluster(Serial(), "tls://two:2", None) == Address(address="tls://two:2")
    with pytest.raises(ConfigError, match="say tls: false"):
        pick_cluster(Serial(), "tcp://two:2", None)


def test_workers_go_with_whatever_has_a_number_of_them():
    assert pick_cluster(Local(), None, 3).workers == 3
    slurm = CLUSTERS.create("slurm", workers_per_job=2, queue="fast")
    assert pick_cluster(slurm, None, 5) == slurm.model_copy(update={"jobs": 3})
    for place in (Serial(), Address(address="tls://two:2")):
        with pytest.raises(InputError, match="has no number of workers"):
            pick_cluster(place, None, 2)


SLEEPER = """
import time
from clusterscale.cli.options import at_work
from clusterscale.runtime import Serial

with at_work(Serial(), "sleep"):
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        time.sleep(0.5)
        print("closed", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_work_in_order_and_once(number):
    process = subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    process.send_signal(number)
    said, _ = process.communicate(timeout=30)
    assert said == "closed\n"
    assert process.returncode == 128 + number


@pytest.mark.dask
def test_a_signal_reaches_a_driver_that_waits_for_its_cluster():
    pytest.importorskip("distributed")
    script = (
        "import time\n"
        "from clusterscale.cli.options import at_work\n"
        "from clusterscale.runtime import Local\n"
        "if __name__ == '__main__':\n"
        "    with at_work(Local(workers=1), 'sleep') as (executor, _):\n"
        "        executor.preflight(lambda: print('ready', flush=True))\n"
        "        list(executor.map_batches(time.sleep, [60]))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    process.communicate(timeout=50)
    assert process.returncode == 143


def test_signals_are_as_before_when_the_work_is_over():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with at_work(Serial(), "nothing"):
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_certificates_are_made_by_a_verb(tmp_path):
    pytest.importorskip("cryptography")
    made = [sys.executable, "-m", "clusterscale", "certificates", tmp_path / "tls"]
    said = subprocess.run(made, capture_output=True, text=True, check=True).stdout
    assert said.split() == [f"{tmp_path}/tls/{name}.pem" for name in ("ca", "cert", "key")]
    assert all(os.stat(path).st_mode & 0o077 == 0 for path in said.split())
    assert subprocess.run(made, capture_output=True, check=False).returncode == 2
