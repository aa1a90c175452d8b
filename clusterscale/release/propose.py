"""Propose the format that reads a table: from its first lines, and from what reading refuses."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from clusterscale import storage
from clusterscale.errors import ClusterscaleError, ConfigError, InputError
from clusterscale.reading import tables
from clusterscale.reading.clock import EARLIEST, LATEST, is_time, step_of
from clusterscale.reading.sources import File, open_text
from clusterscale.reading.values import BAND, HIDDEN
from clusterscale.release.content import TABLE_FORMATS, RawRelease, TableFormat
from clusterscale.release.entry import ENDINGS, choose_format, read_table
from clusterscale.release.long import LongTable
from clusterscale.release.text import LIKE_TOTAL

_SAMPLE = 1 << 18  # bytes of a file that are looked at
_ROWS = 1000
_FEW = 12  # values of a column that divides people into groups
_STAMPS = ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y%m%d", "%Y-%m-%d")
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H%M", " %I:%M %p")
_NUMBER = re.compile(r"[+-]?\d[\d.,'’ \u00a0\u2009\u202f]*")
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:([.,'’ \u00a0\u2009\u202f])\d{3})+")
_NOTE = re.compile(r"\*|\S+")
_BELOW = re.compile(BAND)
_STAND_INS = {"at": "2000-01-01", "step": "1d", "timezone": "UTC", "absent": "hidden"}  # to ask on
_PURPOSES = {  # of a column: words in its name, the most usual first
    purpose: words.split()
    for purpose, words in {
        "time": "time date timestamp period start fecha datum day ds month",
        "hour": "hour hora stunde heure",
        "count": "count value people visits population persons trips devices users anzahl viajes "
        "flow n total",
        "status": "status flag flags",
        "origin": "origin from origen source",
        "destination": "destination to destino target",
        "place": "place zone area region cell station roi tile quadkey geography district "
        "municipality code name id zona",
    }.items()
}


@dataclass(frozen=True)
class Doubt:
    """A setting that the file does not decide, and the question."""

    key: str
    question: str


@dataclass(frozen=True)
class Proposal:
    """A format for a table.

    Attributes
    ----------
    fields
        Name and settings of the format.
    doubts
        What should be decided by somebody who knows the table.
    release
        The table as these settings read it; None if they do not.
    fault
        Why they do not read it, if no setting is named that would.
    """

    fields: Mapping[str, Any]
    doubts: tuple[Doubt, ...] = ()
    release: RawRelease | None = None
    fault: str = ""


def propose_format(uri: str, given: Mapping[str, Any]) -> Proposal:
    """Return the format that reads a table at a path or URL, as far as the file shows it.

    Settings that are ``given`` are taken as they are. Raises MissingError if nothing is there, and
    ConfigError if a given setting is not one of the format.
    """
    name = choose_format(uri).name
    if name == "geojson" and b'"timedPopulationDensityData"' in storage.read_file(uri)[:_SAMPLE]:
        name = "camara"
    if name == "arrays" and not any(uri.rstrip("/").endswith(ending) for ending in ENDINGS):
        name = "long"  # a folder of files
    found = _look(uri, given) if name == "long" else Proposal({"name": name})
    fields = {**found.fields, **given}
    doubts = [doubt for doubt in found.doubts if doubt.key not in given]
    unknown = {doubt.key for doubt in doubts}
    if "at" in {*fields, *unknown} and "step" not in fields:
        doubts.append(Doubt("step", "how long is the time that each row counts, as in 1h or 1d?"))
    if "at" in unknown and "timezone" not in fields:
        doubts.append(Doubt("timezone", "in which time zone is that, as in Europe/London?"))
    while True:  # once more after each question that a stand-in for its answer lets pass
        release, fault = None, ""
        open_keys = {doubt.key for doubt in doubts} - fields.keys()
        stand_ins = {key: value for key, value in _STAND_INS.items() if key in open_keys}
        chosen = TABLE_FORMATS.create(**fields, **stand_ins)
        try:
            release = read_table(uri, chosen)
            doubts += [
                Doubt("where", change) for change in release.changes if change.startswith("folders")
            ]
        except ConfigError:
            raise
        except ClusterscaleError as error:
            fault = str(error).removeprefix(f"{uri}: ")
            if (key := _setting_in(fault, type(chosen))) and key not in given:
                if key not in {doubt.key for doubt in doubts}:
                    doubts.append(Doubt(key, fault))
                    if key in _STAND_INS:
                        continue
                fault = ""
        return Proposal(fields, tuple(doubts), None if stand_ins else release, fault)


def _setting_in(fault: str, form: type[TableFormat]) -> str:
    """Return the setting that a message of reading names first; empty if it names none."""
    named = [key for key in re.findall(r"`([a-z_]+)", fault) if key in form.model_fields]
    return "where" if "add_rows" in named else next(iter(named), "")


def _look(uri: str, given: Mapping[str, Any]) -> Proposal:
    """Return the format of a file of rows, from its first lines."""
    file = tables.pieces(uri, _SAMPLE)[0].file
    doubts: list[Doubt] = []
    layout: dict[str, Any] = {}
    if tables.is_parquet(file.name):
        lines = _parquet_lines(file)
    else:
        with open_text(file) as stream:
            lines, layout = _text_lines(stream.read(_SAMPLE), doubts)
    header = lines[0] if lines else []
    rows = [row for row in lines[1 : _ROWS + 1] if row != header]
    if len(header) < 2 or not rows:
        raise InputError(f"{uri}: no lines of several columns were found in it")
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    if convention := _convention(header):
        return Proposal({"name": convention, **layout}, tuple(doubts))
    are_times = [is_time(name) for name in header[1:]]
    if sum(are_times) >= max(1, len(are_times) - 1):
        total = {} if all(are_times) else {"total": header[1 + are_times.index(False)]}
        chosen, cells = {"name": "wide", **total}, [cell for row in rows for cell in row[1:]]
        named = [row[0] for row in rows]
    else:
        chosen = {"name": "long", **_choose_columns(columns, given, doubts)}
        cells = list(columns.get(str(given.get("count", chosen.get("count"))), ()))
        named = [
            text
            for purpose in ("place", "origin", "time")
            for text in columns.get(str(given.get(purpose, chosen.get(purpose))), ())
        ]
    sums = sorted({text for text in named if LIKE_TOTAL.fullmatch(text)} - {chosen.get("total")})
    if sums and "total" not in given:
        chosen["total"] = sums[0]
        question = f"is {sums[0]!r} a total, as it is read, or a place or time like others (none)?"
        doubts.append(Doubt("total", question))
    return Proposal({**chosen, **layout, **_marks(cells, given, doubts)}, tuple(doubts))


def _parquet_lines(file: File) -> list[list[str]]:
    """Return the header and the first rows of a Parquet file as texts."""
    with tables.open_parquet(file) as parquet:
        batch = next(parquet.iter_batches(_ROWS), None)
        names = list(parquet.schema_arrow.names)
    rows = [] if batch is None else batch.to_pylist()
    return [names, *([_text(row[name]) for name in names] for row in rows)]


def _text(value: Any) -> str:
    if isinstance(value, datetime | date):
        return value.isoformat()
    return "" if value is None else str(value).strip()


def _text_lines(content: bytes, doubts: list[Doubt]) -> tuple[list[list[str]], dict[str, Any]]:
    """Return the header and the first rows of text, and the settings of its layout."""
    if b"\0" in content:
        raise InputError("the file is not text in UTF-8 or one byte a letter: write it as UTF-8")
    if len(content) == _SAMPLE:
        content = content[: content.rfind(b"\n") + 1]
    fields: dict[str, Any] = {}
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        fields["encoding"] = "cp1252"
        doubts.append(Doubt("encoding", "the text is not UTF-8: is it cp1252, or another one?"))
        text = content.decode("cp1252", errors="replace")
    parsed = {mark: list(csv.reader(text.splitlines(), delimiter=mark)) for mark in ",;\t|"}
    widths = {mark: _usual_width(rows) for mark, rows in parsed.items()}
    delimiter = max(parsed, key=widths.__getitem__)
    rows, (_, width) = parsed[delimiter], widths[delimiter]
    skip = next((i for i, row in enumerate(rows) if len(row) == width), 0)
    others = [row[0].strip() for row in rows[skip:] if row and len(row) != width]
    if delimiter != ",":
        fields["delimiter"] = delimiter
    if skip:
        fields["skip"] = skip
    if notes := {found[0] for note in others if (found := _NOTE.match(note))}:
        fields["notes"] = sorted(notes)
    return [[cell.strip() for cell in row] for row in rows[skip:] if len(row) == width], fields


def _usual_width(rows: Sequence[Sequence[str]]) -> tuple[int, int]:
    """Return how many rows have the most usual number of fields above 1, and that number."""
    counted = Counter(len(row) for row in rows if len(row) > 1)
    return max(((n, width) for width, n in counted.items()), default=(0, 0))


def _convention(header: Sequence[str]) -> str:
    """Return the name of the public convention whose columns a header has; empty for none."""
    if header[0].endswith("\\TIME_PERIOD"):
        return "eurostat_tsv"
    usual = set(LongTable().columns)
    for name, cls in TABLE_FORMATS.loaded.items():
        if issubclass(cls, LongTable) and not cls().header:
            needed = set(cls().columns)
            if len(needed - usual) > 1 and needed <= set(header):
                return name
    return ""


def _choose_columns(
    columns: Mapping[str, Sequence[str]], given: Mapping[str, Any], doubts: list[Doubt]
) -> dict[str, Any]:
    """Return which columns have places, times and values, and how times are stated."""
    free = [name for name in columns if name not in map(str, given.values())]
    chosen: dict[str, Any] = {}

    def choose(purpose: str, fits: Sequence[str], *, needed: bool = True) -> None:
        """Choose a column by its name; any that fits if it is needed."""
        known = sorted((rank, name) for name in fits if (rank := _rank(name, purpose)) is not None)
        named = [name for _, name in known]
        found = named or (list(fits) if needed else [])
        if purpose in given or not found:
            return
        chosen[purpose] = found[0]
        free.remove(found[0])
        if len(found) > 1 and len(named) != 1:
            doubts.append(Doubt(purpose, f"which column is it: {', '.join(found)}?"))

    clocks = {name: ways for name in columns if (ways := _clocks(columns[name]))}
    choose("time", [name for name in clocks if name in free])
    stated = clocks.get(str(given.get("time", chosen.get("time"))), [{}])
    chosen |= stated[0]
    if len(stated) > 1 and "time_format" not in given:
        others = " or ".join(str(clock["time_format"]) for clock in stated)
        doubts.append(Doubt("time_format", f"are times {others}?"))
    if not {"time", "at", "at_name"} & {*chosen, *given}:
        doubts.append(Doubt("at", "no column has times: when are the values of, as in 2026-03-02?"))
    choose("hour", [name for name in free if _is_hour(columns[name])], needed=False)
    hours = columns.get(str(given.get("hour", chosen.get("hour"))), ())
    if hours and "hours" not in given and _is_hour(hours):
        least, most = min(map(int, hours)), max(map(int, hours))
        if most > 24:
            chosen["hours"] = "hhmm"
        elif most == 24:
            chosen["hours"] = "1-24"
        elif least > 0:
            doubts.append(Doubt("hours", "are hours 0-23 or 1-24? the column has neither 0 nor 24"))
    choose("status", free, needed=False)
    if all(any(_rank(name, end) is not None for name in free) for end in ("origin", "destination")):
        choose("origin", free, needed=False)
        choose("destination", free, needed=False)
    values = [name for name in free if _is_count(columns[name])]
    if "origin" not in chosen:
        texts = [name for name in free if name not in values]
        named = [name for name in free if _rank(name, "place") is not None]
        several = [name for name in texts if len(set(columns[name])) > 1]
        choose("place", named or several or texts or free)
    choose("count", [name for name in values if name in free])
    groups = [name for name in free if 1 < len(set(columns[name])) <= _FEW and name not in values]
    if groups and "where" not in given:
        told = "; ".join(f"{name}: {', '.join(sorted(set(columns[name])))}" for name in groups)
        doubts.append(Doubt("where", f"rows are of several groups; which are read? {told}"))
    return chosen


def _rank(name: str, purpose: str) -> int | None:
    """Return how usual a name is for a purpose, 0 for the most usual; None if it is not."""
    words, usual = re.split(r"[^a-z]+", name.lower()), _PURPOSES[purpose]
    return min((usual.index(word) for word in words if word in usual), default=None)


def _clocks(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return in which ways texts may state times, as settings; none if they are no times."""
    shown = {text for text in texts if text and not LIKE_TOTAL.fullmatch(text)}
    if shown and all(map(is_time, shown)):
        lengths = {text.partition("/P")[2] for text in shown} - {""}
        return [{"step": step_of(f"P{lengths.pop()}")} if len(lengths) == 1 else {}]
    if shown and all(text.isdecimal() for text in shown):
        least, most = min(map(int, shown)), max(map(int, shown))
        for unit, fields in ((1, {}), (1000, {"milliseconds": True})):
            if unit * EARLIEST <= least <= most <= unit * LATEST:
                return [dict(fields)]
    formats = [day + clock for day in _STAMPS for clock in _CLOCKS]
    fitting = [each for each in formats if all(_parses(text, each) for text in shown)]
    return [{"time_format": each} for each in fitting] if shown else []


