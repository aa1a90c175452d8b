"""Times of published tables: how they are stated, and in which epochs they are."""

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from clusterscale.contracts import Ints, Values
from clusterscale.cube.calendar import Step
from clusterscale.errors import SourceError
from clusterscale.reading import decode
from clusterscale.reading.decode import STATES_ZONE, Hours
from clusterscale.reading.values import Spot, is_text, matches, once_each, text_of
from clusterscale.validation_messages import quote

_DAY = r"^(\d{4}-\d{2}-\d{2})$"
_LENGTH = r"/(?P<length>P[0-9DHMSTWY.]+)$"
_PERIOD = re.compile(r"(?P<year>\d{4})-(?:W(?P<week>\d\d)|Q(?P<quarter>[1-4])|M?(?P<month>\d\d))")
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)? ?(Z|[+-]\d\d:?\d\d)?(/P\w+)?)?")
_MIDNIGHT = re.compile(r"(?P<day>\d{4}-\d\d-\d\d)[T ]24:00(?::00)?(?P<zone>\D.*)?")
_UNUSUAL = r"^\d{4}-(W\d\d|Q[1-4]|M?\d\d)$|[T ]24:00"
_SECONDS = 86_400  # of a day
EARLIEST = 315_532_800  # 1980-01-01: earlier seconds are numbers of something else
SKIPPED = -(1 << 62)
"""In place of the UTC seconds of a local time that clocks skip, where it is left out."""
LATEST = 4_102_444_800  # 2100-01-01
_TIMEZONE = "`timezone` of the format, e.g. timezone='Europe/London'"


