"""Time as the cube sees it: fixed steps from a named start in a named zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import InputError

__all__ = ["Calendar", "parse_step"]

_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Calendar:
    """The epochs of a cube.

    Attributes
    ----------
    start
        UTC seconds at which epoch 0 begins.
    step
        Length of an epoch in seconds. Steps are elapsed time: a change to summer time neither
        drops nor repeats an epoch.
    n_epochs
        How many epochs there are.
    timezone
        IANA name of the zone in which the start was named and in which hours are told.
    """

    start: int
    step: int
    n_epochs: int
    timezone: str

    @classmethod
    def parse(cls, start: str, step: str, n_epochs: int, timezone: str) -> Calendar:
        """Build a calendar from text, e.g. ``("2008-05-19T00:00", "1h", 504, "Europe/Paris")``.

        Raises
        ------
        InputError
            If the start is no ISO date, the zone unknown, the step not like ``1h`` or the number
            of epochs below 1.
        """
        if n_epochs < 1:
            raise InputError(f"epochs is {n_epochs}: a cube has at least 1")
        try:
            zone = ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise InputError(
                f"timezone {timezone!r} is not an IANA name such as 'Europe/London' or 'UTC'"
            ) from None
        try:
            local = datetime.fromisoformat(start)
        except ValueError:
            raise InputError(
                f"start {start!r} is not an ISO date and time such as '2008-05-19T00:00'"
            ) from None
        if local.tzinfo is None:
            local = local.replace(tzinfo=zone)
        return cls(int(local.timestamp()), parse_step(step), n_epochs, timezone)

    @classmethod
    def from_attributes(cls, attributes: dict[str, Any]) -> Calendar:
        """Read back what :meth:`attributes` wrote."""
        return cls(*(attributes[key] for key in ("start", "step", "n_epochs", "timezone")))

    def attributes(self) -> dict[str, Any]:
        """Return plain values to keep beside a store."""
        return {
            "start": self.start,
            "step": self.step,
            "n_epochs": self.n_epochs,
            "timezone": self.timezone,
        }

    def locate(self, seconds: NDArray[Any]) -> NDArray[np.int32]:
        """Return the epoch of each UTC time in seconds, −1 outside the calendar.

        Parameters
        ----------
        seconds
            Integer or float, any shape; not-a-number is outside.
        """
        with np.errstate(invalid="ignore"):
            epoch = np.floor_divide(seconds - self.start, self.step)
            inside = (epoch >= 0) & (epoch < self.n_epochs)
        return np.where(inside, epoch, -1).astype(np.int32)

    def seconds(self) -> NDArray[np.int64]:
        """Return the UTC second at which each epoch begins, int64, shape (epoch,)."""
        return self.start + self.step * np.arange(self.n_epochs, dtype=np.int64)

    def describe(self) -> str:
        """Say when the calendar runs, in its own zone."""
        zone = ZoneInfo(self.timezone)
        first = datetime.fromtimestamp(self.start, UTC).astimezone(zone)
        last = datetime.fromtimestamp(self.start + self.step * self.n_epochs, UTC).astimezone(zone)
        return f"{first:%a %Y-%m-%d %H:%M} to {last:%a %Y-%m-%d %H:%M} {self.timezone}"


def parse_step(step: str) -> int:
    """Return the seconds in a step such as ``90s``, ``15min``, ``1h`` or ``1d``.

    Raises
    ------
    InputError
        If ``step`` is written otherwise or is not positive.
    """
    match = re.fullmatch(r"(\d+)\s*(s|min|h|d)", step.strip())
    if match is None or int(match[1]) == 0:
        raise InputError(f"epoch {step!r} is not a step such as 90s, 15min, 1h or 1d")
    return int(match[1]) * _UNITS[match[2]]
