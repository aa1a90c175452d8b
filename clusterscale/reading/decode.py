"""Decode raw columns; values that cannot be read are marked, never dropped.

A column that contains values of another kind raises :class:`~clusterscale.errors.SourceError`.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import AfterValidator

from clusterscale.errors import SourceError
from clusterscale.phrases import option

ISO = "ISO8601"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_LOCAL = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?"
_ZONED = _LOCAL + r" ?(Z|[+-]\d{2}(:?\d{2})?)$"
STATES_ZONE = r"(?i):\d{2}.*[+-]\d{2}:?\d{0,2}$|Z$"
TIMES = (
    "times as timestamps, epoch seconds or ISO 8601 text such as 2012-04-03T18:00:09Z, or as of "
    "`time_format`, such as '%d/%m/%Y %H:%M' where the day is first"
)
"""Supported times, for messages."""

UNDECODED = -2
"""Code of a name that is not UTF-8 text."""

Hours = Literal["0-23", "1-24", "hhmm"]
"""How hours of a day are numbered; ``hhmm`` is 830 at half past eight."""


def _check_zone(zone: str) -> str:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{zone!r} is not an IANA name such as 'Europe/London' or 'UTC'") from None
    return zone


Zone = Annotated[str, AfterValidator(_check_zone)]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers or times; NaN if the value could not be read."""

    name: str
    raw: Any
    values: NDArray[np.float64]
    meaning: str = "not a number"

    @property
    def bad(self) -> NDArray[np.bool_]:
        """Which values could not be read, shape (row,)."""
        return ~np.isfinite(self.values)

    def fault(self, row: int) -> str:
        """Return what is wrong with the value of a row."""
        # Without the value, which is part of a person's record.
        return "is missing" if self.raw[row].as_py() in (None, "") else f"is {self.meaning}"


@dataclass(frozen=True, slots=True)
class Ids:
    """Names as int64 codes, shape (row,), into an Arrow array of distinct names.

    The code is −1 where there is no name, and ``UNDECODED`` where it is not UTF-8 text.
    """

    name: str
    codes: NDArray[np.int64]
    names: Any

    @property
    def bad(self) -> NDArray[np.bool_]:
        """Which rows have no readable name, shape (row,)."""
        return self.codes < 0

    def fault(self, row: int) -> str:
        """Return what is wrong with the name of a row."""
        return "is not UTF-8 text" if self.codes[row] == UNDECODED else "is missing"


