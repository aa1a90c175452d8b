"""Run commands on hostile or damaged inputs, each case in a process of its own, and judge them.

A kind of cases is a module of this folder with ``NAME``, ``prepare(folder)`` and
``make(rng, number, shared, folder) -> Case``. Whatever the input is, a command must end in time and
within memory, with an exit code that is documented, a short message that has neither a traceback,
nor a user id, nor a control character of the data, and, when it refused, without files of its own.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import importlib
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from types import ModuleType
from typing import Any

from fuzz.judge import MOST_OUTPUT, REFUSALS, find_faults, find_left

ID = "resident{:04d}@example.org"
"""User ids of all seed material; no output may have one."""

_COMMANDS = (
    "clusterscale.cli", "clusterscale.config", "clusterscale.ingestion", "clusterscale.reporting",
    "clusterscale.cube.synthetic", "clusterscale.analyses.traits", "dask.array", "dask.dataframe",
    "distributed", "h3", "pandas", "pyarrow.csv", "pyarrow.parquet",
)  # fmt: skip
_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Outcome:
    """What one command did."""

    exit_code: int
    output: str
    seconds: float


@dataclass(frozen=True)
class Case:
    """Commands on one hostile input.

    ``steps`` are the arguments of ``clusterscale``, run in the folder of the case. ``check`` gets
    that folder and the outcomes, and returns in words what is wrong with the results, or None.
    ``may_leave`` are patterns of paths below the folder that a refused step may leave, such as the
    folder of a run that can be resumed.
    """

    description: str
    steps: tuple[tuple[str, ...], ...]
    check: Callable[[Path, list[Outcome]], str | None] = lambda _folder, _outcomes: None
    may_leave: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limits:
    """Bounds of one case; ``wall_seconds`` finds what waits without computing."""

    cpu_seconds: int = 60
    wall_seconds: float = 600.0
    address_space: int = 4 << 30


@dataclass(frozen=True)
class Verdict:
    """What became of one case: ``codes`` of its steps, and faults as (class, words)."""

    number: int
    description: str
    codes: tuple[int, ...]
    faults: tuple[tuple[str, str], ...]
    output: str


def warm_up(kinds: Iterable[ModuleType] = ()) -> None:
    """Import what commands import, so that each forked case has it; call ``warm_up`` of kinds."""
    for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    for name in _COMMANDS:
        importlib.import_module(name)
    importlib.import_module("numba").njit(lambda: 0)()  # loads the compiler
    for kind in kinds:
        getattr(kind, "warm_up", lambda: None)()
    gc.freeze()


def run_cases(
    kind: ModuleType,
    numbers: Iterator[int],
    *,
    seed: int,
    root: Path,
    jobs: int = 1,
    limits: Limits = Limits(),
    keep: bool = False,
) -> Iterator[Verdict]:
    """Yield the verdict on each case of a kind, as they end; folders are removed unless kept."""
    shared = root / kind.NAME / "shared"
    if not shared.exists():
        prepare(kind, shared)
    at_work: dict[Any, tuple[Any, int, Path, float]] = {}
    numbers = iter(numbers)
    try:
        while True:
            while len(at_work) < jobs and (number := next(numbers, None)) is not None:
                place = root / kind.NAME / f"case-{number}"
                process = _start(_case, kind, seed, number, shared, place, limits)
                at_work[process.sentinel] = process, number, place, time.monotonic()
            if not at_work:
                return
            ended = wait(list(at_work), timeout=1.0)
            for sentinel, (process, _, _, began) in at_work.items():
                if sentinel not in ended and time.monotonic() - began > limits.wall_seconds:
                    os.kill(process.pid, signal.SIGABRT)  # faulthandler writes where it was
            for sentinel in ended:
                process, number, place, began = at_work.pop(sentinel)
                _end(process)
                late = time.monotonic() - began > limits.wall_seconds
                yield _read_verdict(number, place, process.exitcode, late)
                if not keep:
                    shutil.rmtree(place, ignore_errors=True)
    finally:
        for process, *_ in at_work.values():
            _end(process)


def prepare(kind: ModuleType, shared: Path) -> None:
    """Make the sound seed material of a kind, in a process of its own."""
    shared.mkdir(parents=True)
    process = _FORK.Process(target=kind.prepare, args=(shared,))
    process.start()
    process.join()
    if process.exitcode != 0:
        raise RuntimeError(f"the seed material of {kind.NAME} cannot be made")


def _start(target: Callable[..., None], *arguments: object) -> Any:
    if threading.active_count() > 1:
        raise RuntimeError("a process with threads cannot be forked safely")
    process = _FORK.Process(target=target, args=arguments)
    process.start()
    return process


def _end(process: Any) -> None:
    """Kill what is left of a case, also the processes that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()
    process.join()


