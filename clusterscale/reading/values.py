"""Values of published tables: numbers, their marks, and what stands for a hidden one."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import BeforeValidator, Strict

from clusterscale.contracts import Ints, Values
from clusterscale.errors import SourceError
from clusterscale.reading import decode, tables
from clusterscale.reading.decode import Ids
from clusterscale.reading.sources import Piece
from clusterscale.validation_messages import quote

Codes = Annotated[
    tuple[str, ...],
    Strict(False),
    BeforeValidator(lambda given: (given,) if isinstance(given, str) else given),
]
HIDDEN = ("", "*", "**", "***", ":", "..", "...", "-", "x", "NA", "N/A", "NaN", "nan", "null")
"""Texts that publishers show instead of a hidden value, besides bands such as "<5"."""
NOT_COVERED = np.inf
"""In place of a value that was not collected; tables have no infinite values."""
SECONDARY = -1e300
"""In place of a value that was hidden so that no other follows from it."""
HIDDEN_STATUS = ("c", "C", "s", "S", "suppressed", "hidden", "confidential", "redacted", "masked")
"""Statuses of hidden values: ``c`` and ``S`` are those of SDMX."""
_WHOLE = r"(\d+|\d{1,3}(?:[.,]\d{3})+)"
_BANDS = {  # of what is hidden: pattern of its text, and how far its end is above the number
    rf"^(?:(?:n\s*)?<|less than|fewer than|under|below)\s*{_WHOLE}$": 0,
    rf"^(?:≤|<\s*=|up to|at most)\s*{_WHOLE}$": 1,
    rf"^{_WHOLE} or (?:less|fewer)$": 1,
    rf"^{_WHOLE}\s*(?:-|–|to)\s*{_WHOLE}$": 1,
}
Band = tuple[int | None, int]
"""Of hidden values: the least count, None if it is not stated, and the one that all are below."""
_BAND_UNIT, _MOST_BAND = 2.0**1000, 1 << 26  # bands are values from −2 of these units to −1
_LARGEST = 1e300  # of values: larger ones stand for what is hidden
BAND = f"(?i){'|'.join(_BANDS)}"
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

    def refuse(
        self, wrong: NDArray[np.bool_], column: str, fault: str | Callable[[int], str]
    ) -> None:
        """Raise :class:`SourceError` for the first row that is wrong, if any is."""
        if wrong.any():
            row = int(np.argmax(wrong))
            text = fault if isinstance(fault, str) else fault(row)
            raise SourceError(f"{self.name(row, column)}: {text}")


def located_batches(
    pieces: Iterable[Piece], columns: Sequence[str], layout: tables.TextLayout
) -> Iterator[tuple[tables.ColumnBatch, Spot]]:
    """Yield columns and where they are; raise :class:`SourceError` if a line is not a row."""
    file = ""
    for piece in pieces:
        if piece.file.name != file:
            file, above = piece.file.name, 1 + (not layout.header) + layout.skip
            unit, line = ("row", 1) if tables.is_parquet(file) else ("line", above)
        for batch in tables.batches(piece, columns, layout):
            if batch.malformed.count:
                raise SourceError(
                    f"{file}: {batch.malformed.count:,} lines are not rows; the first "
                    f"{batch.malformed.fault}"
                )
            yield batch, Spot(file, line, unit, batch.lines)
            line += batch.n_lines


def names_of(column: str, raw: Any, spot: Spot) -> Ids:
    """Return names; raise :class:`SourceError` if one is missing, or is not text in UTF-8."""
    found = decode.ids(column, raw, where=spot.file)
    undecoded = found.codes == decode.UNDECODED
    spot.refuse(undecoded, column, "the name is not UTF-8 text: set `encoding`, as in latin-1")
    spot.refuse(found.bad, column, "the name is missing")
    return found


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
        if text.startswith("[") and text.endswith("]") and "," in text:
            return f"{quote(text)} is an array: the format `safegraph` reads arrays of hours"
        grouped = not self.thousands and re.fullmatch(rf"[+-]?\d+([{_ALL_MARKS}]\d{{3}})+\D*", text)
        remedy = "if the mark separates thousands, set `thousands`; " if grouped else ""
        if flagged := re.fullmatch(r"[^A-Za-z]*[\d:]\s*([A-Za-z]{1,3})", text):
            remedy = f"if {quote(flagged[1])} flags a value that is shown, list it in `flags`; "
        kind = "number with a decimal comma" if self.decimal == "," else "number"
        return f"{quote(text)} is not a {kind}; {remedy}if it hides the value, add it to `hidden`"


def text_of(raw: Any) -> Any:
    """Return a column as trimmed Arrow strings; bytes that are not UTF-8 are no empty text."""
    return pc.utf8_trim_whitespace(decode.text(decode.plain(raw), undecodable="\ufffd"))


def without_flags(raw: Any, flags: Sequence[str], hidden: Sequence[str]) -> Any:
    """Return texts without flags after them; those of hidden values are left after a number."""
    return pc.replace_substring_regex(text_of(raw), _flagged(flags, hidden), r"\1\3")


def flags_after(raw: Any, flags: Sequence[str], hidden: Sequence[str]) -> Any:
    """Return the flags that :func:`without_flags` leaves out, as Arrow strings."""
    texts, pattern = text_of(raw), _flagged(flags, hidden)
    has_flags = pc.match_substring_regex(texts, pattern)
    return pc.if_else(has_flags, pc.replace_substring_regex(texts, pattern, r"\2\4"), "")


def _flagged(flags: Sequence[str], hidden: Sequence[str]) -> str:
    shown, every = ("|".join(map(re.escape, some)) for some in (flags, (*flags, *hidden)))
    return rf"^(?:(.*\d\s*)((?:{shown})+)|(\D*\s)((?:{every})+))$"


def decode_values(
    name: str,
    raw: Any,
    statuses: Sequence[tuple[Any, Sequence[str]]] = (),
    *,
    hidden: Sequence[str],
    not_covered: Sequence[str] = (),
    secondary: Sequence[str] = (),
    marks: Marks = Marks(),
    spot: Spot,
) -> Values:
    """Return published values, float64, shape (row,); NaN or a band where they are hidden.

    ``raw`` is an Arrow column of numbers or text, ``statuses`` are others with a status of each
    value, and the statuses of hidden ones. Values or statuses among ``not_covered`` give
    ``NOT_COVERED``, and those among ``secondary`` give ``SECONDARY``. Raises SourceError if a value
    is no number, is infinite, or is given although a status says that it is hidden.
    """
    others = ((NOT_COVERED, not_covered), (SECONDARY, secondary))

    def decoded(column: Any) -> Values:
        codes = (*hidden, *(text for _, texts in others for text in texts))
        return _numbers(name, column, hidden=codes, marks=marks, spot=spot)

    values = once_each(decoded, raw)
    for status, codes in statuses:
        shown = text_of(status)
        given = ~(np.isnan(values) | are_bands(values))
        both = np.flatnonzero(among(shown, (*codes, *not_covered, *secondary)) & given)
        if len(both):
            row = int(both[0])
            raise SourceError(
                f"{spot.name(row, name)}: there is a value, but its status is "
                f"{quote(shown[row].as_py())}, hidden"
            )
    for value, texts in others:
        for column in (raw, *(status for status, _ in statuses)) if texts else ():
            values[among(text_of(column), texts)] = value
    return values


def once_each(decoded: Callable[[Any], NDArray[Any]], raw: Any) -> NDArray[Any]:
    """Return a decoded column; texts that repeat are decoded once.

    Messages name the first wrong row, so if a text is wrong, all rows are decoded.
    """
    if is_text(raw.type) or pa.types.is_dictionary(raw.type):
        coded = raw if pa.types.is_dictionary(raw.type) else raw.dictionary_encode()
        if not coded.null_count and 2 * len(coded.dictionary) < len(coded):
            with suppress(SourceError):
                return np.asarray(decoded(coded.dictionary)[coded.indices.to_numpy()])
    return decoded(raw)


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is that of text."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _numbers(name: str, raw: Any, *, hidden: Sequence[str], marks: Marks, spot: Spot) -> Values:
    """Return numbers, NaN where they are hidden."""
    plain = decode.plain(raw)
    if pa.types.is_integer(plain.type) or pa.types.is_floating(plain.type):
        values = np.array(decode.numbers(name, plain, where=spot.file).values)
        codes = [float(code) for code in hidden if re.fullmatch(r"[+-]?\d+(\.\d+)?", code)]
        values[np.isin(values, codes)] = np.nan
        spot.refuse(np.abs(values) >= _LARGEST, name, "the value is too large, or infinite")
    else:
        texts = text_of(plain)
        shown = matches(texts, BAND)
        empty = among(texts, hidden) | shown
        numbers = pc.if_else(pa.array(empty), pa.scalar(None, pa.string()), marks.plain(texts))
        values = np.array(decode.numbers(name, numbers, where=spot.file).values)
        wrong = np.isnan(values) & ~empty
        spot.refuse(wrong, name, lambda row: marks.fault(texts[row].as_py() or ""))
        spot.refuse(np.abs(values) >= _LARGEST, name, "the value is too large, or infinite")
        if shown.any():
            values[shown] = [
                _band_value(text) for text in texts.filter(pa.array(shown)).to_pylist()
            ]
    return values


@lru_cache(1 << 12)
def _band_value(text: str) -> float:
    """Return the value that stands for a band; NaN if its numbers are too large."""
    for pattern, more in _BANDS.items():
        if found := re.match(pattern, text, re.IGNORECASE):
            *least, last = (int(re.sub(r"\D", "", one)) for one in found.groups())
            code = (least[0] + 1 if least else 0) * _MOST_BAND + last + more
            value = -_BAND_UNIT * (1 + code / _MOST_BAND**2)
            return value if last + more < _MOST_BAND else np.nan
    return np.nan


def are_bands(values: Values) -> NDArray[np.bool_]:
    """Return which values stand for bands such as "<5" or "1-4", shape of ``values``."""
    return np.asarray((values <= -_BAND_UNIT) & (values > -2 * _BAND_UNIT))


def band_ends(values: Values) -> tuple[Ints, Ints]:
    """Return the least count of each band and the one that all are below, −1 if not stated.

    Both are int64, of the shape of ``values``, and −1 where there is no band.
    """
    share = np.where(are_bands(values), values / -_BAND_UNIT - 1, 0)
    code = (share * _MOST_BAND**2).astype(np.int64)  # exact: a float has 52 bits of these
    least, end = np.divmod(code, _MOST_BAND)
    return least - 1, np.where(code > 0, end, -1)


def bands_in(values: Values) -> set[Band]:
    """Return the different bands that values stand for."""
    least, end = band_ends(np.unique(values[are_bands(values)]))
    return {(None if a < 0 else a, b) for a, b in zip(least.tolist(), end.tolist(), strict=True)}


def is_empty(raw: Any) -> NDArray[np.bool_]:
    """Return which values of a column are empty or null, shape (row,)."""
    plain = decode.plain(raw)
    if is_text(plain.type):
        return among(text_of(plain), ("",))
    return np.asarray(pc.is_null(plain).to_numpy(zero_copy_only=False), np.bool_)


def among(texts: Any, codes: Sequence[str]) -> NDArray[np.bool_]:
    """Return which trimmed texts are one of some codes, shape (row,); a null is an empty text."""
    found = pc.is_in(pc.fill_null(texts, ""), value_set=pa.array(list(codes), pa.string()))
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def rows_where(columns: Mapping[str, Any], where: Mapping[str, Codes]) -> Ints:
    """Return the rows that have one of the texts of each column of ``where``, in order."""
    kept = [among(text_of(columns[column]), texts) for column, texts in where.items()]
    return np.flatnonzero(np.logical_and.reduce(kept))


def take_rows(raw: dict[str, Any], spot: Spot, rows: Ints) -> tuple[dict[str, Any], Spot]:
    """Return some rows of columns, and where these are."""
    chosen = {name: column.take(pa.array(rows)) for name, column in raw.items()}
    return chosen, replace(spot, kept=rows if spot.kept is None else spot.kept[rows])


def rows_by_texts(
    raw: Mapping[str, Any], columns: Sequence[str]
) -> Iterator[tuple[dict[str, str], Ints]]:
    """Yield the texts in all columns but the first, and the rows that have them, in order."""
    texts = [text_of(raw[name]).fill_null("").to_pylist() for name in columns[1:]]
    keys = pd.MultiIndex.from_arrays([np.zeros(len(raw[columns[0]])), *texts])
    codes, found = keys.factorize()
    rows = np.split(codes.argsort(kind="stable"), np.cumsum(np.bincount(codes)))
    for key, of_key in zip(found, rows, strict=False):
        yield dict(zip(columns[1:], key[1:], strict=True)), of_key


def texts_in(raw: Any) -> set[str]:
    """Return the distinct trimmed texts of a column; a null is an empty text."""
    return set(pc.unique(pc.fill_null(text_of(raw), "")).to_pylist())


def matches(texts: Any, pattern: str) -> NDArray[np.bool_]:
    """Return which texts contain a regular expression, shape (row,); a null is an empty text."""
    found = pc.match_substring_regex(pc.fill_null(texts, ""), pattern)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)
