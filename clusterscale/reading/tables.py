"""Read columns of CSV and Parquet files in batches; every line is a row or counted as malformed."""

from __future__ import annotations

import codecs
import csv
import io
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from pydantic import AfterValidator

from clusterscale import storage
from clusterscale.contracts import Ints
from clusterscale.errors import FormatError, SourceError
from clusterscale.reading import sources
from clusterscale.reading.sources import BYTES_PER_ROW, File, Piece
from clusterscale.validation_messages import plural, quote

if TYPE_CHECKING:
    import pandas as pd

BATCH = 1 << 18  # rows decoded at a time, so that memory does not depend on the size of row groups
_METADATA = 1 << 26  # bytes, and items, of the longest text or list in metadata of Parquet
BLOCK = 1 << 24  # bytes decompressed at a time
_VALUE = re.compile(r"[+-]?\d+(\.\d*)?|\d{4}-\d\d-\d\d.*", re.DOTALL)
# Others are not shown: in a file of another format, they are parts of records.
_COLUMN_NAME = re.compile(r"[^\W\d][\w .;|/()\[\]-]{0,39}")
_PARQUET = ("*.parquet", "*.parq", "*.pq")
_CSV = tuple(
    f"*{kind}{compression}"
    for kind in (".csv", ".tsv", ".txt")
    for compression in ("", ".gz", ".bz2", ".xz", ".zst", ".zip")
)
ACCEPTS = (
    "Parquet (.parquet, .parq, .pq) or text in UTF-8 whose first line names the columns (.csv, "
    ".tsv, .txt, also .gz, .bz2, .xz, .zst, .zip)"
)
"""Supported files, for messages."""


def _single(delimiter: str) -> str:
    if len(delimiter.encode()) != 1 or delimiter in '"\r\n':
        raise ValueError(f"{delimiter!r} is not one character such as ',' or ';'")
    return delimiter


Delimiter = Annotated[str, AfterValidator(_single)]


def _known_encoding(encoding: str) -> str:
    letters = bytes(range(128))
    with suppress(LookupError, UnicodeDecodeError):
        if letters.decode(encoding) == letters.decode("ascii"):
            return codecs.lookup(encoding).name
    raise ValueError(f"{encoding!r} is not an encoding that contains ASCII, such as 'latin-1'")


Encoding = Annotated[str, AfterValidator(_known_encoding)]


@dataclass(frozen=True, slots=True)
class TextLayout:
    """How lines of text are laid out.

    ``header`` names all columns of a file whose first line does not. ``skip`` lines come before
    that line, and lines that begin with one of ``notes`` are left out. In Parquet, values of the
    columns ``lists`` may be lists.
    """

    delimiter: str = ","
    header: Sequence[str] = ()
    encoding: str = "utf-8"
    skip: int = 0
    notes: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()

    def rows(self, block: bytes, names: Sequence[str] = ()) -> bytes:
        """Return whole lines in UTF-8, notes as blank lines.

        Raises UnicodeDecodeError, and SourceError if a note has values in several columns, other
        than their ``names``: it is a row.
        """
        if self.encoding != "utf-8":
            block = block.decode(self.encoding).encode()
        if not self.notes:
            return block
        notes, kept = tuple(note.encode() for note in self.notes), list[bytes]()
        for line in block.splitlines(keepends=True):
            is_note = line.lstrip(b' "').startswith(notes)
            fields = line.decode().strip().split(self.delimiter) if is_note and names else []
            filled = [field.strip(' "') for field in fields if field.strip(' "')]
            if len(fields) == len(names) and len(filled) > 1 and filled != [*names]:
                raise SourceError(
                    f"`notes` would leave out a row that begins with {quote(filled[0])}: state "
                    "more of the beginning of the lines that are no rows"
                )
            kept.append(b"\n" if is_note else line)
        return b"".join(kept)


@dataclass(frozen=True, slots=True)
class Malformed:
    """Number of lines that are not a row, and what is wrong with the first."""

    count: int = 0
    fault: str = ""


NONE = Malformed()


@dataclass(frozen=True, slots=True)
class ColumnBatch:
    """Raw Arrow columns of equal length by name, and the malformed lines.

    ``lines`` are the numbers of rows among its ``n_lines`` lines, int64, shape (row,), from 0; None
    if every line is a row.
    """

    columns: dict[str, Any]
    malformed: Malformed = NONE
    n_lines: int = 0
    lines: Ints | None = None


