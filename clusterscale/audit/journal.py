"""Journals of finished tasks: one small file per batch, written at once and read to resume."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from typing import Any, ClassVar, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from clusterscale import storage
from clusterscale.audit.dp_test import DPTestResult
from clusterscale.audit.evaluation import GuaranteeStatement, Price, PriceKey
from clusterscale.audit.task import Key
from clusterscale.errors import DamagedError, StoreError
from clusterscale.game import Outcome

__all__ = ["Entry", "Journal", "PriceJournal"]

T = TypeVar("T")

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


class _Folder:
    """Files below ``uri`` (a local path or any fsspec URL), each written atomically."""

    _ending: ClassVar[str]

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")

    def _put(self, raw: bytes) -> str:
        """Write ``raw`` to a new file, and return its URI.

        If the driver dies, the file is complete or does not exist.
        """
        uri = f"{self._uri}/{uuid.uuid4().hex}.{self._ending}"
        storage.put(uri, raw)
        return uri

    def _paths(self) -> list[str]:
        names = storage.list_names(self._uri)
        return [f"{self._uri}/{name}" for name in names if name.endswith(f".{self._ending}")]

    def _read(self, path: str, decode: Callable[[bytes], T]) -> T:
        try:
            return decode(storage.read(path))
        except StoreError:
            raise
        except (pa.ArrowException, OSError, KeyError, IndexError, TypeError, ValueError) as error:
            raise DamagedError(
                f"{path}: this entry of the journal cannot be read ({error}); "
                "remove it, and its tasks will run again"
            ) from error


class Journal(_Folder):
    """The entries of one run: a Parquet file per batch of tasks, with one row per outcome.

    Files are numbered in the order in which this object listed or wrote them, so that only one
    number per task is in memory.
    """

    _ending = "parquet"

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._files = self._paths()

    @property
    def n_files(self) -> int:
        """Number of files."""
        return len(self._files)

    def add(self, entries: Sequence[Entry]) -> int:
        """Write a batch to stable storage, and return the number of its file."""
        sink = io.BytesIO()
        rows = [row for entry in entries for row in _rows(entry)]
        pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), sink)
        self._files.append(self._put(sink.getvalue()))
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

        return self._read(self._files[number], decode)

    def read(self, number: int) -> list[Entry]:
        """Return the entries of a file. Errors are those of :meth:`keys`."""
        return self._read(
            self._files[number],
            lambda raw: [
                _entry(key, list(rows))
                for key, rows in groupby(pq.read_table(io.BytesIO(raw)).to_pylist(), _key)
            ],
        )


class PriceJournal(_Folder):
    """The evaluations of one run: a JSON file per period and group size."""

    _ending = "json"

    def add(self, price: Price) -> None:
        """Write the result of an evaluation to stable storage."""
        self._put(json.dumps(asdict(price), indent=1).encode())

    def prices(self) -> dict[PriceKey, Price]:
        """Return the evaluations by key; of the same task, a success rather than a failure.

        Raises
        ------
        DamagedError
            If a file cannot be read; names it.
        """
        prices: dict[PriceKey, Price] = {}
        for path in self._paths():
            price = self._read(path, _price)
            if not price.error or price.key not in prices:
                prices[price.key] = price
        return prices


def _price(raw: bytes) -> Price:
    values = json.loads(raw)
    period, group_size = values["key"]
    return Price(
        key=(str(period), int(group_size)),
        promises={key: GuaranteeStatement(**kept) for key, kept in values["promises"].items()},
        judgements={key: DPTestResult(**kept) for key, kept in values["judgements"].items()},
        utility={
            key: (tuple(mean), tuple(spread)) for key, (mean, spread) in values["utility"].items()
        },
        released_share=values["released_share"],
        guess=tuple(values["guess"]),
        error=values["error"],
        traceback=values["traceback"],
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
