"""Journals of finished tasks: one small file per batch, written at once and read to resume."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from clusterscale.analyses.audit.task import Key
from clusterscale.game import Outcome
from clusterscale.study import JournalFolder

_TYPES = {
    "str": pa.string(),
    "float": pa.float64(),
    "int": pa.int64(),
    "tuple[int, ...]": pa.list_(pa.int64()),
}
_KEY = ("target", "period", "prior", "group_size")
_SCHEMA = pa.schema(
    [
        ("target", pa.int64()),
        ("period", pa.string()),
        ("prior", pa.string()),
        ("group_size", pa.int64()),
        ("error", pa.string()),
        ("traceback", pa.string()),
        *((field.name, _TYPES[str(field.type)]) for field in fields(Outcome)),
    ]
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A task that ended: its outcomes, or the error that ended it, with traceback."""

    key: Key
    outcomes: tuple[Outcome, ...] = ()
    error: str = ""
    traceback: str = ""


class Journal(JournalFolder):
    """The entries of one run: a Parquet file per batch of tasks, with one row per outcome.

    Files are numbered in the order in which this object listed or wrote them, so that only one
    number per task is in memory.
    """

    ending = "parquet"
    unreadable = (*JournalFolder.unreadable, pa.ArrowException)

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._files = self.paths()

    @property
    def n_files(self) -> int:
        """Number of files."""
        return len(self._files)

    def add(self, entries: Sequence[Entry]) -> int:
        """Write a batch to stable storage, and return the number of its file."""
        sink = io.BytesIO()
        rows = [row for entry in entries for row in _rows(entry)]
        pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), sink)
        self._files.append(self.put(sink.getvalue()))
        return len(self._files) - 1

    def keys(self, number: int) -> list[tuple[Key, bool]]:
        """Return the key of each entry of a file, and whether its task failed.

        Raises
        ------
        DamagedError
            If the file cannot be read; names it.
        """

        def decode(raw: bytes) -> list[tuple[Key, bool]]:
            rows = pq.read_table(io.BytesIO(raw), columns=[*_KEY, "error"]).to_pylist()
            return list(dict.fromkeys((_key(row), bool(row["error"])) for row in rows))

        return self.decode(self._files[number], decode)

    def read(self, number: int) -> list[Entry]:
        """Return the entries of a file. Errors are those of :meth:`keys`."""
        return self.decode(
            self._files[number],
            lambda raw: [
                _entry(key, list(rows))
                for key, rows in groupby(pq.read_table(io.BytesIO(raw)).to_pylist(), _key)
            ],
        )


def _key(row: dict[str, Any]) -> Key:
    return row["target"], row["period"], row["prior"], row["group_size"]


def _rows(entry: Entry) -> Iterator[dict[str, Any]]:
    head = dict(zip(_KEY, entry.key, strict=True))
    for outcome in entry.outcomes:
        yield {**head, "error": "", **asdict(outcome)}
    if entry.error:
        yield {**head, "error": entry.error, "traceback": entry.traceback}


def _entry(key: Key, rows: list[dict[str, Any]]) -> Entry:
    if rows[0]["error"]:
        return Entry(key, error=rows[0]["error"], traceback=rows[0]["traceback"])
    return Entry(key, tuple(_outcome(row) for row in rows))


def _outcome(row: dict[str, Any]) -> Outcome:
    values = {field.name: row[field.name] for field in fields(Outcome)}
    tuples = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Outcome(**(values | tuples))