@dataclass(frozen=True, slots=True)
class Clock:
    """How a table states times.

    Times without a zone are in ``timezone``, or refused if it is None. ``format`` is that of
    ``datetime.strptime``, None for ISO 8601, dates or epoch seconds; with ``slots`` times are
    numbers of epochs, with ``milliseconds`` they are in milliseconds since 1970. ``hours`` says how
    a column named ``hour`` states the hour of a date. ``step`` is the length that a time may state,
    as in ``…T08:00/PT1H``. With ``drops_skipped``, a local time that clocks skip is ``SKIPPED``.
    """

    timezone: str | None = None
    format: str | None = None
    slots: bool = False
    milliseconds: bool = False
    hour: str = "hour"
    hours: Hours = "0-23"
    step: str | None = None
    drops_skipped: bool = False

    def repeats(self, raw: Any, seconds: Ints) -> Ints:
        """Return when clocks show a local time again, UTC seconds, int64, shape (row,).

        It is −1 where they do not, or the time states its zone.
        """
        kind, found = decode.plain(raw).type, np.full(len(seconds), -1)
        is_local = is_text(kind) or (pa.types.is_temporal(kind) and not getattr(kind, "tz", None))
        if self.format is not None:
            is_local = "%z" not in self.format
        if self.timezone is None or self.slots or not is_local:
            return found
        rows = np.flatnonzero(np.isin(seconds // _SECONDS, _days_back(self.timezone)))
        moments, at = np.unique(seconds[rows], return_inverse=True)
        zoned = pd.to_datetime(moments, unit="s", utc=True).tz_convert(self.timezone)
        later = np.zeros(len(moments), np.bool_)
        shown = zoned.tz_localize(None).tz_localize(self.timezone, ambiguous=later)
        again = shown.tz_convert("UTC").tz_localize(None).to_numpy("datetime64[s]").astype(np.int64)
        found[rows] = np.where(again != moments, again, -1)[at]
        if len(rows) and self.format is None and is_text(kind):
            found[matches(text_of(raw), STATES_ZONE)] = -1
        return found

    def decode(self, name: str, raw: Any, hours: Any, *, spot: Spot) -> Ints:
        """Return UTC seconds or numbers of epochs, int64, shape (row,).

        ``hours`` is None, or an Arrow column with the hour of the day, which is added to a date.
        Raises SourceError if a time cannot be read.
        """
        if hours is not None:
            return self._local(name, raw, hours, spot)
        decoded = partial(self._whole if self.slots else self._seconds, name, spot=spot)
        return once_each(decoded, raw)

    def _seconds(self, name: str, raw: Any, *, spot: Spot) -> Ints:
        if self.format is not None:
            return self._local(name, raw, None, spot)
        if self.milliseconds:
            return self._checked(name, self._whole(name, raw, spot=spot) / 1000, spot)
        return self._checked(name, self._stated(name, raw, spot), spot)

    def _stated(self, name: str, raw: Any, spot: Spot) -> Values:
        """Return UTC seconds of ISO 8601 text, dates, timestamps or epoch seconds."""
        plain = decode.plain(raw)
        if pa.types.is_date(plain.type):
            plain = plain.cast(pa.string())
        if is_text(plain.type):
            plain = pc.replace_substring_regex(text_of(plain), _DAY, r"\1T00:00")
            plain = _as_iso(self._without_length(name, plain, spot))
        times = decode.times(
            name, plain, timezone=self.timezone, where=spot.file, setting=_TIMEZONE
        )
        seconds = times.values
        if self.drops_skipped and is_text(plain.type):
            local = decode.parse_stamps(name, plain, None, "UTC", where="", setting="").notna()
            seconds = np.where(np.isnan(seconds) & local, SKIPPED, seconds)

        def fault(row: int) -> str:
            shown = "" if plain[row].as_py() is None else f"{quote(str(plain[row].as_py()))} "
            return shown + times.fault(row)

        spot.refuse(np.isnan(seconds), name, fault)
        return seconds

    def _without_length(self, name: str, texts: Any, spot: Spot) -> Any:
        """Return times without the lengths that they state, which must be the step that is set."""
        stated = pc.struct_field(pc.extract_regex(texts, _LENGTH), "length")
        for length in pc.unique(stated.drop_null()).to_pylist():
            shown = step_of(length)
            if self.step is None or not shown or Step.parse(shown) != Step.parse(self.step):
                row = int(pc.index(stated, length).as_py())
                remedy = f"set `step: {shown}`" if shown else "its epochs are of no such length"
                raise SourceError(
                    f"{spot.name(row, name)}: {quote(texts[row].as_py())} states its length, "
                    f"{length}, and `step` is {self.step or 'not set'}: {remedy}"
                )
        return pc.replace_substring_regex(texts, _LENGTH, "")

    def _checked(self, name: str, seconds: Values, spot: Spot) -> Ints:
        """Return whole UTC seconds; raise SourceError if one cannot be that of a table."""
        skipped = seconds == SKIPPED if self.drops_skipped else np.zeros(len(seconds), np.bool_)
        seconds = np.where(skipped, EARLIEST, seconds)
        spot.refuse(seconds != np.floor(seconds), name, "the time is not in whole seconds")
        if seconds.max(initial=EARLIEST) > LATEST:
            row = int(np.argmax(seconds))
            raise SourceError(
                f"{spot.name(row, name)}: the time is after 2100; if it is not in seconds since "
                "1970, set `time_format`, or `slots: true` for the number of an epoch, or, in a "
                "long table, `milliseconds: true`"
            )
        if seconds.min(initial=EARLIEST) < EARLIEST:
            row = int(np.argmin(seconds))
            raise SourceError(
                f"{spot.name(row, name)}: the time is {np.datetime64(int(seconds[row]), 's')}; if "
                "it is the number of an epoch, set `slots: true`, else `time_format`"
            )
        return np.where(skipped, SKIPPED, seconds.astype(np.int64))

    def _whole(self, name: str, raw: Any, *, spot: Spot) -> Ints:
        numbers = decode.numbers(name, raw, where=spot.file)
        wrong = numbers.bad | (numbers.values != np.floor(numbers.values))
        wrong |= ~((numbers.values >= 0) & (numbers.values < 1 << 53))
        spot.refuse(wrong, name, "the value is not a whole number of at least 0")
        return numbers.values.astype(np.int64)

    def _local(self, name: str, raw: Any, hours: Any, spot: Spot) -> Ints:
        """Return the UTC seconds of dates with hours, or of times in a format."""
        settings: dict[str, Any] = {"where": spot.file, "setting": _TIMEZONE}
        if hours is not None:
            settings["hour"] = hour = decode.hours(self.hour, hours, self.hours)
            fault = f"no hour of {self.hours}: `hours` of the format says how hours are numbered"
            spot.refuse(hour.bad, self.hour, fault)
        texts = text_of(raw)
        stamps = decode.parse_stamps(name, texts, self.format, self.timezone, **settings)
        how = f"in the format {self.format}" if self.format else "an ISO date"
        wrong = stamps.isna().to_numpy()
        spot.refuse(wrong, name, lambda row: f"{quote(str(texts[row].as_py()))} is not {how}")
        seconds = decode.utc_seconds(stamps, self.timezone)
        skipped = np.isnan(seconds)
        if not self.drops_skipped:
            fault = f"does not exist: clocks in {self.timezone} skip it; `skipped_hour: drop`, in "
            fault += "a long table, leaves its rows out"
            spot.refuse(skipped, name, lambda row: f"{stamps[row]} {fault}")
        return self._checked(name, np.where(skipped, SKIPPED, np.floor(seconds)), spot)


def _as_iso(texts: Any) -> Any:
    """Return times as ISO 8601 texts where they are a week, month or quarter, or 24:00 of a day."""
    if not matches(texts, _UNUSUAL).any():
        return texts
    coded = texts.dictionary_encode()
    names = [name if name is None else _begin(name) for name in coded.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(coded.indices)


def _begin(text: str) -> str:
    """Return when a week, month or quarter, or a time at 24:00, begins; any other text as it is."""
    with suppress(ValueError, OverflowError):
        if found := _MIDNIGHT.fullmatch(text):
            day = date.fromisoformat(found["day"]) + timedelta(days=1)
            return f"{day}T00:00{found['zone'] or ''}"
        if found := _PERIOD.fullmatch(text):
            year, week, quarter = int(found["year"]), found["week"], found["quarter"]
            if week:
                return f"{date.fromisocalendar(year, int(week), 1)}T00:00"
            return (
                f"{date(year, 3 * int(quarter) - 2 if quarter else int(found['month']), 1)}T00:00"
            )
    return text


@lru_cache
def _days_back(timezone: str) -> Ints:
    """Return the UTC days since 1970 in or after which clocks go back, int64, shape (day,)."""
    days = pd.date_range("1980", "2101", freq="D", unit="s")
    offsets = days.tz_localize("UTC").tz_convert(timezone).tz_localize(None) - days
    before = np.flatnonzero(np.diff(offsets.to_numpy().astype(np.int64)) < 0)
    return np.concatenate([before - 1, before]) + EARLIEST // _SECONDS


def is_time(text: str) -> bool:
    """Return whether a text is a time as of ISO 8601, a date, week, month or quarter."""
    return bool(_ISO.fullmatch(text) or _PERIOD.fullmatch(text))


def step_of(length: str) -> str:
    """Return the step of a length as of ISO 8601, such as PT1H; empty for another one."""
    found = re.fullmatch(r"P(?:(\d+)([DWM])|T(\d+)([HMS]))", length)
    if found is None:
        return ""
    days, unit, hours, short = found.groups()
    name = (
        {"D": "d", "W": "w", "M": "mo"}[unit] if unit else {"H": "h", "M": "min", "S": "s"}[short]
    )
    return f"{days or hours}{name}"
