"""Progress of a run: a small file next to its results, which does not belong to them.

The driver of a run writes ``status/<work>.json`` in its folder: one line, with counts, bytes and
times. It contains no personal data: no target, no row, no error message. Times are those of the
driver's clock; clocks of two machines are compared as little as possible.
"""

import os
import platform
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from clusterscale import storage
from clusterscale.errors import TEMPORARY, FormatError, MissingError
from clusterscale.schema import STATUS
from clusterscale.storage.process import find_machine, find_start, has_ended


class ProcessId(BaseModel):
    """One run of a program on one machine.

    ``pid`` is unique on ``machine``, the boot and the container in which it is valid, while the
    process runs. ``started``, its start in clock ticks since boot or None if not known,
    distinguishes it from a later one with the same number.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    host: Annotated[str, Field(max_length=255)]
    pid: Annotated[int, Field(gt=0, lt=2**31)]
    machine: Annotated[str, Field(max_length=1000)]
    started: Annotated[int, Field(ge=0, lt=2**63)] | None = None

    @classmethod
    def current(cls) -> Self:
        """Return this process."""
        pid = os.getpid()
        host, machine, started = platform.node()[:255], find_machine(), find_start(pid)
        return cls(host=host, pid=pid, machine=machine, started=started)

    def is_gone(self) -> bool:
        """Return whether the process has certainly ended; False on every other machine."""
        return has_ended(self.machine, self.pid, self.started)


BEAT = 10.0
"""Maximal seconds between two updates of the status by a driver."""

_SILENT = 3  # beats without an update, after which a driver is considered dead

_LONGEST = 2000  # text in a status


def printable(text: str) -> str:
    """Drop control characters, which could manipulate a terminal: the file is not trusted."""
    return "".join(letter for letter in text if letter.isprintable())[:_LONGEST]


Words = Annotated[str, Field(max_length=_LONGEST), AfterValidator(printable)]
Number = Annotated[int, Field(ge=0, lt=2**63)]
Seconds = Annotated[float, Field(ge=0, lt=2.5e11)]  # a date before the year 9999


class _StatusFile(BaseModel):
    """Base of models read from a file that another version may have written."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class Status(_StatusFile):
    """Last status that a driver wrote.

    ``work`` is the kind of analysis, such as ``audit``; ``state`` says whether it runs, or how it
    ended, and ``reason`` is the class of an error or a signal's name. ``n_tasks`` and ``n_done``
    are tasks or rows of ``stage``, the current one, 0 if nothing is counted; ``n_before`` of them
    had ended when it began. ``n_failed`` counts failed tasks of all stages, ``n_merging`` the
    merges of small files that the stage waits for.

    ``n_workers`` is the current number, None if not known. ``n_lost_workers`` and ``n_retries``
    count workers that are gone, and batches of tasks that the driver sent again (Dask itself moves
    tasks of a lost worker to another). ``driver_memory`` and ``worker_memory`` are the most bytes
    that the driver has used, and that any worker has reported; None if not known.

    ``began``, ``since`` and ``told`` are the start of the run, that of the stage, and the time of
    this status, in seconds since 1970; the next status follows within ``beat`` seconds.
    """

    format: Literal["clusterscale-status"] = "clusterscale-status"
    work: Words
    state: Literal["running", "finished", "failed", "interrupted"]
    reason: Words = ""
    stage: Words
    n_tasks: Number
    n_done: Number
    n_failed: Number  # required, so that a file of an earlier version is not read as a success
    n_before: Number = 0
    n_merging: Number = 0
    n_workers: Number | None = None
    n_lost_workers: Number = 0
    n_retries: Number = 0
    driver_memory: Number | None = None
    worker_memory: Number | None = None
    began: Seconds
    since: Seconds
    told: Seconds
    beat: Seconds = BEAT
    process: ProcessId | None = None

    @property
    def exit_code(self) -> int | None:
        """0 if all tasks succeeded, 1 if some failed, 75 if stopped; None while it runs."""
        if self.state == "running":
            return None
        if self.state == "finished":
            return int(self.n_failed > 0)
        return TEMPORARY

    @property
    def seconds_left(self) -> float | None:
        """Remaining seconds of the stage at its mean rate so far; None if not known."""
        n_ended = self.n_done - self.n_before
        if self.state != "running" or n_ended <= 0:
            return None
        return max(0, self.n_tasks - self.n_done) * (self.told - self.since) / n_ended

    @property
    def has_lost_driver(self) -> bool:
        """Whether the driver ended without a final status; True only on the driver's machine."""
        return self.state == "running" and self.process is not None and self.process.is_gone()

    def is_silent(self, seconds: float) -> bool:
        """Return whether a running driver should have written a status within ``seconds``."""
        return self.state == "running" and seconds > _SILENT * self.beat


def status_uri(folder: str, work: str) -> str:
    """Return the URI of the status file of a kind of work."""
    return f"{folder.rstrip('/')}/{STATUS}/{work}.json"


def read_status(folder: str) -> Status:
    """Return the last status of a run in a folder; of several kinds of work, a running one.

    Raises MissingError if no run has written a status there, FormatError if a file is not a valid
    status, and StoreError if it cannot be read.
    """
    folder = folder.rstrip("/")
    names = storage.list_names(f"{folder}/{STATUS}")
    statuses = [_read(f"{folder}/{STATUS}/{name}") for name in names if name.endswith(".json")]
    if not statuses:
        raise MissingError(
            f"{folder}: there is no run to watch; its status appears as soon as its cluster is up "
            "and its first task has started"
        )
    # the latest start among recently updated statuses, running ones first
    last = max(status.told for status in statuses)
    recent = [status for status in statuses if last - status.told <= _SILENT * status.beat]
    return max(recent, key=lambda status: (status.state == "running", status.began))


def _read(uri: str) -> Status:
    try:
        return Status.model_validate_json(storage.read(uri))
    except FileNotFoundError:
        raise MissingError(f"{uri} was deleted while it was read") from None
    except ValidationError:
        raise FormatError(
            f"{uri} is not a run status that this version of clusterscale can read; remove it if "
            "its run is over"
        ) from None
