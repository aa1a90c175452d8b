"""What formats of text share: how they state values, hidden ones, times and epochs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Annotated, Any, Literal, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, Strict, model_validator

from clusterscale.contracts import Ints, Values
from clusterscale.cube.calendar import Step
from clusterscale.errors import InputError, SourceError
from clusterscale.reading import decode
from clusterscale.reading.decode import Zone
from clusterscale.reading.tables import Delimiter, Encoding, TextLayout
from clusterscale.release.content import RawRelease, TableFormat
from clusterscale.release.rows import Rows
from clusterscale.validation_messages import quote

HIDDEN = ("", "*", "**", "***", ":", "..", "...", "-", "x", "NA", "N/A", "NaN", "nan", "null")
"""Texts that publishers show instead of a hidden value, besides bands such as "<5"."""

HIDDEN_STATUS = ("c", "C", "s", "S", "suppressed", "hidden", "confidential", "redacted", "masked")
"""Statuses of hidden values: ``c`` and ``S`` are those of SDMX."""

_WHOLE = r"(\d+|\d{1,3}(?:[.,]\d{3})+)"
_BANDS = {  # of what is hidden: pattern of its text, and how far its end is above the number
    rf"^(?:<|less than|fewer than|under|below)\s*{_WHOLE}$": 0,
    rf"^(?:≤|<\s*=|up to|at most)\s*{_WHOLE}$": 1,
    rf"^{_WHOLE} or (?:less|fewer)$": 1,
    rf"^\d[\d.,]*\s*(?:-|–|to)\s*{_WHOLE}$": 1,
}
BAND = f"(?i){'|'.join(_BANDS)}"
_DAY = r"^(\d{4}-\d{2}-\d{2})$"
_LENGTH = r"/(?P<length>P[0-9DHMSTWY.]+)$"
_PERIOD = re.compile(r"(?P<year>\d{4})-(?:W(?P<week>\d\d)|Q(?P<quarter>[1-4])|M?(?P<month>\d\d))")
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)? ?(Z|[+-]\d\d:?\d\d)?(/P\w+)?)?")
_MIDNIGHT = re.compile(r"(?P<day>\d{4}-\d\d-\d\d)[T ]24:00(?::00)?(?P<zone>\D.*)?")
_UNUSUAL = r"^\d{4}-(W\d\d|Q[1-4]|M?\d\d)$|[T ]24:00"
_ZONE = r"(?i):\d{2}.*[+-]\d{2}:?\d{0,2}$|Z$"
EARLIEST = 315_532_800  # 1980-01-01: earlier seconds are numbers of something else
_LARGEST = 1 << 53
SKIPPED = -1
"""In place of the UTC seconds of a local time that clocks skip, where it is left out."""
LATEST = 4_102_444_800  # 2100-01-01
_MARKS = {".": ".", ",": ",", "'": "'’", " ": " \u00a0\u2009\u202f"}  # what each stands for
_ALL_MARKS = "".join(_MARKS.values())


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a run of rows is: the file, the number of the first row, and which rows if not all."""

    file: str
    first: int
    unit: str
    kept: Ints | None = None

    def name(self, row: int, column: str) -> str:
        """Return the file, row and column of a value, for messages."""
        row = row if self.kept is None else int(self.kept[row])
        return f"{self.file}: {self.unit} {self.first + row:,}, column {column}"

    def refuse(self, wrong: NDArray[np.bool_], column: str, fault: str) -> None:
        """Raise :class:`SourceError` for the first row that is wrong, if any is."""
        if wrong.any():
            raise SourceError(f"{self.name(int(np.argmax(wrong)), column)}: {fault}")