def ids(name: str, raw: Any, *, where: str) -> Ids:
    """Decode names: text or integers, plain or as an Arrow dictionary; empty names are missing."""
    kind = raw.type.value_type if pa.types.is_dictionary(raw.type) else raw.type
    if not (_is_text(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise SourceError(f"column {name} of {where} is {kind}: names are text or integers")
    coded = raw if pa.types.is_dictionary(raw.type) else raw.dictionary_encode()
    names = text(coded.dictionary)
    known = pc.fill_null(pc.greater(pc.binary_length(names), 0), False)
    codes = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy()
    if not pc.all(known, min_count=0).as_py():
        undecoded = pc.and_(pc.is_null(names), pc.is_valid(coded.dictionary))
        usable, wrong = (some.to_numpy(zero_copy_only=False) for some in (known, undecoded))
        by_name = np.where(usable, np.arange(len(names)), np.where(wrong, UNDECODED, -1))
        codes = np.append(by_name, -1)[codes]
    return Ids(name, codes, names)


def numbers(name: str, raw: Any, *, where: str, decimal_comma: bool = False) -> Numbers:
    """Decode numbers, stored as numbers or as text, in which one comma may be a decimal one."""
    raw = plain(raw)
    if _is_text(raw.type) or pa.types.is_null(raw.type):
        raw = text(raw)
        if decimal_comma:
            raw = pc.replace_substring_regex(raw, r"^(\s*[+-]?\d+),(\d+\s*)$", r"\1.\2")
        return Numbers(name, raw, _parse_numbers(raw))
    if not (_is_number(raw.type) or pa.types.is_decimal(raw.type)):
        raise SourceError(f"column {name} of {where} is {raw.type}, not numbers")
    return Numbers(name, raw, _shortest(raw) if pa.types.is_float32(raw.type) else _floats(raw))


def times(
    name: str,
    raw: Any,
    *,
    timezone: str | None,
    where: str,
    setting: str = "",
    time_format: str | None = None,
    milliseconds: bool = False,
    hour: Numbers | None = None,
) -> Numbers:
    """Decode times as UTC seconds: epoch seconds, timestamps or ISO 8601 text.

    A time without a zone is in ``timezone``; an ambiguous time (when summer time ends) is the
    earlier of the two, and a nonexistent one (when it begins) is invalid. ``setting`` names what
    sets ``timezone``, for messages; by default a reader of records. With ``time_format`` times are
    texts as of ``strptime``; with ``milliseconds`` numbers are in milliseconds since 1970. With an
    ``hour``, in seconds of a day, times are days.
    """
    raw, setting = plain(raw), setting or option("timezone")
    second = 1000.0 if milliseconds else 1.0
    if time_format is not None or hour is not None:
        settings: dict[str, Any] = {"where": where, "setting": setting, "hour": hour}
        stamps = parse_stamps(name, text(raw), time_format, timezone, **settings)
        meaning = f"not a time in the format {time_format or ISO}"
        meaning += "" if hour is None else f", or its {hour.name} is {hour.meaning}"
        return Numbers(name, raw, utc_seconds(stamps, timezone), meaning)
    if _is_number(raw.type):
        return Numbers(name, raw, _floats(raw) / second, "not a time")
    if pa.types.is_timestamp(raw.type):
        if raw.type.tz is None and timezone is None:
            raise SourceError(
                f"column {name} of {where} contains times without a zone: set {setting}"
            )
        return Numbers(name, raw, _stamps(raw, timezone), "not a time")
    if not (_is_text(raw.type) or pa.types.is_null(raw.type)):
        raise SourceError(f"column {name} of {where} is {raw.type}, not times")
    raw = text(raw)
    seconds = _parse_numbers(raw) / second
    if np.isnan(seconds).any():
        _parse_iso(raw, seconds, timezone)
    # The message describes the first bad value.
    return Numbers(name, raw, seconds, _meaning(raw, seconds, timezone, setting))


def parse_stamps(
    name: str,
    texts: Any,
    time_format: str | None,
    timezone: str | None,
    *,
    where: str,
    setting: str,
    hour: Numbers | None = None,
) -> Any:
    """Return stamps of texts in a format, NaT where it does not fit; None is ISO 8601, no zone.

    With an ``hour``, in seconds of a day, texts must be days. Raises SourceError if neither the
    format nor ``timezone`` says what their zone is.
    """
    has_zone = "%z" in (time_format or "").replace("%%", "")
    if timezone is None and not has_zone:
        raise SourceError(f"column {name} of {where} contains times without a zone: set {setting}")
    how, trimmed = (time_format or ISO).strip(), pc.utf8_trim_whitespace(texts)
    if time_format is None:
        zoned = pc.match_substring_regex(trimmed, STATES_ZONE)
        trimmed = pc.if_else(zoned, pa.scalar(None, pa.string()), trimmed)
    stamps = pd.to_datetime(trimmed.to_pandas(), format=how, errors="coerce", utc=has_zone)
    if hour is None:
        return stamps
    return stamps.where(stamps == stamps.dt.normalize()) + pd.to_timedelta(hour.values, unit="s")


def hours(name: str, raw: Any, numbering: Hours) -> Numbers:
    """Decode hours of a day as its seconds: numbers, or times such as 08:30 or 08:30:15."""
    raw = pc.utf8_trim_whitespace(text(plain(raw)))
    stated = _parse_numbers(raw)
    hhmm = stated if numbering == "hhmm" else 100 * (stated - (numbering == "1-24"))
    first, minute = np.divmod(hhmm, 100)
    known = (first >= 0) & (first < 24) & (minute < 60) & (stated % 1 == 0)
    seconds = np.where(known, 3600 * first + 60 * minute, np.nan)
    rest = np.flatnonzero(np.isnan(stated))
    texts = raw.take(pa.array(rest)).to_pandas()
    for how in ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f") if len(rest) else ():
        clock = pd.to_datetime(texts, format=how, errors="coerce")
        passed = (clock - clock.dt.normalize()).dt.total_seconds()
        seconds[rest] = np.where(clock.notna(), passed, seconds[rest])
    return Numbers(name, raw, seconds, f"no hour of {numbering} or time such as 08:30")


def plain(raw: Any) -> Any:
    """Return an Arrow column without a dictionary."""
    return raw.dictionary_decode() if pa.types.is_dictionary(raw.type) else raw


def _is_text(kind: Any) -> bool:
    types = pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()
    return kind in types


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _floats(raw: Any) -> NDArray[np.float64]:
    # An Arrow null becomes NaN; integers are exact up to 2⁵³.
    values = raw.cast(pa.float64(), safe=False)
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)


def _shortest(raw: Any) -> NDArray[np.float64]:
    """Return each float32 as the shortest decimal that rounds to it.

    Positions are decimals originally: 37.7282 as a float32 is slightly more or less, which at the
    edge of a region would move it to the next region.
    """
    return _floats(raw.cast(pa.string()))


def text(raw: Any, *, undecodable: str | None = None) -> Any:
    """Return Arrow strings; bytes that are not UTF-8 become ``undecodable``, by default null."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [_decoded(value, undecodable) for value in raw.to_pylist()]
        return pa.array(decoded, pa.string())


def _decoded(value: bytes | None, undecodable: str | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return undecodable


def _parse_numbers(raw: Any) -> NDArray[np.float64]:
    try:
        values = raw.cast(pa.float64())
    except pa.ArrowInvalid:
        trimmed = pc.utf8_trim_whitespace(raw)
        is_number = pc.match_substring_regex(trimmed, _NUMBER)
        values = pc.if_else(is_number, trimmed, pa.scalar(None, pa.string())).cast(pa.float64())
    parsed = np.array(values.to_numpy(zero_copy_only=False), np.float64)
    parsed[~np.isfinite(parsed)] = np.nan  # "inf" and "1e999" are not valid positions or times
    return parsed


def _parse_iso(raw: Any, seconds: NDArray[np.float64], timezone: str | None) -> None:
    """Fill in the ``seconds`` that are still unknown from ISO 8601 text."""
    rows = np.flatnonzero(np.isnan(seconds))
    texts = pc.utf8_trim_whitespace(raw.take(pa.array(rows)))
    # With nanoseconds, pandas reads a smaller range of years.
    texts = pc.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1")
    zone_of: dict[str, str | None] = {_ZONED: None}
    if timezone is not None:
        zone_of[_LOCAL + "$"] = timezone
    for pattern, zone in zone_of.items():
        fits = pc.fill_null(pc.match_substring_regex(texts, pattern), False)
        matches = np.flatnonzero(fits.to_numpy(zero_copy_only=False))
        if len(matches):
            iso = texts.take(pa.array(matches)).to_pandas()
            stamps = pd.to_datetime(iso, format="ISO8601", utc=zone is None, errors="coerce")
            seconds[rows[matches]] = utc_seconds(stamps, zone)


def _stamps(raw: Any, timezone: str | None) -> NDArray[np.float64]:
    zone = raw.type.tz
    stamps = raw.cast(pa.timestamp("us", zone), safe=False)
    if zone is None:
        return utc_seconds(stamps.to_pandas(), timezone)
    return _floats(stamps.cast(pa.int64())) / 1e6  # Arrow stores UTC


def utc_seconds(stamps: pd.Series, timezone: str | None) -> NDArray[np.float64]:
    """Return UTC seconds of stamps, which are in ``timezone`` if they have no zone; NaN for none.

    An ambiguous time is the earlier of the two; one that clocks skip is NaN.
    """
    index = pd.DatetimeIndex(stamps)
    if index.tz is None:
        first = np.ones(len(index), np.bool_)
        index = index.tz_localize(timezone, ambiguous=first, nonexistent="NaT")
    moments = index.tz_convert("UTC").tz_localize(None).to_numpy("datetime64[us]")
    known = ~np.isnat(moments)
    return np.where(known, moments.astype(np.int64) / 1e6, np.nan)


def _meaning(raw: Any, seconds: NDArray[np.float64], timezone: str | None, setting: str) -> str:
    bad = np.flatnonzero(np.isnan(seconds))
    value = raw[int(bad[0])] if len(bad) else None
    if value is not None and pc.match_substring_regex(value, _LOCAL + "$").as_py():
        if timezone is not None:
            return f"not a time: no such day or month, or clocks in {timezone} skip it"
        return f"a time without a zone: set {setting}"
    return "not a time, as in 2026-03-02T08:05:00 or seconds since 1970"