def pieces(source: str, size: int) -> list[Piece]:
    """Return the pieces of a Parquet or CSV file, or of a folder of one of the two."""
    files = sources.find(source, _PARQUET + _CSV, kind="Parquet or CSV file")
    n_parquet = sum(is_parquet(file.name) for file in files)
    if 0 < n_parquet < len(files):
        raise SourceError(
            f"{source}: there are both Parquet and CSV files: give a folder or pattern of one kind"
        )
    parts: list[Piece] = []
    for file in files:
        parts += _row_groups(file, size) if n_parquet else sources.slices(file, size)
    return parts


def batches(piece: Piece, columns: Sequence[str], layout: TextLayout) -> Iterator[ColumnBatch]:
    """Yield the named columns of one piece, all if none is named; for CSV, as bytes."""
    if is_parquet(piece.file.name):
        yield from _from_parquet(piece, columns, layout.lists)
    else:
        yield from _from_csv(piece, columns, layout)


def is_parquet(name: str) -> bool:
    """Return whether a file has the name of a Parquet file."""
    return name.lower().endswith(tuple(pattern[1:] for pattern in _PARQUET))


@contextmanager
def open_parquet(file: File, **options: Any) -> Iterator[Any]:
    """Open a Parquet file with bounds on its metadata; raises SourceError if it is damaged."""
    try:
        with storage.open_file(file.url) as stream:
            yield pq.ParquetFile(
                stream,
                page_checksum_verification=True,
                thrift_string_size_limit=_METADATA,
                thrift_container_size_limit=_METADATA,
                **options,
            )
    except (pa.ArrowException, UnicodeDecodeError):
        raise SourceError(f"{file.name} is not a complete Parquet file") from None
    except OSError as error:  # Arrow also raises it for damaged pages
        raise SourceError(f"{file.name} cannot be read: {type(error).__name__}") from None


def _row_groups(file: File, size: int) -> Iterator[Piece]:
    with open_parquet(file) as parquet:
        sizes = [
            parquet.metadata.row_group(i).num_rows * BYTES_PER_ROW
            for i in range(parquet.metadata.num_row_groups)
        ]
    start = 0
    for stop in range(1, len(sizes) + 1):
        if stop == len(sizes) or sum(sizes[start : stop + 1]) > size:
            yield Piece(file, start, stop, sum(sizes[start:stop]))
            start = stop


def _from_parquet(piece: Piece, columns: Sequence[str], lists: Any) -> Iterator[ColumnBatch]:
    with open_parquet(piece.file) as parquet:
        schema = parquet.schema_arrow
        nested = {one.name for one in schema if pa.types.is_nested(one.type)} - set(lists)
        columns = columns or [name for name in schema.names if name not in nested]
        _check_columns(schema.names, columns, piece.file.name)
        for name in columns:
            if name in nested:
                raise SourceError(
                    f"column {name} of {piece.file.name} is {schema.field(name).type}: a value "
                    "should be one number, text or time; write a row for each"
                )
        texts = (pa.string(), pa.large_string())
        text = [name for name in columns if schema.field(name).type in texts]
    # Names repeat: with dictionaries each is decoded once.
    with open_parquet(piece.file, read_dictionary=text) as parquet:
        for batch in parquet.iter_batches(
            BATCH, row_groups=range(piece.start, piece.stop), columns=list(columns)
        ):
            found = {name: batch.column(name) for name in columns}
            for name in text:
                names = getattr(found[name], "dictionary", found[name])
                names.validate(full=True)  # that it is UTF-8
            yield ColumnBatch(found, n_lines=batch.num_rows)


def _check_columns(present: Sequence[str], required: Sequence[str], where: str) -> None:
    for name in required:
        if present.count(name) == 0:
            raise SourceError(f"{where} has no column {name}: {_describe_columns(present)}")
        if present.count(name) > 1:
            raise SourceError(f"{where} has {present.count(name)} columns named {name}")


