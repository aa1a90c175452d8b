"""Epochs of a cube: steps of elapsed time, or of the calendar, from a start in a time zone."""

import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import InputError
from clusterscale.validation_messages import plural, quote

Unit = Literal["second", "day", "month"]

_DAY, _MONTH = 86_400, 2_629_746  # seconds; those of a month are a twelfth of a mean year
_UNITS: dict[str, tuple[int, Unit]] = {
    "s": (1, "second"),
    "min": (60, "second"),
    "h": (3600, "second"),
    "d": (_DAY, "day"),
    "w": (7 * _DAY, "day"),
    "mo": (_MONTH, "month"),
}
_SPAN = (-9_214_560_000, 9_214_646_400)  # 1678-01-01 to 2262-01-01, the range of datetime64[ns]


@dataclass(frozen=True, slots=True)
class Step:
    """Length of an epoch.

    Attributes
    ----------
    seconds
        Its length; that of days and months of the calendar on average.
    unit
        What is counted: elapsed seconds, or days or months of local time, whose length varies.
    """

    seconds: int
    unit: Unit = "second"

    @classmethod
    def parse(cls, text: str) -> "Step":
        """Return the step of a text such as ``90s``, ``15min``, ``1h``, ``1d``, ``1w`` or ``1mo``.

        Days, weeks and months are those of the calendar; 24h is elapsed time. Raises InputError if
        ``text`` has another format or is not positive.
        """
        match = re.fullmatch(r"([0-9]{1,12})\s*(s|min|h|d|w|mo)", text.strip())
        if match is None or int(match[1]) == 0:
            raise InputError(
                f"epoch {quote(text)} is not a step such as 90s, 15min, 1h, 1d, 1w or 1mo"
            )
        seconds, unit = _UNITS[match[2]]
        return cls(int(match[1]) * seconds, unit)

    @classmethod
    def between(cls, times: NDArray[Any], timezone: str) -> "Step":
        """Return the shortest step between times, UTC seconds, ascending, shape (≥ 2,).

        It is one of the calendar where times are local midnights and differ by no multiple of it.
        """
        gaps = np.diff(times)
        shortest = int(gaps.min())
        if not (gaps % shortest).any():
            return cls(shortest)
        zone = _zone(timezone)
        days = [datetime.fromtimestamp(second, zone).date() for second in times.tolist()]
        if [datetime.combine(day, time(), zone).timestamp() for day in days] != times.tolist():
            return cls(shortest)
        if len({day.day for day in days}) == 1:
            months = np.diff([12 * day.year + day.month for day in days])
            return cls(int(months.min()) * _MONTH, "month")
        return cls(int(np.diff([day.toordinal() for day in days]).min()) * _DAY, "day")

    def begins(self, start: int, n: int, timezone: str, *, first: int = 0) -> NDArray[np.int64]:
        """Return the UTC seconds at which ``n`` steps begin, int64, shape (n,).

        Step 0 begins at ``start``, and the first that is returned has the number ``first``. A local
        time that clocks skip is taken an hour later, the first of two that they repeat.
        """
        if self.unit == "second":
            return start + self.seconds * np.arange(first, first + n, dtype=np.int64)
        local = datetime.fromtimestamp(start, _zone(timezone)).replace(fold=0)
        moments = (self._after(local, first + number).timestamp() for number in range(n))
        return np.fromiter(map(int, moments), np.int64, n)

    def _after(self, first: datetime, number: int) -> datetime:
        """Return the local time that is a number of steps of the calendar later."""
        if self.unit == "day":
            return first + timedelta(days=number * (self.seconds // _DAY))
        year, month = divmod(first.month - 1 + number * (self.seconds // _MONTH), 12)
        return first.replace(year=first.year + year, month=month + 1)

    def __str__(self) -> str:
        if self.unit == "second":
            return f"{self.seconds} s"
        return plural(self.seconds // (_DAY if self.unit == "day" else _MONTH), self.unit)


@dataclass(frozen=True, slots=True)
class Calendar:
    """The epochs of a cube.

    Attributes
    ----------
    start
        UTC seconds at which epoch 0 begins.
    step
        Length of an epoch in seconds, that of days and months on average.
    n_epochs
        Number of epochs.
    timezone
        IANA name of the time zone of the start and of displayed times.
    unit
        Whether steps are elapsed time, so that a change to summer time neither drops nor repeats an
        epoch, or days or months of local time.

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
    unit: Unit = "second"

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
        if self.unit == "month" and self._first.day > 28:
            raise InputError(f"epochs of months begin on a day up to 28, not {self._first.day}")

    @property
    def length(self) -> Step:
        """The length of an epoch, with its unit."""
        return Step(self.step, self.unit)

    @property
    def _first(self) -> datetime:
        return datetime.fromtimestamp(self.start, _zone(self.timezone))

    @classmethod
    def parse(cls, start: str, step: str, n_epochs: int, timezone: str) -> "Calendar":
        """Build a calendar from text, e.g. ``("2008-05-19T00:00", "1h", 504, "Europe/Paris")``.

        A start that occurs twice, when summer time ends, is the first of the two; an
        explicit offset (``…+02:00``) overrides the zone. Raises InputError if the start is
        not an ISO date in whole seconds or is skipped by the clocks of the zone, the zone
        is unknown, the step is not like ``1h``, or ``n_epochs`` is below 1. Days, weeks and months
        are those of the zone.
        """
        zone = _zone(timezone)
        try:
            local = datetime.fromisoformat(start)
        except (ValueError, OverflowError):
            wrong = f"start {quote(start)} is not an ISO date and time"
            if ways := _as_iso(start):
                raise InputError(f"{wrong}: write what is meant, {' or '.join(ways)}") from None
            raise InputError(f"{wrong} such as '2008-05-19T00:00'") from None
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
        length = Step.parse(step)
        unit: Unit = "second" if timezone == "UTC" and length.unit == "day" else length.unit
        return cls(int(local.timestamp()), length.seconds, n_epochs, timezone, unit)

    @classmethod
    def from_attributes(cls, attributes: dict[str, Any]) -> "Calendar":
        """Build the calendar from the result of :meth:`attributes`."""
        keys = ("start", "step", "n_epochs", "timezone")
        return cls(**{key: attributes[key] for key in keys}, unit=attributes.get("unit", "second"))

    def attributes(self) -> dict[str, Any]:
        """Return JSON-serialisable values for the attributes of a store."""
        attributes = asdict(self)
        if self.unit == "second":  # as in cubes before there were other units
            del attributes["unit"]
        return attributes

    def locate(self, seconds: NDArray[Any]) -> NDArray[np.int32]:
        """Return the epoch, int32, of each UTC time in seconds; −1 if not in the calendar."""
        if seconds.dtype.kind in "iu":  # small or unsigned integers would overflow
            seconds = seconds.astype(np.int64)
        if self.unit != "second":
            ends = self.begins(0, self.n_epochs + 1)
            epoch = np.searchsorted(ends, np.nan_to_num(seconds, nan=-np.inf), side="right") - 1
            return np.where(epoch < self.n_epochs, epoch, -1).astype(np.int32)
        with np.errstate(invalid="ignore"):
            epoch = np.floor_divide(seconds - self.start, self.step)
            inside = (epoch >= 0) & (epoch < self.n_epochs)
        return np.where(inside, epoch, -1).astype(np.int32)

    def seconds(self) -> NDArray[np.int64]:
        """Return the UTC second at which each epoch begins, int64, shape (epoch,)."""
        return self.begins(0, self.n_epochs)

    def begins(self, first: int, n: int) -> NDArray[np.int64]:
        """Return the UTC second at which epochs from ``first`` on begin, int64, shape (n,).

        They may be after the last one, whose end is the beginning of the next.
        """
        return self.length.begins(self.start, n, self.timezone, first=first)

    def days(self, *, ends: bool = False) -> NDArray[np.int64]:
        """Return the number of the local day in which each epoch begins, int64, shape (epoch,).

        With ``ends``, the day of its last second instead.
        """
        zone = ZoneInfo(self.timezone)
        seconds = self.begins(1, self.n_epochs) - 1 if ends else self.seconds()
        times = (datetime.fromtimestamp(second, zone) for second in seconds.tolist())
        return np.fromiter((time.toordinal() for time in times), np.int64, self.n_epochs)

    def span_of_days(self, first: date, last: date) -> tuple[int, int]:
        """Return the first epoch of some local days, and the one after the last.

        Raises InputError if they are not all in the calendar.
        """
        starts, ends = self.days(), self.days(ends=True)
        epochs = np.flatnonzero((starts >= first.toordinal()) & (ends <= last.toordinal()))
        if not starts[0] <= first.toordinal() <= last.toordinal() <= ends[-1] or not len(epochs):
            raise InputError(f"the days {first} to {last} are not in {self.describe()}")
        return int(epochs[0]), int(epochs[-1]) + 1

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

    def describe_clock_change(self, span: tuple[int, int]) -> dict[str, str]:
        """Return, as a row of a summary, how long epochs are if clocks say something else."""
        first, last = self._ends(span)
        passed, shown = last.timestamp() - first.timestamp(), (last - first).total_seconds()
        if passed == shown:  # the difference of two times of one zone is that of its clocks
            return {}
        hours = f"{passed / 3600:,g} hours pass, but clocks show {shown / 3600:,g}"
        if passed % _DAY == 0 and first.time() == time():  # of whole days, if none were changed
            hours += f"; {(2 * passed - shown) / 3600:,g} end with the last day"
        return {"clocks change": f"in this period {hours}"}

    def _ends(self, span: tuple[int, int]) -> tuple[datetime, datetime]:
        zone = ZoneInfo(self.timezone)
        first, last = (
            datetime.fromtimestamp(int(self.begins(epoch, 1)[0]), UTC).astimezone(zone)
            for epoch in span
        )
        return first, last


def _as_iso(text: str) -> list[str]:
    """Return the dates that a text of day, month and year may mean, as ISO texts."""
    found = re.match(r"\s*(\d{1,2})[./ -](\d{1,2})[./ -](\d{4})(?!\d)", text)
    one, two, year = map(int, found.groups()) if found else (0, 0, 0)
    ways = set()
    for day, month in ((one, two), (two, one)):
        with suppress(ValueError):
            ways.add(f"{date(year, month, day)}")
    return sorted(ways)


def _zone(timezone: str) -> ZoneInfo:
    try:
        return ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"timezone {quote(timezone)} is not an IANA name such as 'Europe/London' or 'UTC'"
        ) from None