@dataclass(frozen=True, slots=True)
class Marks:
    """The decimal mark of numbers, and the mark between thousands, empty for none."""

    decimal: str = "."
    thousands: str = ""

    def plain(self, texts: Any) -> Any:
        """Return Arrow strings of numbers with a decimal dot, null where a dot is no decimal."""
        if self.thousands:
            mark, decimal = f"[{_MARKS[self.thousands]}]", re.escape(self.decimal)
            grouped = pc.match_substring_regex(
                texts, rf"^[+-]?\d{{1,3}}({mark}\d{{3}})+({decimal}\d*)?$"
            )
            texts = pc.if_else(grouped, pc.replace_substring_regex(texts, mark, ""), texts)
        if self.decimal == ".":
            return texts
        dotted = pc.match_substring(texts, ".")
        commas = pc.replace_substring(texts, self.decimal, ".")
        return pc.if_else(dotted, pa.scalar(None, pa.string()), commas)

    def fault(self, text: str) -> str:
        """Return what is wrong with a text that is not a number, and what would read it."""
        grouped = not self.thousands and re.fullmatch(rf"[+-]?\d+([{_ALL_MARKS}]\d{{3}})+\D*", text)
        remedy = "if the mark separates thousands, set `thousands`; " if grouped else ""
        kind = "number with a decimal comma" if self.decimal == "," else "number"
        return f"{quote(text)} is not a {kind}; {remedy}if it hides the value, add it to `hidden`"


def text_of(raw: Any) -> Any:
    """Return a column as trimmed Arrow strings; bytes that are not UTF-8 are no empty text."""
    return pc.utf8_trim_whitespace(decode.text(decode.plain(raw), undecodable="\ufffd"))


def decode_values(
    name: str,
    raw: Any,
    statuses: Sequence[tuple[Any, Sequence[str]]] = (),
    *,
    hidden: Sequence[str],
    marks: Marks = Marks(),
    spot: Spot,
) -> Values:
    """Return published values, float64, shape (row,); NaN where they are hidden.

    ``raw`` is an Arrow column of numbers or text, ``statuses`` are others with a status of each
    value, and the statuses of hidden ones. Raises SourceError if a value is no number, is infinite,
    or is given although a status says that it is hidden.
    """

    def decoded(column: Any) -> Values:
        return _numbers(name, column, hidden=hidden, marks=marks, spot=spot)

    values = _once_each(decoded, raw)
    for status, codes in statuses:
        shown = text_of(status)
        both = np.flatnonzero(among(shown, codes) & ~np.isnan(values))
        if len(both):
            row = int(both[0])
            raise SourceError(
                f"{spot.name(row, name)}: there is a value, but its status is "
                f"{quote(shown[row].as_py())}, hidden"
            )
    return values


def _once_each(decoded: Callable[[Any], NDArray[Any]], raw: Any) -> NDArray[Any]:
    """Return a decoded column; texts that repeat are decoded once.

    Messages name the first wrong row, so if a text is wrong, all rows are decoded.
    """
    if _is_text(raw.type) or pa.types.is_dictionary(raw.type):
        coded = raw if pa.types.is_dictionary(raw.type) else raw.dictionary_encode()
        if not coded.null_count and 2 * len(coded.dictionary) < len(coded):
            with suppress(SourceError):
                return np.asarray(decoded(coded.dictionary)[coded.indices.to_numpy()])
    return decoded(raw)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _numbers(name: str, raw: Any, *, hidden: Sequence[str], marks: Marks, spot: Spot) -> Values:
    """Return numbers, NaN where they are hidden."""
    plain = decode.plain(raw)
    if pa.types.is_integer(plain.type) or pa.types.is_floating(plain.type):
        values = np.array(decode.numbers(name, plain, where=spot.file).values)
        empty = np.isnan(values)
        codes = [float(code) for code in hidden if _is_number(code)]
        values[np.isin(values, codes)] = np.nan
        texts = None
    else:
        texts = text_of(plain)
        empty = among(texts, hidden) | _matches(texts, BAND)
        numbers = pc.if_else(pa.array(empty), pa.scalar(None, pa.string()), marks.plain(texts))
        values = np.array(decode.numbers(name, numbers, where=spot.file).values)
    if texts is not None and (wrong := np.isnan(values) & ~empty).any():
        row = int(np.argmax(wrong))
        raise SourceError(f"{spot.name(row, name)}: {marks.fault(texts[row].as_py() or '')}")
    spot.refuse(np.isinf(values), name, "the value is infinite")
    return values


