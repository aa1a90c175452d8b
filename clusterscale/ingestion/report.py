"""Count every record as kept, or as dropped for one named reason, and report the counts."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from clusterscale.cube.calendar import Calendar
from clusterscale.errors import SourceError
from clusterscale.ingestion.records import Reader
from clusterscale.phrases import option
from clusterscale.validation_messages import quote

REASONS = (
    "left_out_by_where",
    "no_place",
    "unparsable",
    "out_of_range",
    "outside_period",
    "outside_region",
    "unknown_roi",
    "duplicate",
    "user_filtered",
)
"""Reasons for dropping a record. It is counted under the first that applies, in this order."""

N_TEXTS = 10
"""Most texts of a column that a message lists; a column with more is hardly a category."""


@dataclass(slots=True)
class ValueRange:
    """The smallest and largest value observed."""

    low: float = np.inf
    high: float = -np.inf

    def add(self, values: NDArray[np.float64]) -> None:
        """Widen the span to ``values``."""
        if len(values):
            self.low = min(self.low, float(values.min()))
            self.high = max(self.high, float(values.max()))

    def merge(self, other: "ValueRange") -> None:
        """Widen the span to another one."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)


@dataclass(slots=True)
class FileTally:
    """Records of one file, how many of them ``where`` leaves out, and how many are not readable.

    ``fault`` is that of the first that is not.
    """

    n_records: int = 0
    n_left_out: int = 0
    n_unread: int = 0
    fault: str = ""


@dataclass(slots=True)
class ReadingReport:
    """Counts of records by file and by reason, and the spans of the readable values.

    The spans of positions include only records within the period. ``texts`` are those of
    :class:`~clusterscale.ingestion.records.LeftOut`.
    """

    dropped: Counter[str] = field(default_factory=Counter)
    files: dict[str, FileTally] = field(default_factory=dict)
    time: ValueRange = field(default_factory=ValueRange)
    lat: ValueRange = field(default_factory=ValueRange)
    lon: ValueRange = field(default_factory=ValueRange)
    texts: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def total(cls, tallies: Iterable["ReadingReport"]) -> "ReadingReport":
        """Return the sum of tallies; faults are those of the first tally that has one."""
        total = cls()
        for tally in tallies:
            total.dropped.update(tally.dropped)
            for name, part in tally.files.items():
                whole = total.file(name)
                whole.n_records += part.n_records
                whole.n_left_out += part.n_left_out
                whole.n_unread += part.n_unread
                whole.fault = whole.fault or part.fault
            total.time.merge(tally.time)
            total.lat.merge(tally.lat)
            total.lon.merge(tally.lon)
            total.add_texts(tally.texts)
        return total

    def add_texts(self, texts: Mapping[str, Set[str]]) -> None:
        """Add texts in columns of ``where``."""
        for column, some in texts.items():
            self.texts.setdefault(column, set()).update(some)

    def file(self, name: str) -> FileTally:
        """Return the counts of a file, initially zero."""
        return self.files.setdefault(name, FileTally())

    @property
    def n_records(self) -> int:
        """Records read, kept or not."""
        return sum(file.n_records for file in self.files.values())


def check_where(tally: ReadingReport, reader: Reader, source: str) -> None:
    """Raise SourceError if no record has a text that ``where`` of the reader looks for.

    The message lists the texts of the column, unless there are many or they are user ids.
    """
    for column, wanted in getattr(reader, "where", {}).items():
        found = tally.texts.get(column, set())
        missing = [text for text in wanted if text not in found]
        if not (found and missing):
            continue
        others = ", ".join(quote(text) for text in sorted(found))
        about = f"its values are {others}"
        if len(found) > N_TEXTS or column == getattr(reader, "user", None):
            about = "it has other values"
        raise SourceError(
            f"{source}: no row has {quote(missing[0])} in {column}, as {option('where')} asks; "
            f"{about}"
        )


def check_records(tally: ReadingReport, n_kept: int, *, source: str, calendar: Calendar) -> None:
    """Raise SourceError unless every file has readable records and events remain.

    The message gives the first fault, or the span of the data.
    """
    if tally.n_records == 0:
        raise SourceError(f"{source} contains no records")
    for name, file in tally.files.items():
        n = file.n_records - file.n_left_out
        if 0 < n == file.n_unread:
            which = "its only record" if n == 1 else f"none of its {n} records"
            if file.n_left_out:
                which += f" besides those left out by {option('where')}"
            verb = "cannot be used" if n == 1 else "can be used"
            raise SourceError(f"{file.fault.format(file=name)}; {which} {verb}")
    if n_kept:
        return
    reasons = [reason for reason in REASONS if tally.dropped[reason]]
    hints = [_HINTS[reason](tally, calendar) for reason in reasons if reason in _HINTS]
    counts = ", ".join(f"{tally.dropped[reason]} {reason}" for reason in reasons)
    raise SourceError(f"{source}: no event is left ({counts}); " + "; ".join(hints))


def _hint_region(tally: ReadingReport, calendar: Calendar) -> str:
    lat, lon = tally.lat, tally.lon
    return (
        f"the data in the period spans lat {lat.low:.6g} to {lat.high:.6g}, "
        f"lon {lon.low:.6g} to {lon.high:.6g}, outside the regions"
    )


def _hint_period(tally: ReadingReport, calendar: Calendar) -> str:
    span, zone = tally.time, calendar.timezone
    hint = ""
    if abs(span.high) >= 1e11:  # as seconds, the year 5138
        hint = f": are its times in milliseconds? Then set {option('milliseconds', 'true')}"
    return (
        f"the data runs from {_moment(span.low, zone)} to {_moment(span.high, zone)}, "
        f"the cube from {calendar.describe()}{hint}"
    )


_HINTS: dict[str, Callable[[ReadingReport, Calendar], str]] = {
    "left_out_by_where": lambda *_: f"no row that {option('where')} reads is left",
    "outside_period": _hint_period,
    "outside_region": _hint_region,
    "unknown_roi": lambda *_: "no ROI of the records is one of the regions",
}


def _moment(seconds: float, zone: str) -> str:
    try:
        moment = datetime.fromtimestamp(seconds, UTC).astimezone(ZoneInfo(zone))
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.6g} s"
    return f"{moment:%a %Y-%m-%d %H:%M}"


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Counts of kept and dropped records.

    ``n_rows`` of the source have ``events_per_row`` records each; ``n_events`` and ``n_users`` are
    those of the cube. ``dropped`` are the other records, by the reason
    (:data:`clusterscale.ingestion.report.REASONS`); ``seconds`` is the time that it took.
    """

    n_rows: int
    events_per_row: int
    n_events: int
    n_users: int
    dropped: Mapping[str, int]
    seconds: float = 0.0

    def counts(self) -> dict[str, Any]:
        """Return all fields except ``seconds``, as JSON-serialisable values."""
        counts = asdict(self)
        del counts["seconds"]
        return counts

    def table(self) -> dict[str, str]:
        """Return table rows: name and count as text."""
        dropped = {
            f"dropped: {reason.replace('_', ' ')}": f"{count:,}"
            for reason, count in self.dropped.items()
        }
        return {
            "rows read": f"{self.n_rows:,}",
            **dropped,
            "events kept": f"{self.n_events:,}",
            "users": f"{self.n_users:,}",
            "seconds": f"{self.seconds:.1f}",
        }

    def __str__(self) -> str:
        rows = self.table()
        wide, right = max(map(len, rows)), max(map(len, rows.values()))
        return "\n".join(f"{name:<{wide}}  {value:>{right}}" for name, value in rows.items())
