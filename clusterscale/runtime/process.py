"""Identify a process, so that others on the same machine can tell whether it still runs."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

_PROC = Path("/proc")
_BOOT = _PROC / "sys/kernel/random/boot_id"
_STATE, _STARTED = 0, 19  # fields of /proc/PID/stat after the name of the program; see proc(5)
_ENDED = {"Z", "X", "x"}  # a zombie has ended, and its parent has not collected its status


class ProcessId(BaseModel):
    """One run of a program on one machine.

    Attributes
    ----------
    host
        Name of the machine.
    pid
        Number of the process, unique on ``machine`` while it runs.
    machine
        Identifies the boot of the machine and the container in which ``pid`` is valid.
    started
        Start of the process, in clock ticks since boot; None if not known. It distinguishes a
        process from a later one with the same number.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    host: Annotated[str, Field(max_length=255)]
    pid: Annotated[int, Field(gt=0, lt=2**31)]
    machine: Annotated[str, Field(max_length=1000)]
    started: Annotated[int, Field(ge=0, lt=2**63)] | None = None

    @classmethod
    def current(cls) -> Self:
        """Return this process."""
        stat = _read_stat(os.getpid())
        return cls(
            host=platform.node()[:255],
            pid=os.getpid(),
            machine=_machine(),
            started=int(stat[_STARTED]) if stat else None,
        )

    def is_gone(self) -> bool:
        """Return whether the process has certainly ended; False on every other machine."""
        if self.machine != _machine():
            return False
        try:
            os.kill(self.pid, 0)  # signal 0 only checks whether the process exists
        except ProcessLookupError:
            return True
        except OSError:
            return False  # another user's: it may be this one or a later one
        stat = _read_stat(self.pid)
        if stat is None:
            return False
        return stat[_STATE] in _ENDED or self.started not in (None, int(stat[_STARTED]))


def _machine() -> str:
    """Return the machine and its container, in which process numbers are unique."""
    boot, namespace = "", ""
    with suppress(OSError):
        boot = _BOOT.read_text().strip()
        namespace = os.readlink(_PROC / "self/ns/pid")
    return " ".join((platform.node(), boot, namespace))[:1000]


def _read_stat(pid: int) -> list[str] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()
