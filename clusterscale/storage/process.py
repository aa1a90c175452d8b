"""Processes of this machine: where their numbers are unique, when they began, if they ended."""

import os
import platform
from pathlib import Path

_PROC = Path("/proc")
_STATE, _STARTED = 0, 19  # fields of /proc/PID/stat after the name of the program; see proc(5)


def find_machine() -> str:
    """Return the boot and container in which process numbers are unique, empty if not known."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return " ".join((platform.node(), boot, os.readlink(_PROC / "self/ns/pid")))[:1000]
    except OSError:
        return ""


def find_start(pid: int) -> int | None:
    """Return when a process began, in clock ticks since boot; None if not known."""
    stat = _read_stat(pid)
    return int(stat[_STARTED]) if stat else None


def has_ended(machine: str, pid: int, started: int | None = None) -> bool:
    """Return whether a process has certainly ended; False on every other machine.

    With its start, a later process of the same number is not taken for it.
    """
    if not machine or machine != find_machine():
        return False
    try:
        os.kill(pid, 0)  # signal 0 only checks whether the process exists
    except OSError as error:  # another user's: it may be this one or a later one
        return isinstance(error, ProcessLookupError)
    stat = _read_stat(pid)
    if stat is None:
        return False
    # {"Z", "X", "x"}: a zombie has ended, and its parent has not collected its status
    return stat[_STATE] in {"Z", "X", "x"} or started not in (None, int(stat[_STARTED]))


def find_peak_memory() -> int | None:
    """Return the most bytes of memory that this process has used; None if not known."""
    try:  # getrusage would count those of the process that started this one
        text = (_PROC / "self/status").read_text()
    except OSError:
        return None
    peak = next((line for line in text.splitlines() if line.startswith("VmHWM:")), None)
    return None if peak is None else 1024 * int(peak.split()[1])


def _read_stat(pid: int) -> list[str] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()