def _parses(text: str, time_format: str) -> bool:
    with suppress(ValueError):
        return 1980 <= datetime.strptime(text, time_format).year <= 2100
    return False


def _is_hour(texts: Sequence[str]) -> bool:
    return all(text.isdecimal() and int(text) <= 2400 for text in texts)


def _is_count(texts: Sequence[str]) -> bool:
    shown = [text for text in texts if text not in HIDDEN and not _BELOW.fullmatch(text)]
    return 2 * sum(_NUMBER.fullmatch(text) is not None for text in shown) >= len(shown)


def _marks(texts: Collection[str], given: Mapping[str, Any], doubts: list[Doubt]) -> dict[str, Any]:
    """Return the marks of numbers, and the texts that hide one."""
    shown = {text for text in texts if text not in HIDDEN and not _BELOW.fullmatch(text)}
    numbers = {text for text in shown if _NUMBER.fullmatch(text)}
    fields: dict[str, Any] = {}
    commas = {text for text in numbers if "," in text}
    dots = {text for text in numbers if "." in text}
    last = {
        text
        for text in commas
        if not _GROUPED.fullmatch(text) and text.rfind(",") > text.rfind(".")
    }
    if last:
        fields["decimal_comma"] = True
    marks = {found[1] for text in numbers if (found := _GROUPED.match(text))}
    marks -= {",", "."} if not (commas and dots) else ({","} if last else {"."})
    if marks:
        fields["thousands"] = " " if marks & set(" \u00a0\u2009\u202f") else marks.pop()
    elif commas and not last:
        fields["thousands"] = ","
        question = (
            f"is {min(commas)!r} thousands, as it is read (','), or a decimal (none, with "
            "decimal_comma: true)?"
        )
        doubts.append(Doubt("thousands", question))
    elif dots and all(_GROUPED.fullmatch(text) for text in dots):
        question = f"is {min(dots)!r} a decimal, as it is read (none), or thousands ('.')?"
        doubts.append(Doubt("thousands", question))
    if others := sorted(shown - numbers - set(given.get("not_covered", ()))):
        shown_texts = " or ".join(f"'{text}'" for text in others[:5])
        fields["hidden"] = [*sorted(set(texts) & set(HIDDEN)), *others]
        doubts.append(Doubt("hidden", f"does {shown_texts} hide a value?"))
    return fields