def _describe_columns(names: Sequence[str]) -> str:
    separator = re.search(r"[;\t|,]", names[0]) if len(names) == 1 else None
    if separator:
        names = [name.strip() for name in names[0].split(separator[0])]
        names = [] if any(map(_VALUE.fullmatch, names)) else names
    shown = [name for name in names if _COLUMN_NAME.fullmatch(name)]
    if not shown:
        return "its first line does not name columns"
    n_hidden = len(names) - len(shown)
    more = f", and {plural(n_hidden, 'name')} with other characters" if n_hidden else ""
    if separator:
        more += f", if {separator[0]!r} separates them: set the reader's `delimiter`"
    return f"its columns are {', '.join(shown)}{more}"


def _from_csv(piece: Piece, columns: Sequence[str], layout: TextLayout) -> Iterator[ColumnBatch]:
    above, names = _header(piece.file, layout)
    if not (layout.header or set(columns) <= set(names)):
        _refuse_title(piece.file, columns, layout)
    if not layout.header and any(_VALUE.fullmatch(name) for name in names):
        # Do not quote the line: it contains a user's record.
        raise SourceError(f"{piece.file.name}: the first line contains values, not column names")
    _check_columns(names, columns, piece.file.name)
    wanted = {name: names.index(name) for name in columns or names}
    at_top = piece.start == 0
    for block in sources.text_blocks(piece, BLOCK):
        body = block[above:].removeprefix(BOM_UTF8) if at_top else block
        at_top = False
        try:
            lines = layout.rows(body, names)
        except UnicodeDecodeError:
            raise SourceError(f"{piece.file.name} is not {layout.encoding} text") from None
        yield from parse_lines(lines, wanted, len(names), layout.delimiter)


def _refuse_title(file: File, columns: Sequence[str], layout: TextLayout) -> None:
    """Raise :class:`SourceError` if a line below the one of column names has those names."""
    with sources.open_text(file) as stream:
        # 1 << 14: bytes in which a title above the names of columns is looked for
        lines = stream.read(1 << 14).decode(layout.encoding, errors="replace").splitlines()
    for number, line in enumerate(lines):
        names = next(csv.reader([line], delimiter=layout.delimiter), [])
        if set(columns) <= {name.strip() for name in names}:
            raise SourceError(
                f"{file.name}: line {number + 1} has column names: set `skip: {number}`"
            )


def _header(file: File, layout: TextLayout) -> tuple[int, list[str]]:
    """Return the number of bytes above the rows, and the names of all columns."""
    codec = "utf-8-sig" if layout.encoding == "utf-8" else layout.encoding
    try:
        with sources.open_text(file) as stream:
            skipped = sum(len(stream.readline(1 << 20)) for _ in range(layout.skip))
            if layout.header:
                return skipped, list(layout.header)
            line = stream.readline(1 << 20)
        names = next(csv.reader([line.decode(codec)], delimiter=layout.delimiter), [])
    except UnicodeDecodeError:
        line_number = f"line {layout.skip + 1}" if layout.skip else "the first line"
        encoding = layout.encoding.upper()
        raise SourceError(f"{file.name}: {line_number} is not {encoding} text") from None
    except (OSError, EOFError, csv.Error) as error:
        raise SourceError(
            f"{file.name}: the first line cannot be read: {type(error).__name__}"
        ) from None
    if not names:
        raise SourceError(f"{file.name} is empty: the first line should name the columns")
    return skipped + len(line), [name.strip() for name in names]


def parse_lines(
    body: bytes, wanted: dict[str, int], n_columns: int, delimiter: str
) -> Iterator[ColumnBatch]:
    """Split whole lines into columns; ``wanted`` gives the position of each column by name.

    A record is one line. Blank lines are ignored; every other line is a row of a batch, or is
    counted as malformed in the first batch.
    """
    lines, unclosed = _close_quotes(body)
    faults: list[str] = ["has a quote that is not closed"] if unclosed else []

    def refuse(row: Any) -> str:
        if not faults:
            faults.append(f"has {plural(row.actual_columns, 'field')}, not {row.expected_columns}")
        return "skip"

    lines = _drop_undecodable(lines, n_columns, delimiter, faults)
    table = _split(lines, wanted, n_columns, delimiter, refuse)
    lines_of_rows, n_lines, stop = _filled_lines(body), body.count(b"\n"), 0
    count = max(len(lines_of_rows) - len(table), 0)
    malformed = Malformed(count, faults[0] if faults else "has a line break within a quote")
    for start in range(0, max(len(table), 1), BATCH):
        part = table.slice(start, BATCH).combine_chunks()
        columns = {name: _only_chunk(part.column(f"{i}")) for name, i in wanted.items()}
        numbers = lines_of_rows[start : start + len(part)] - stop
        first, stop = (
            stop,
            int(lines_of_rows[start + BATCH]) if start + BATCH < len(table) else n_lines,
        )
        yield ColumnBatch(columns, malformed if start == 0 else NONE, stop - first, numbers)


