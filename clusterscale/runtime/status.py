"""How far a run is, for whoever looks on: a small file beside its results, and no part of them.

Whoever works on a run says so in ``status/<work>.json`` below its folder, in plain numbers, and
nothing about a person: no target, no row, no message of an error. Times are those of the driver's
clock; two clocks are never compared, where it can be helped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from clusterscale import storage
from clusterscale.errors import TEMPORARY, FormatError, MissingError
from clusterscale.runtime.process import ProcessId
from clusterscale.schema import STATUS

__all__ = ["BEAT", "Stage", "Status", "place_of", "read_status"]

BEAT = 10.0
"""Seconds after which a driver gives a sign of life, whatever happened meanwhile."""

_SILENT = 3  # beats without a sign, after which a driver is taken for dead


def _printable(text: str) -> str:
    """Drop what would move a terminal's cursor, or colour it: the file may be anybody's."""
    return "".join(letter for letter in text if letter.isprintable())


Words = Annotated[str, Field(max_length=2000), AfterValidator(_printable)]
Number = Annotated[int, Field(ge=0, lt=2**63)]
Seconds = Annotated[float, Field(ge=0)]


class _StatusFile(BaseModel):
    """What is read from a file that another version may have written."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class Stage(_StatusFile):
    """One stage of the work.

    Attributes
    ----------
    n_total, n_done, n_failed
        Tasks or rows; ``n_total`` is 0 where nothing is counted.
    n_before
        How many of them had ended by an earlier run, or in another stage.
    seconds
        That it has taken so far.
    """

    name: Words
    n_total: Number
    n_done: Number
    n_failed: Number = 0
    n_before: Number = 0
    seconds: Seconds = 0.0

    @property
    def n_left(self) -> int:
        """How many have not ended."""
        return max(0, self.n_total - self.n_done - self.n_failed)

    @property
    def moved(self) -> bool:
        """Whether anything that is counted has ended in it."""
        return self.n_done + self.n_failed > self.n_before


class Status(_StatusFile):
    """What a driver last said.

    Attributes
    ----------
    work
        ``audit``, ``screen`` or ``recovery``.
    state, reason
        Whether it goes on, or how it ended: by the class of an error, or the name of a signal.
    cluster, driver, dashboard
        The cluster's name and settings, the machine and process of the driver, and where the
        cluster can be watched, empty where it cannot.
    process
        The driver's process; None in files of versions that did not write it.
    n_workers, n_threads
        At work when this was said; None where that is not known.
    began, told
        By the driver's clock, seconds since 1970.
    elapsed
        Seconds that this driver has worked.
    beat
        Seconds after which it says something again, at most.
    number
        Of what it said, from 1 on.
    stage
        The name of the present one of ``stages``.
    rate
        Results a second of late in that stage; None where none has come yet.
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
        """How many tasks have failed, in all stages."""
        return sum(stage.n_failed for stage in self.stages)

    @property
    def exit_code(self) -> int | None:
        """What it came to: 0 all well, 1 some tasks failed, 75 stopped; None while it runs."""
        if self.state == "running":
            return None
        if self.state == "finished":
            return int(self.n_failed > 0)
        return TEMPORARY

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the present stage still takes at the rate of late; None if not known."""
        stage = next((each for each in self.stages if each.name == self.stage), None)
        if stage is None or not self.rate or self.state != "running":
            return None
        return stage.n_left / self.rate

    @property
    def has_lost_driver(self) -> bool:
        """Whether the driver ended without saying so; only ever True on its own machine."""
        return self.state == "running" and self.process is not None and self.process.is_gone()

    def is_silent(self, seconds: float) -> bool:
        """Tell whether a driver that runs should have said something within ``seconds``."""
        return self.state == "running" and seconds > _SILENT * self.beat


def place_of(folder: str, work: str) -> str:
    """Return where the status of a kind of work is."""
    return f"{folder.rstrip('/')}/{STATUS}/{work}.json"


def read_status(folder: str) -> Status:
    """Return what was last said of the run in ``folder``, a local path or fsspec URL.

    Of several kinds of work it is one that goes on, if any does.

    Raises
    ------
    MissingError
        If nobody works there, or ever did.
    FormatError
        If a file is there, but says something else.
    StoreError
        If it cannot be read.
    """
    folder = folder.rstrip("/")
    names = storage.list_names(f"{folder}/{STATUS}")
    found = [_read(f"{folder}/{STATUS}/{name}") for name in names if name.endswith(".json")]
    if not found:
        raise MissingError(
            f"{folder}: there is no run to watch; it can be seen as soon as its cluster is up and "
            "its first task is under way"
        )
    return _choose(found)


def _choose(found: Iterable[Status]) -> Status:
    """Return the latest; of those that were alive when it was said, one that goes on."""
    found = list(found)
    last = max(each.told for each in found)
    recent = [each for each in found if last - each.told <= _SILENT * each.beat]
    return max(recent, key=lambda each: (each.state == "running", each.began))


def _read(uri: str) -> Status:
    try:
        return Status.model_validate_json(storage.read(uri))
    except FileNotFoundError:
        raise MissingError(f"{uri}: it was there, and is gone") from None
    except ValidationError:
        raise FormatError(f"{uri} is no status of a run that this clusterscale knows") from None
