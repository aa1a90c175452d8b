"""What a study takes, in words for ``--explain``."""

from __future__ import annotations

import math

__all__ = ["describe_bytes", "describe_cost"]

_UNITS = ("B", "kB", "MB", "GB", "TB")


def describe_bytes(n_bytes: float) -> str:
    """Return a number of bytes in the unit that fits."""
    power = min(int(math.log10(max(n_bytes, 1))) // 3, len(_UNITS) - 1)
    scaled = n_bytes / 1000**power
    digits = 1 if power and scaled < 10 else 0
    return f"{scaled:.{digits}f} {_UNITS[power]}"


def describe_cost(
    *, read: str, worker: str, core_seconds: float, seconds: tuple[float, ...]
) -> dict[str, str]:
    """Return the rows that every analysis shows.

    Parameters
    ----------
    read, worker
        What is read, and the memory that a worker uses.
    core_seconds
        Seconds of one processor.
    seconds
        Seconds of the cluster: about, or from and to.
    """
    wall = "about {:,.0f} s" if len(seconds) == 1 else "{:,.0f} to {:,.0f} s"
    return {
        "read": read,
        "used by each worker": f"up to {worker}",
        "work": f"about {core_seconds:,.0f} s of one processor",
        "time": f"{wall.format(*seconds)} of the cluster, if it does nothing else",
    }