def _is_number(code: str) -> bool:
    return re.fullmatch(r"[+-]?\d+(\.\d+)?", code) is not None


def bands_in(raw: Any) -> set[int]:
    """Return the counts below which values are, where a column has bands such as "<5"."""
    plain = raw.dictionary if pa.types.is_dictionary(raw.type) else decode.plain(raw)
    if not _is_text(plain.type):
        return set()
    texts = pc.unique(text_of(plain)).drop_null()
    shown = texts.filter(pa.array(_matches(texts, BAND))).to_pylist()
    return {
        int(re.sub(r"\D", "", found[1])) + more
        for text in shown
        for pattern, more in _BANDS.items()
        if (found := re.match(pattern, text, re.IGNORECASE))
    }


def is_empty(raw: Any) -> NDArray[np.bool_]:
    """Return which values of a column are empty or null, shape (row,)."""
    plain = decode.plain(raw)
    if _is_text(plain.type):
        return among(text_of(plain), ("",))
    return np.asarray(pc.is_null(plain).to_numpy(zero_copy_only=False), np.bool_)


def among(texts: Any, codes: Sequence[str]) -> NDArray[np.bool_]:
    """Return which trimmed texts are one of some codes, shape (row,); a null is an empty text."""
    found = pc.is_in(pc.fill_null(texts, ""), value_set=pa.array(list(codes), pa.string()))
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def _matches(texts: Any, pattern: str) -> NDArray[np.bool_]:
    found = pc.match_substring_regex(pc.fill_null(texts, ""), pattern)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


