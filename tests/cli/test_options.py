"""Options that verbs share: which cluster is meant, and how a signal ends the work."""

import ctypes
import os
import signal
import subprocess
import sys
from threading import Event
from types import SimpleNamespace
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from clusterscale import study
from clusterscale.cli import app
from clusterscale.cli.options import pick_cluster
from clusterscale.cli.running import add_command, running_cluster
from clusterscale.errors import ConfigError, ExistsError, InputError
from clusterscale.runtime import CLUSTERS, Address, Local, Serial


def commands_of(group):
    """Yield every command of a group of commands."""
    for command in group.commands.values():
        yield from commands_of(command) if hasattr(command, "commands") else [command]


def test_every_option_has_a_help_and_no_command_has_that_of_another():
    made = list(commands_of(typer.main.get_command(app)))
    assert len(made) > 20
    for command in made:
        assert "Parameters" not in command.help
        assert all(one.help for one in command.params), command.name
    helps = {made.name: {one.name: one.help for one in made.params} for made in made}
    assert helps["report"]["group_size"] != helps["gate"]["group_size"]
    assert helps["report"]["full"] != helps["audit"]["full"]


def test_commands_of_other_packages_have_the_help_of_shared_options(monkeypatch):
    plan = SimpleNamespace(model_fields={"name": SimpleNamespace(default="mine")}, __doc__="Count.")
    monkeypatch.setattr(study, "ANALYSES", {"mine": plan})
    found = typer.main.get_command(app).get_command(None, "mine")
    assert found.help == "Count."
    helps = {one.name: one.help for one in found.params}
    assert {"config", "memory", "users"} < helps.keys()
    assert all(helps.values())


def test_a_text_in_the_docstring_takes_precedence_and_keeps_the_rest_of_an_option():
    Shared = Annotated[int, typer.Option(min=2, help="shared")]

    def verb(where: str, number: Shared = 3, other: Shared = 4, memory: str = ""):
        """Do something.

            first
              second

        Parameters
        ----------
        where
            Some place,
            in two lines.
        number
            Its own.
        """

    cli = typer.Typer()
    add_command(cli, verb, "do")
    made = typer.main.get_command(cli)
    assert made.help == "Do something.\n\n\b\nfirst\n  second"
    where, number, other, memory, *_ = made.params
    assert (where.param_type_name, where.help) == ("argument", "Some place, in two lines.")
    assert (number.help, number.opts, number.default) == ("Its own.", ["--number"], 3)
    assert other.help == "shared"
    assert memory.help.startswith("Memory for each worker")
    assert CliRunner().invoke(cli, ["here", "--number", "1"]).exit_code == 2
    assert CliRunner().invoke(cli, ["here", "--number", "2"]).exit_code == 0


def test_a_name_takes_the_settings_of_the_config_if_it_has_that_kind():
    slurm = CLUSTERS.create("slurm", jobs=7, queue="fast")
    assert pick_cluster(slurm, None, None) is slurm
    assert pick_cluster(slurm, "slurm", None) is slurm
    assert pick_cluster(slurm, "local", None) == Local()
    assert pick_cluster(Local(workers=3), "slurm", None) == CLUSTERS.create("slurm")


def test_what_an_allocation_takes_is_told_outside_of_it(tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    words = ["audit", "--explain", "--cluster", "slurm-allocation", "--output", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "slurm-allocation" in done.output


def test_an_address_takes_the_certificates_of_the_config():
    tls = {"ca": "a", "certificate": "b", "key": "c"}
    known = Address(address="tls://one:1", tls=tls, patience=5.0)
    assert pick_cluster(known, "tls://two:2", None) == known.model_copy(
        update={"address": "tls://two:2"}
    )
    assert pick_cluster(Serial(), "tls://two:2", None) == Address(address="tls://two:2")
    with pytest.raises(ConfigError, match="set tls: false"):
        pick_cluster(Serial(), "tcp://two:2", None)


def test_workers_go_with_whatever_has_a_number_of_them():
    assert pick_cluster(Local(), None, 3).workers == 3
    slurm = CLUSTERS.create("slurm", workers_per_job=2, queue="fast")
    assert pick_cluster(slurm, None, 5) == slurm.model_copy(update={"jobs": 3})
    for place in (Serial(), Address(address="tls://two:2")):
        with pytest.raises(InputError, match="has no configurable number of workers"):
            pick_cluster(place, None, 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_work_in_order_and_once(number):
    closed = []

    def work():
        try:
            signal.raise_signal(number)
        finally:
            for each in (signal.SIGTERM, signal.SIGINT):  # while the work is being ended
                signal.raise_signal(each)
            closed.append("closed")

    with pytest.raises(SystemExit) as ended, running_cluster(Serial(), "nothing"):
        work()
    assert closed == ["closed"]
    assert ended.value.code == 128 + number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_a_callback_of_compiled_code_ends_the_work(number):
    callback = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(number))
    hook = sys.unraisablehook

    def work():
        callback()  # the exception is dropped here
        Event().wait(240)

    with pytest.raises(SystemExit) as ended, running_cluster(Serial(), "nothing"):
        work()
    assert ended.value.code == 128 + number
    assert sys.unraisablehook is hook


def test_other_dropped_exceptions_are_reported_as_before(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: seen.append(unraisable.exc_type))
    with running_cluster(Serial(), "nothing"):
        ctypes.CFUNCTYPE(None)(lambda: 1 / 0)()
    assert seen == [ZeroDivisionError]


WAITING = """
from time import sleep
from clusterscale.cli.running import add_command, running_cluster
from clusterscale.runtime import Local

def hang(seconds):
    print("ready", flush=True)
    sleep(seconds)

if __name__ == "__main__":
    with running_cluster(Local(workers=1), "sleep") as (executor, _):
        list(executor.map_batches(hang, [10_000]))
"""


@pytest.mark.slow
@pytest.mark.dask
def test_a_signal_reaches_a_driver_that_waits_for_its_cluster():
    pytest.importorskip("distributed")
    process = subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        process.communicate(timeout=240)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 143


def test_signals_are_as_before_when_the_work_is_over():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with running_cluster(Serial(), "nothing"):
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_certificates_are_made_by_a_verb(tmp_path):
    pytest.importorskip("cryptography")

    def make():
        return CliRunner().invoke(app, ["certificates", str(tmp_path / "tls")])

    said = make().stdout
    assert said.split() == [f"{tmp_path}/tls/{name}.pem" for name in ("ca", "cert", "key")]
    assert all(os.stat(path).st_mode & 0o077 == 0 for path in said.split())
    assert isinstance(make().exception, ExistsError)
