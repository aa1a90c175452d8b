"""Cases with faults, which the runner must notice; not one of the kinds that are searched."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from fuzz.runner import ID, Case

NAME = "planted"
MISSING = ("config", "check", "missing.yaml")


def prepare(folder: Path) -> None:
    (folder / "sound").write_text("seed material")


def make(rng: random.Random, number: int, shared: Path, folder: Path) -> Case:
    """Return a sound case, or one whose command has the fault of this number."""
    assert (shared / "sound").exists()
    plant = PLANTS[number]
    if plant is None:
        return Case("sound", (MISSING,))
    if number == DIFFERENT:
        return Case("different", (MISSING,), lambda _folder, _outcomes: "one event is missing")

    import clusterscale.cli

    clusterscale.cli.app = lambda: plant(folder)  # the entry point itself stays
    return Case(plant.__name__, (MISSING,))


def crash(_: Path) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def spin(_: Path) -> None:
    while True:
        pass


def wait(_: Path) -> None:
    time.sleep(3_600)


def unexpected(_: Path) -> None:
    raise KeyError("x")


def show_traceback(_: Path) -> None:
    print("Traceback (most recent call last):")


def leave_a_file(folder: Path) -> None:
    (folder / "part.tmp").write_text("x")
    raise SystemExit(2)


def show_an_id(_: Path) -> None:
    print(ID.format(7))


def talk(_: Path) -> None:
    print("error: one\n" + "line\n" * 20)
    raise SystemExit(2)


def colour(_: Path) -> None:
    print("\x1b[31mred")


def different(_: Path) -> None:
    """Stand for a result that is not that of the sound input."""


PLANTS = [None, crash, spin, unexpected, show_traceback, leave_a_file, show_an_id, talk, colour,
          different, wait]  # fmt: skip
DIFFERENT = PLANTS.index(different)