Hours = Literal["0-23", "1-24", "hhmm"]
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
        plain = decode.plain(raw)
        if self.timezone is None or not _may_be_local(plain.type):
            return np.full(len(seconds), -1)
        moments, at = np.unique(seconds, return_inverse=True)
        zoned = pd.to_datetime(moments, unit="s", utc=True).tz_convert(self.timezone)
        later = np.zeros(len(moments), np.bool_)
        shown = zoned.tz_localize(None).tz_localize(self.timezone, ambiguous=later)
        again = shown.tz_convert("UTC").tz_localize(None).to_numpy("datetime64[s]").astype(np.int64)
        again = np.where(again != moments, again, -1)[at]
        if _is_text(plain.type):
            again[_matches(text_of(plain), _ZONE)] = -1
        return again

    def decode(self, name: str, raw: Any, hours: Any, *, spot: Spot) -> Ints:
        """Return UTC seconds or numbers of epochs, int64, shape (row,).

        ``hours`` is None, or an Arrow column with the hour of the day, which is added to a date.
        Raises SourceError if a time cannot be read.
        """
        if hours is not None:
            return self._local(name, raw, hours, spot)
        decoded = partial(self._whole if self.slots else self._seconds, name, spot=spot)
        return _once_each(decoded, raw)

    def _seconds(self, name: str, raw: Any, *, spot: Spot) -> Ints:
        if self.format is not None:
            return self._local(name, raw, None, spot)
        seconds = self._milliseconds if self.milliseconds else self._stated
        return self._checked(name, seconds(name, raw, spot), spot)

    def _milliseconds(self, name: str, raw: Any, spot: Spot) -> Values:
        return np.asarray(self._whole(name, raw, spot=spot) / 1000)

    def _stated(self, name: str, raw: Any, spot: Spot) -> Values:
        """Return UTC seconds of ISO 8601 text, dates, timestamps or epoch seconds."""
        plain = decode.plain(raw)
        if pa.types.is_date(plain.type):
            plain = plain.cast(pa.string())
        if _is_text(plain.type):
            plain = pc.replace_substring_regex(text_of(plain), _DAY, r"\1T00:00")
            plain = _as_iso(self._without_length(name, plain, spot))
        times = decode.times(
            name, plain, timezone=self.timezone, where=spot.file, setting=_TIMEZONE
        )
        seconds = times.values
        if self.drops_skipped and _is_text(plain.type):
            seconds = np.where(np.isnan(seconds) & _are_local(plain), SKIPPED, seconds)
        if np.isnan(seconds).any():
            row = int(np.argmax(np.isnan(seconds)))
            shown = "" if plain[row].as_py() is None else f"{quote(str(plain[row].as_py()))} "
            raise SourceError(f"{spot.name(row, name)}: {shown}{times.fault(row)}")
        return seconds

    def _without_length(self, name: str, texts: Any, spot: Spot) -> Any:
        """Return times without the lengths that they state, which must be the step that is set."""
        stated = pc.struct_field(pc.extract_regex(texts, _LENGTH), "length")
        given = pc.unique(stated.drop_null()).to_pylist()
        if not given:
            return texts
        for length in given:
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
        wrong |= ~((numbers.values >= 0) & (numbers.values < _LARGEST))
        spot.refuse(wrong, name, "the value is not a whole number of at least 0")
        return numbers.values.astype(np.int64)

    def _local(self, name: str, raw: Any, hours: Any, spot: Spot) -> Ints:
        """Return the UTC seconds of dates with hours, or of times in a format."""
        texts = text_of(raw)
        if self.format is None:  # a date, which has no zone of its own
            zoned = pa.array(_matches(texts, _ZONE))
            texts = pc.if_else(zoned, pa.scalar(None, pa.string()), texts)
        stamps = decode.parse_stamps(
            name,
            texts,
            self.format or "ISO8601",
            self.timezone,
            where=spot.file,
            setting=_TIMEZONE,
        )
        wrong = stamps.isna().to_numpy()
        if wrong.any():
            row = int(np.argmax(wrong))
            how = f"in the format {self.format}" if self.format else "an ISO date"
            shown = quote(str(text_of(raw)[row].as_py()))
            raise SourceError(f"{spot.name(row, name)}: {shown} is not {how}")
        if hours is not None:
            stamps = stamps + pd.to_timedelta(self._minutes(hours, spot), unit="min")
        seconds = decode.utc_seconds(stamps, self.timezone)
        skipped = np.isnan(seconds)
        if skipped.any() and not self.drops_skipped:
            row = int(np.argmax(skipped))
            raise SourceError(
                f"{spot.name(row, name)}: {stamps[row]} does not exist: clocks in {self.timezone} "
                "skip it; `skipped_hour: drop`, in a long table, leaves its rows out"
            )
        return self._checked(name, np.where(skipped, SKIPPED, np.floor(seconds)), spot)

    def _minutes(self, hours: Any, spot: Spot) -> Ints:
        """Return the minutes of a day at which hours begin, int64, shape (row,)."""
        stated = self._whole(self.hour, hours, spot=spot)
        is_clock = self.hours == "hhmm"
        first = stated // 100 if is_clock else stated - (self.hours == "1-24")
        rest = stated % 100 if is_clock else 0 * stated
        wrong = (first < 0) | (first > 23) | (rest > 59)
        fault = f"no hour of {self.hours}: `hours` of the format says how hours are numbered"
        spot.refuse(wrong, self.hour, fault)
        return np.asarray(first * 60 + rest, np.int64)


def _as_iso(texts: Any) -> Any:
    """Return times as ISO 8601 texts where they are a week, month or quarter, or 24:00 of a day."""
    if not _matches(texts, _UNUSUAL).any():
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


def _may_be_local(kind: Any) -> bool:
    return _is_text(kind) or (pa.types.is_timestamp(kind) and kind.tz is None)


def is_time(text: str) -> bool:
    """Return whether a text is a time as of ISO 8601, a date, week, month or quarter."""
    return bool(_ISO.fullmatch(text) or _PERIOD.fullmatch(text))


