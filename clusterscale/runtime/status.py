"""Progress of a run: a small file next to its results, which does not belong to them.

The driver of a run writes ``status/<work>.json`` in its folder. It contains only counts, no
personal data: no target, no row, no error message. Times are those of the driver's clock; clocks of
two machines are compared as little as possible.
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


def _printable(text: str) -> str:
    """Drop control characters, which could manipulate a terminal: the file is not trusted."""
    return "".join(letter for letter in text if letter.isprintable())


Words = Annotated[str, Field(max_length=2000), AfterValidator(_printable)]
Number = Annotated[int, Field(ge=0, lt=2**63)]
Seconds = Annotated[float, Field(ge=0)]


class _StatusFile(BaseModel):
    """Base of models read from a file that another version may have written."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class Stage(_StatusFile):
    """One stage of the work, with numbers of tasks or rows; ``n_total`` is 0 if nothing is counted.

    ``n_before`` of them ended in an earlier run or in another stage; ``seconds`` is the duration so
    far.
    """

    name: Words
    n_total: Number
    n_done: Number
    n_failed: Number = 0
    n_before: Number = 0
    seconds: Seconds = 0.0

    @property
    def n_left(self) -> int:
        """Number of tasks or rows that have not ended."""
        return max(0, self.n_total - self.n_done - self.n_failed)

    @property
    def moved(self) -> bool:
        """Whether anything has ended in this stage in this run."""
        return self.n_done + self.n_failed > self.n_before


class Status(_StatusFile):
    """Last status that a driver wrote.

    ``work`` is ``audit``, ``screen`` or ``recovery``; ``state`` says whether it runs, or how it
    ended, and ``reason`` is the class of an error or a signal's name. ``cluster`` has its name and
    settings, ``driver`` its machine and process, ``dashboard`` a URL or nothing; ``process`` is
    None in files of versions that did not write it. Numbers of workers and threads are the current
    ones, None if not known.

    ``began`` and ``told`` are the start of the run and the time of this status, by the driver's
    clock, in seconds since 1970; ``elapsed`` counts from the start of this driver. ``number``
    counts updates from 1 on, with at most ``beat`` seconds to the next. ``rate`` is recent results
    per second in ``stage``, the current one of ``stages``, None before the first result.
    """

    format: Literal["clusterscale-status"] = "clusterscale-status"
    work: Words
    state: Literal["running", "finished", "failed", "interrupted"]
    reason: Words = ""
    cluster: Words = ""
    driver: Words = ""
    process: ProcessId | None = None
    dashboard: Words = ""
    n_workers: Number | None = None
    n_threads: Number | None = None
    began: Seconds
    told: Seconds
    elapsed: Seconds
    beat: Seconds = BEAT
    number: Number = 1
    stage: Words
    rate: Seconds | None = None
    stages: tuple[Stage, ...]

    @property
    def n_failed(self) -> int:
        """Number of failed tasks in all stages."""
        return sum(stage.n_failed for stage in self.stages)

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
        """Remaining seconds of the current stage at the recent rate; None if not known."""
        stage = next((stage for stage in self.stages if stage.name == self.stage), None)
        if stage is None or not self.rate or self.state != "running":
            return None
        return stage.n_left / self.rate

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
            f"{uri} is not a run status that this version of clusterscale can read"
        ) from None