def _case(
    kind: ModuleType, seed: int, number: int, shared: Path, place: Path, limits: Limits
) -> None:
    """Make and run one case; the body of a child, which never returns."""
    os.setsid()
    folder = place / "folder"
    (place / "tmp").mkdir(parents=True)
    folder.mkdir()
    _limit(limits)
    _redirect(place / "output")
    faulthandler.enable()
    faulthandler.register(signal.SIGXCPU, chain=True)
    os.environ.update(TMPDIR=str(place / "tmp"), COLUMNS="120", TERM="dumb")
    os.environ.pop("CLUSTERSCALE_TRACEBACK", None)
    tempfile.tempdir = None  # the parent's
    os.chdir(folder)
    with (place / "result").open("w") as result:

        def note(**facts: object) -> None:
            print(json.dumps(facts), file=result, flush=True)

        try:
            case = kind.make(random.Random(f"{kind.NAME} {seed} {number}"), number, shared, folder)
            note(description=case.description)
            outcomes = [_step(case, step, place, note) for step in case.steps]
            if (fault := case.check(folder, outcomes)) is not None:
                note(fault=["different result", fault])
            atexit._run_exitfuncs()  # as the command's own process does
            if left := sorted(map(str, (place / "tmp").iterdir())):
                note(fault=["files left", ", ".join(left[:5])])
        except BaseException:
            note(fault=["broken case", traceback.format_exc()])
        note(done=True)
    os._exit(0)


def _limit(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds + 10))
    resource.setrlimit(resource.RLIMIT_AS, (limits.address_space, limits.address_space))


def _redirect(path: Path) -> None:
    """Send all output of this process to a file, also that of compiled code."""
    for number, target in ((0, os.devnull), (1, path), (2, path)):
        descriptor = os.open(target, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1)


def _step(case: Case, step: tuple[str, ...], place: Path, note: Callable[..., None]) -> Outcome:
    """Run one command in this process, as its entry point does, and note its faults."""
    from clusterscale.cli import main

    before = _paths(place)
    written = (place / "output").stat().st_size
    sys.argv = ["clusterscale", *step]
    began = time.perf_counter()
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = 0 if ended.code is None else ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        code = 70
        traceback.print_exc()
    seconds = time.perf_counter() - began
    sys.stdout.flush()
    sys.stderr.flush()
    with (place / "output").open("rb") as stream:
        stream.seek(written)
        output = stream.read(10 * MOST_OUTPUT).decode("utf-8", "replace")
    note(code=code)
    for fault in find_faults(code, output):
        note(fault=fault)
    if code in REFUSALS and (left := find_left(before, _paths(place), case.may_leave)):
        note(fault=("files left", ", ".join(left[:5])))
    return Outcome(code, output, seconds)


def _paths(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in (place / "folder").rglob("*")}


def _read_verdict(number: int, place: Path, exit_code: int, late: bool) -> Verdict:
    """Return the verdict on a case that ended, from what its process noted and how it ended."""
    path = place / "result"
    notes = [json.loads(line) for line in path.open()] if path.exists() else []
    facts = {key: value for each in notes for key, value in each.items()}
    faults = [tuple(each["fault"]) for each in notes if "fault" in each]
    output = (place / "output").read_bytes()[-20_000:].decode("utf-8", "replace")
    output = output.split("\nExtension modules:")[0]  # of faulthandler
    if "done" not in facts:
        if late or exit_code == -signal.SIGXCPU:
            faults.append(("hang", output[-2_000:]))
        else:
            faults.append(("signal", f"ended with {exit_code}\n{output[-2_000:]}"))
    codes = tuple(each["code"] for each in notes if "code" in each)
    return Verdict(
        number, facts.get("description", "while it was made"), codes, tuple(faults), output
    )