def _are_local(texts: Any) -> NDArray[np.bool_]:
    """Return which texts are local times, whether or not clocks show them."""
    shown = texts.to_pandas()
    zoned = shown.str.contains(_ZONE, na=False)
    stamps = pd.to_datetime(shown.mask(zoned), format="ISO8601", errors="coerce")
    return np.asarray(stamps.notna())


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


TOTAL = "Total"


def _step(text: str) -> str:
    try:
        Step.parse(text)
    except InputError as error:
        raise ValueError(str(error)) from None
    return text


StepText = Annotated[str, AfterValidator(_step)]
Codes = Annotated[tuple[str, ...], Strict(False)]
Mark = Literal[".", ",", "'", " "]


class TextTable(TableFormat):
    """A format in which values and times may be text.

    Attributes
    ----------
    hidden
        Values that stand for a hidden one, e.g. ``['-1']``; "<5" and the like always do.
    timezone
        Time zone of times without one, e.g. ``Europe/Madrid``; by default they are refused.
    time_format
        Format of times as of Python's ``strptime``, e.g. ``'%d/%m/%Y %H:%M'``.
    slots
        Whether times are numbers of epochs.
    step
        Length of an epoch, e.g. ``1h``; ``1d``, ``1w`` and ``1mo`` are those of the calendar. By
        default the shortest time between two.
    decimal_comma
        Whether decimals follow a comma; then a dot is no decimal.
    thousands
        Mark between thousands, e.g. ``'.'``; a space stands for all kinds of spaces.
    """

    hidden: Codes = HIDDEN
    timezone: Zone | None = None
    time_format: str | None = None
    slots: bool = False
    step: StepText | None = None
    decimal_comma: bool = False
    thousands: Mark | None = None

    @model_validator(mode="after")
    def _marks_differ(self) -> Self:
        if self.thousands == self.marks.decimal:
            raise ValueError(f"thousands: {self.thousands!r} is the decimal mark")
        return self

    @property
    def marks(self) -> Marks:
        """How numbers are stated."""
        return Marks("," if self.decimal_comma else ".", self.thousands or "")

    @property
    def clock(self) -> Clock:
        """How times are stated."""
        return Clock(self.timezone, self.time_format, self.slots, step=self.step)

    def lay_out(self, rows: Rows, *, absent: str | None = None) -> RawRelease:
        """Return rows over places and epochs of the length that is set."""
        step = None if self.step is None else Step.parse(self.step)
        return rows.lay_out(step=step, absent=absent, timezone=self.timezone or "UTC")

    def names_of(self, release: RawRelease) -> tuple[list[str], list[Any]]:
        """Return the names of places, and the times as ISO text in UTC or as numbers of epochs.

        Raises InputError if the release has none.
        """
        if release.rois is None or release.epochs is None:
            raise InputError(
                f"{self.name}: the table needs the names of places and the times of epochs"
            )
        return list(release.rois), _stated(release.epochs)


class LineTable(TextTable):
    """A format of text whose lines are rows, separated into fields.

    Attributes
    ----------
    delimiter
        Field separator of a CSV file, e.g. ``;``.
    encoding
        Encoding of a CSV file, e.g. ``latin-1``.
    skip
        Number of lines above the line of column names, e.g. 3.
    notes
        Beginnings of lines that are no rows, e.g. ``['Source:']``.
    """

    delimiter: Delimiter = ","
    encoding: Encoding = "utf-8"
    skip: Annotated[int, Strict(), Field(ge=0)] = 0
    notes: Codes = ()

    @property
    def layout(self) -> TextLayout:
        """How lines are laid out."""
        return TextLayout(self.delimiter, (), self.encoding, self.skip, self.notes)

    @property
    def is_only_read(self) -> bool:
        """Whether a file that is written would not be read as the same table."""
        return self.encoding != "utf-8" or self.skip > 0 or bool(self.notes)


def _stated(epochs: NDArray[Any]) -> list[Any]:
    if epochs.dtype.kind == "M":
        return [f"{time}Z" for time in np.datetime_as_string(epochs, unit="s")]
    return [int(number) for number in epochs]
