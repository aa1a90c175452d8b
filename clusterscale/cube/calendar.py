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
_SPAN = (-9_214_560_000, 9_214_646_400)  # 1678-01-01 to 2262-01-01: what datetime64[ns] can tell


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

    Raises
    ------
    InputError
        If there is no epoch, no step or no such zone, or a year is outside 1678 to 2261.
    """

    start: int
    step: int
    n_epochs: int
    timezone: str

    def __post_init__(self) -> None:
        if self.n_epochs < 1:
            raise InputError(f"epochs is {self.n_epochs}: a cube has at least 1")
        if self.n_epochs > np.iinfo(np.int32).max:
            raise InputError(f"epochs is {self.n_epochs}: a cube has at most 2147483647")
        if self.step < 1:
            raise InputError(f"an epoch of {self.step} s is not positive")
        if not _SPAN[0] <= self.start <= self.start + self.step * self.n_epochs <= _SPAN[1]:
            raise InputError("the calendar leaves the years 1678 to 2261")
        _zone(self.timezone)

    @classmethod
    def parse(cls, start: str, step: str, n_epochs: int, timezone: str) -> Calendar:
        """Build a calendar from text, e.g. ``("2008-05-19T00:00", "1h", 504, "Europe/Paris")``.

        Raises
        ------
        A start that the clocks show twice, when summer time ends, is the first of the two; one
        with an offset of its own (``…+02:00``) means what it says, whatever the zone.

        Raises
        ------
        InputError
            If the start is no ISO date in whole seconds or the clocks of the zone skip it, the
            zone is unknown, the step not like ``1h`` or the number of epochs below 1.
        """
        zone = _zone(timezone)
        try:
            local = datetime.fromisoformat(start)
        except ValueError:
            raise InputError(
                f"start {start!r} is not an ISO date and time such as '2008-05-19T00:00'"
            ) from None
        if local.microsecond:
            raise InputError(f"start {start!r} is not in whole seconds")
        if not 1678 <= local.year < 2262:
            raise InputError("the calendar leaves the years 1678 to 2261")
        if local.tzinfo is None:
            shown = local.replace(tzinfo=zone).astimezone(UTC).astimezone(zone)
            if shown.replace(tzinfo=None) != local:
                raise InputError(f"start {start!r} does not exist: clocks in {timezone} skip it")
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
        if seconds.dtype.kind in "iu":  # small or unsigned integers would wrap
            seconds = seconds.astype(np.int64)
        with np.errstate(invalid="ignore"):
            epoch = np.floor_divide(seconds - self.start, self.step)
            inside = (epoch >= 0) & (epoch < self.n_epochs)
        return np.where(inside, epoch, -1).astype(np.int32)

    def seconds(self) -> NDArray[np.int64]:
        """Return the UTC second at which each epoch begins, int64, shape (epoch,)."""
        return self.start + self.step * np.arange(self.n_epochs, dtype=np.int64)

    def days(self, *, ends: bool = False) -> NDArray[np.int64]:
        """Return the number of the local day in which each epoch begins, int64, shape (epoch,).

        With ``ends``, of the day in which its last second lies.
        """
        zone = ZoneInfo(self.timezone)
        seconds = self.seconds() + (self.step - 1 if ends else 0)
        times = (datetime.fromtimestamp(second, zone) for second in seconds.tolist())
        return np.fromiter((time.toordinal() for time in times), np.int64, self.n_epochs)

    def clocks(self) -> NDArray[np.int64]:
        """Return what local clocks show when each epoch begins, int64, shape (epoch,).

        In seconds since 1970-01-01 00:00 by these clocks. An hour that they show twice is there
        twice.
        """
        zone = ZoneInfo(self.timezone)
        shown = (datetime.fromtimestamp(second, zone) for second in self.seconds().tolist())
        local = (time.replace(tzinfo=UTC).timestamp() for time in shown)
        return np.fromiter(map(int, local), np.int64, self.n_epochs)

    def describe(self, span: tuple[int, int] | None = None) -> str:
        """Say when the calendar runs, in its own zone; or some epochs of it."""
        zone = ZoneInfo(self.timezone)
        ends = (self.start + self.step * epoch for epoch in span or (0, self.n_epochs))
        first, last = (datetime.fromtimestamp(end, UTC).astimezone(zone) for end in ends)
        return f"{first:%a %Y-%m-%d %H:%M} to {last:%a %Y-%m-%d %H:%M} {self.timezone}"


def _zone(timezone: str) -> ZoneInfo:
    try:
        return ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"timezone {timezone!r} is not an IANA name such as 'Europe/London' or 'UTC'"
        ) from None


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
