"""What is finished, at rest: one small file a batch, kept at once, read back to resume."""

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
    """A task that ended: its outcomes, or the error that ended it and where that came from."""

    key: Key
    outcomes: tuple[Outcome, ...] = ()
    error: str = ""
    traceback: str = ""


class _Folder:
    """Files kept below ``uri`` (a local path or any fsspec URL), each put there whole."""

    _ending: ClassVar[str]

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")

    def _put(self, raw: bytes) -> str:
        """Keep ``raw`` in a file of its own, whose address is returned; it outlives this process.

        When the driver dies, it is there whole or not at all.
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
    """The entries of one run: a Parquet file a batch of tasks, one row an outcome.

    Files are known by number, in the order in which this object met them, so that what is held in
    memory for a task is one number.
    """

    _ending = "parquet"

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._files = self._paths()

    @property
    def n_files(self) -> int:
        """How many files there are."""
        return len(self._files)

    def add(self, entries: Sequence[Entry]) -> int:
        """Keep a batch; from then on it outlives this process. Return the number of its file."""
        sink = io.BytesIO()
        rows = [row for entry in entries for row in _rows(entry)]
        pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), sink)
        self._files.append(self._put(sink.getvalue()))
        return len(self._files) - 1

    def keys(self, number: int) -> list[tuple[Key, bool]]:
        """Return what a file holds: the key of each entry, and whether its task failed.

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
    """The prices of one run: a JSON file a period and group size."""

    _ending = "json"

    def add(self, price: Price) -> None:
        """Keep ``price``; from then on it outlives this process."""
        self._put(json.dumps(asdict(price), indent=1).encode())

    def prices(self) -> dict[PriceKey, Price]:
        """Return what was kept by its key, a success before a failure of the same task.

        Raises
        ------
        DamagedError
            If a file cannot be read; names it.
        """
        found: dict[PriceKey, Price] = {}
        for path in self._paths():
            price = self._read(path, _price)
            if not price.error or price.key not in found:
                found[price.key] = price
        return found


def _price(raw: bytes) -> Price:
    found = json.loads(raw)
    period, group_size = found["key"]
    return Price(
        key=(str(period), int(group_size)),
        promises={name: GuaranteeStatement(**each) for name, each in found["promises"].items()},
        judgements={name: DPTestResult(**each) for name, each in found["judgements"].items()},
        utility={
            name: (tuple(mean), tuple(spread)) for name, (mean, spread) in found["utility"].items()
        },
        released_share=found["released_share"],
        guess=tuple(found["guess"]),
        error=found["error"],
        traceback=found["traceback"],
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
