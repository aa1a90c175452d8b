"""Epochs of a cube: fixed steps from a start time in a time zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import InputError
from clusterscale.validation_messages import quote

_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
_SPAN = (-9_214_560_000, 9_214_646_400)  # 1678-01-01 to 2262-01-01, the range of datetime64[ns]


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
        Number of epochs.
    timezone
        IANA name of the time zone of the start and of displayed times.

    Raises
    ------
    InputError
        If ``n_epochs`` or ``step`` is not positive, the zone is unknown, or a year is outside 1678
        to 2261.
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

        A start that occurs twice, when summer time ends, is the first of the two; an
        explicit offset (``…+02:00``) overrides the zone. Raises InputError if the start is
        not an ISO date in whole seconds or is skipped by the clocks of the zone, the zone
        is unknown, the step is not like ``1h``, or ``n_epochs`` is below 1.
        """
        zone = _zone(timezone)
        try:
            local = datetime.fromisoformat(start)
        except (ValueError, OverflowError):
            raise InputError(
                f"start {quote(start)} is not an ISO date and time such as '2008-05-19T00:00'"
            ) from None
        if local.microsecond:
            raise InputError(f"start {quote(start)} is not in whole seconds")
        if not 1678 <= local.year < 2262:
            raise InputError("the calendar leaves the years 1678 to 2261")
        if local.tzinfo is None:
            shown = local.replace(tzinfo=zone).astimezone(UTC).astimezone(zone)
            if shown.replace(tzinfo=None) != local:
                raise InputError(
                    f"start {quote(start)} does not exist: clocks in {timezone} skip it"
                )
            local = local.replace(tzinfo=zone)
        return cls(int(local.timestamp()), parse_step(step), n_epochs, timezone)

    @classmethod
    def from_attributes(cls, attributes: dict[str, Any]) -> Calendar:
        """Build the calendar from the result of :meth:`attributes`."""
        return cls(*(attributes[key] for key in ("start", "step", "n_epochs", "timezone")))

    def attributes(self) -> dict[str, Any]:
        """Return JSON-serialisable values for the attributes of a store."""
        return {
            "start": self.start,
            "step": self.step,
            "n_epochs": self.n_epochs,
            "timezone": self.timezone,
        }

    def locate(self, seconds: NDArray[Any]) -> NDArray[np.int32]:
        """Return the epoch, int32, of each UTC time in seconds; −1 if not in the calendar."""
        if seconds.dtype.kind in "iu":  # small or unsigned integers would overflow
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

        With ``ends``, the day of its last second instead.
        """
        zone = ZoneInfo(self.timezone)
        seconds = self.seconds() + (self.step - 1 if ends else 0)
        times = (datetime.fromtimestamp(second, zone) for second in seconds.tolist())
        return np.fromiter((time.toordinal() for time in times), np.int64, self.n_epochs)

    def clocks(self) -> NDArray[np.int64]:
        """Return the local time at which each epoch begins, int64, shape (epoch,).

        In seconds since 1970-01-01 00:00 local time. An hour repeated at the end of summer time
        appears twice.
        """
        zone = ZoneInfo(self.timezone)
        shown = (datetime.fromtimestamp(second, zone) for second in self.seconds().tolist())
        local = (time.replace(tzinfo=UTC).timestamp() for time in shown)
        return np.fromiter(map(int, local), np.int64, self.n_epochs)

    def describe(self) -> str:
        """Return the beginning and end of the calendar as text, in its own zone."""
        first, last = self._ends((0, self.n_epochs))
        return f"{first:%a %Y-%m-%d %H:%M} to {last:%a %Y-%m-%d %H:%M} {self.timezone}"

    def describe_span(self, span: tuple[int, int]) -> str:
        """Return the time of the epochs ``span[0]`` up to ``span[1]`` as text; whole days as dates.

        >>> Calendar.parse("2024-01-01T00:00", "1h", 336, "UTC").describe_span((0, 168))
        '2024-01-01 to 2024-01-07'
        """
        first, last = self._ends(span)
        if first.time() == last.time() == time():
            until = last.date() - timedelta(days=1)
            return f"{first:%Y-%m-%d}" + (f" to {until:%Y-%m-%d}" if until > first.date() else "")
        return f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"

    def _ends(self, span: tuple[int, int]) -> tuple[datetime, datetime]:
        zone = ZoneInfo(self.timezone)
        first, last = (
            datetime.fromtimestamp(self.start + self.step * epoch, UTC).astimezone(zone)
            for epoch in span
        )
        return first, last


def _zone(timezone: str) -> ZoneInfo:
    try:
        return ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"timezone {quote(timezone)} is not an IANA name such as 'Europe/London' or 'UTC'"
        ) from None


def parse_step(step: str) -> int:
    """Return the seconds in a step such as ``90s``, ``15min``, ``1h`` or ``1d``.

    Raises InputError if ``step`` has another format or is not positive.
    """
    match = re.fullmatch(r"([0-9]{1,12})\s*(s|min|h|d)", step.strip())
    if match is None or int(match[1]) == 0:
        raise InputError(f"epoch {quote(step)} is not a step such as 90s, 15min, 1h or 1d")
    return int(match[1]) * _UNITS[match[2]]
