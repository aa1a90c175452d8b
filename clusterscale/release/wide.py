"""Tables with a row per place and a column per time, or the reverse."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from clusterscale import storage
from clusterscale.contracts import Values
from clusterscale.errors import SourceError
from clusterscale.reading.sources import File, open_text, reading
from clusterscale.reading.tables import BLOCK
from clusterscale.reading.values import Spot, decode_values
from clusterscale.release.content import RawRelease
from clusterscale.release.metadata import read_beside, write_beside
from clusterscale.release.rows import Rows
from clusterscale.release.text import TOTAL, LineTable
from clusterscale.storage.address import check_memory
from clusterscale.validation_messages import plural, quote

_TEXT = 20  # bytes of memory of a byte of text, as separate fields


class WideTable(LineTable):
    """A CSV file of places and times: the first row names the times, the first column the places.

    Attributes
    ----------
    times
        Whether times name the ``columns`` or the ``rows``; places name the others.
    total
        Name of the row and of the column with totals, e.g. ``Total``.
    """

    name: Literal["wide"] = "wide"
    times: Literal["columns", "rows"] = "columns"
    total: str | None = None

    accepts: ClassVar[str] = "CSV in UTF-8"

    def read(self, uri: str) -> RawRelease:
        """Return the table of a file; its metadata are those described beside it."""
        lines = self._lines(uri)
        top, left = lines[0][1:], [line[0] for line in lines[1:]]
        cells = np.array([line[1:] for line in lines[1:]], object)
        if self.flags:
            texts = self._unflagged(pa.array(cells.ravel().tolist(), pa.string()))
            cells = np.array(texts.to_pylist(), object).reshape(cells.shape)
        stamps, names = (top, left) if self.times == "columns" else (left, top)
        seconds, all_times = self._times(stamps, uri)
        values = self._values(cells, top, uri)
        if self.times == "rows":
            values = values.T
        rows = self._rows(names, seconds, all_times, values, uri)
        table = self.lay_out(rows)
        metadata, uris, texts = read_beside(uri)
        return replace(table, metadata=metadata, uris=uris, texts=texts)

    def write(self, uri: str, release: RawRelease) -> None:
        """Write a CSV file; hidden values are empty, times in UTC.

        Raises InputError if it would be read as another table.
        """
        if self.is_only_read:
            return super().write(uri, release)
        (places, times), total = self.names_of(release), self.total or TOTAL
        table = pd.DataFrame(release.values, columns=list(map(str, times)))
        table.insert(0, "place", places)
        by_place, by_time, grand = release.totals.each
        corner = [] if by_place is None and grand is None else [np.nan] if grand is None else grand
        if len(corner):
            table[total] = np.nan if by_place is None else by_place
        if by_time is not None or grand is not None:
            row = np.full(len(times), np.nan) if by_time is None else by_time
            table.loc[len(table)] = [total, *row, *corner]
        if self.times == "rows":
            table = table.set_index("place").T.rename_axis("time").reset_index()
        decimal = self.marks.decimal
        write_beside(uri, table, release.metadata, delimiter=self.delimiter, decimal=decimal)

    def _values(self, cells: NDArray[np.object_], top: list[str], uri: str) -> Values:
        """Return the values of texts, float64, shape (line, column)."""

        def decoded(texts: NDArray[np.object_], name: str) -> Values:
            column, spot = pa.array(texts.tolist(), pa.string()), Spot(uri, 2 + self.skip, "line")
            return decode_values(name, column, spot=spot, **self.codes)

        try:
            return decoded(cells.ravel(), "").reshape(cells.shape)
        except SourceError:  # the first column that is wrong is named
            for i, name in enumerate(top):
                decoded(cells[:, i], f"{i + 2} ({quote(name)})")
            raise

    def _lines(self, uri: str) -> list[list[str]]:
        with reading(uri), open_text(File(uri, uri, storage.size(uri))) as stream:
            blocks, size = [], 0
            while block := stream.read(BLOCK):  # a small file can be large when decompressed
                blocks.append(block)
                size += len(block)
                check_memory(_TEXT * size, f"{uri}: the fields of {size:,} bytes of text")
        try:
            below = b"".join(blocks).split(b"\n", self.skip)[-1]
            head = below.partition(b"\n")[0].decode(self.encoding).strip("\ufeff\r")
            names = next(csv.reader([head], delimiter=self.delimiter), [])
            text = self.layout.rows(below, [name.strip() for name in names]).decode("utf-8-sig")
            reader = csv.reader(
                io.StringIO(text, newline=""), delimiter=self.delimiter, strict=True
            )
            lines = [[value.strip() for value in line] for line in reader if line]
        except UnicodeDecodeError:
            raise SourceError(f"{uri} is not {self.encoding.upper()} text") from None
        except csv.Error as error:
            raise SourceError(f"{uri}: line {reader.line_num}: {error}") from None
        if len(lines) < 2 or len(lines[0]) < 2:
            raise SourceError(
                f"{uri} has {plural(len(lines), 'line')}, the first with "
                f"{plural(len(lines[0]) if lines else 0, 'column')} separated by "
                f"{self.delimiter!r}: it should have names and at least one value"
            )
        for number, line in enumerate(lines, 1):
            if len(line) != len(lines[0]):
                raise SourceError(
                    f"{uri}: line {number} has {plural(len(line), 'field')}, not {len(lines[0])}"
                )
        return lines

    def _times(self, stamps: list[str], uri: str) -> tuple[Any, Any]:
        """Return the times and which are the total over times."""
        where, unit = ("line 1", "column") if self.times == "columns" else ("column 1", "line")
        all_times = np.array([stamp == self.total for stamp in stamps])
        seconds = np.zeros(len(stamps), np.int64)
        kept = np.flatnonzero(~all_times)
        if not len(kept):
            raise SourceError(f"{uri}: {where} has no times")
        spot = Spot(uri, 2, unit)
        text = pa.array([stamps[i] for i in kept], pa.string())
        seconds[kept] = self.clock.decode("time", text, None, spot=spot)
        seconds[all_times] = seconds[kept[0]]
        return seconds, all_times

    def _rows(self, names: list[str], seconds: Any, all_times: Any, values: Any, uri: str) -> Rows:
        if "" in names:
            raise SourceError(f"{uri}: place {names.index('') + 1} has no name")
        known: dict[str, int] = {}
        codes = [-1 if name == self.total else known.setdefault(name, len(known)) for name in names]
        place = np.repeat(np.array(codes, np.int64), len(seconds))
        time, flags = (np.tile(column, len(names)) for column in (seconds, all_times))
        rows = Rows(list(known), self.slots, uri)
        rows.add(place, time, flags, values.ravel())
        return rows