def _drop_undecodable(lines: bytes, n_columns: int, delimiter: str, faults: list[str]) -> bytes:
    """Remove malformed lines that are not UTF-8, which pyarrow cannot hand to a handler."""
    try:
        lines.decode()
        return lines
    except UnicodeDecodeError:
        kept = []
    for line in lines.splitlines(keepends=True):
        try:
            line.decode()
            n_fields = n_columns
        except UnicodeDecodeError:
            n_fields = _count_fields(line, delimiter)
        if n_fields == n_columns:
            kept.append(line)
        elif not faults:
            faults.append(f"has {plural(n_fields, 'field')}, not {n_columns}")
    return b"".join(kept)


def _count_fields(line: bytes, delimiter: str) -> int:
    try:
        return len(next(csv.reader([line.decode("latin-1")], delimiter=delimiter), []))
    except csv.Error:  # a field that is too long, in a line that cannot be used anyway
        return 0


def _split(
    lines: bytes, wanted: dict[str, int], n_columns: int, delimiter: str, refuse: Any
) -> Any:
    kinds = {f"{i}": pa.binary() for i in wanted.values()}
    if not lines.strip():
        return pa.table({name: pa.array([], kind) for name, kind in kinds.items()})
    return pyarrow.csv.read_csv(
        pa.BufferReader(lines),
        read_options=pyarrow.csv.ReadOptions(
            # One chunk: a record must not be split between chunks.
            block_size=len(lines) + 1,
            column_names=[f"{i}" for i in range(n_columns)],
            use_threads=False,
        ),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, invalid_row_handler=refuse),
        convert_options=pyarrow.csv.ConvertOptions(column_types=kinds, include_columns=list(kinds)),
    )


def _only_chunk(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _filled_lines(body: bytes) -> Ints:
    """Return the numbers of the lines that are not blank, int64, shape (line,), from 0."""
    letters = np.frombuffer(body, np.uint8)
    ends = np.append(np.flatnonzero(letters == ord("\n")), len(letters))
    lengths = np.diff(ends, prepend=-1) - 1
    returns = np.zeros(len(ends), np.bool_)
    filled = np.flatnonzero(lengths == 1)
    returns[filled] = letters[ends[filled] - 1] == ord("\r")
    return np.flatnonzero((lengths > 0) & ~returns)


def _close_quotes(body: bytes) -> tuple[bytes, int]:
    """Remove the lines with an odd number of quotes; return the rest and the number removed.

    Otherwise one stray quote would make all lines up to the next quote one field.
    """
    if b'"' not in body:
        return body, 0
    letters = np.frombuffer(body, np.uint8)
    ends = np.append(np.flatnonzero(letters == ord("\n")), len(letters))
    n_quotes = np.searchsorted(np.flatnonzero(letters == ord('"')), ends)
    odd = np.flatnonzero(np.diff(n_quotes, prepend=0) % 2)
    kept, start = [], 0
    for line in odd:
        kept.append(body[start : ends[line - 1] + 1 if line else 0])
        start = int(ends[line]) + 1
    return b"".join([*kept, body[start:]]), len(odd)


def read_frame(content: bytes, uri: str) -> pd.DataFrame:
    """Return the content of a Parquet or CSV file; raises FormatError if it is neither.

    Messages name no columns: those of a file without a header are a person.
    """
    import pandas as pd

    try:
        if content[:4] == b"PAR1":
            return pd.read_parquet(io.BytesIO(content))
        # As text: 007 is not 7.
        return pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
    except Exception as error:
        raise FormatError(f"{uri} is neither Parquet nor CSV: {type(error).__name__}") from None


def read_column(uri: str, column: str) -> list[str]:
    """Return a column of a Parquet or CSV file as text; raises FormatError if it has none."""
    table = read_frame(storage.read_file(uri), uri)
    if column not in table.columns:
        raise FormatError(f"{uri} must have a column {column}")
    return list(map(str, table[column]))
