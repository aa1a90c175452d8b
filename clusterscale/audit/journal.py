"""What is finished, at rest: one small file a task, kept at once, read back to resume."""

from __future__ import annotations

import io
import json
import uuid
from abc import abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from clusterscale.audit.price import Price, Promise
from clusterscale.audit.task import Key
from clusterscale.audit.verdict import Judgement
from clusterscale.cube.storage import connect
from clusterscale.errors import DamagedError
from clusterscale.game import Outcome

__all__ = ["Entry", "Journal", "PriceJournal"]

_TYPES = {
    "str": pa.string(),
    "float": pa.float64(),
    "int": pa.int64(),
    "tuple[int, ...]": pa.list_(pa.int64()),
}
_SCHEMA = pa.schema(
    [
        ("target", pa.int64()),
        ("period", pa.string()),
        ("prior", pa.string()),
        ("group_size", pa.int64()),
        ("error", pa.string()),
        *((field.name, _TYPES[str(field.type)]) for field in fields(Outcome)),
    ]
)


class _Kept(Protocol):
    """What a journal holds: a task by its key, and the error that ended it, if one did."""

    @property
    def key(self) -> Hashable: ...

    @property
    def error(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """A task that ended: its outcomes, or the error that ended it."""

    key: Key
    outcomes: tuple[Outcome, ...] = ()
    error: str = ""


E = TypeVar("E", bound=_Kept)


class _Folder(Generic[E]):
    """Entries of one kind, kept below ``uri`` (a local path or any fsspec URL).

    An entry is written under a temporary name and then moved to its own: when the driver dies, it
    is there whole or not at all.
    """

    _ending: ClassVar[str]

    def __init__(self, uri: str) -> None:
        self._filesystem, self._root = connect(uri.rstrip("/"))
        self._filesystem.makedirs(self._root, exist_ok=True)

    def add(self, entry: E) -> None:
        """Keep ``entry``; from then on it outlives this process."""
        name = f"{self._root}/{uuid.uuid4().hex}"
        self._filesystem.pipe_file(f"{name}.partial", self._encode(entry))
        self._filesystem.mv(f"{name}.partial", f"{name}.{self._ending}")

    def entries(self) -> dict[Any, E]:
        """Return what was kept by its key, a success before a failure of the same task.

        Raises
        ------
        DamagedError
            If an entry cannot be read; names the file.
        """
        found: dict[Any, E] = {}
        self._filesystem.invalidate_cache()
        for path in sorted(self._filesystem.glob(f"{self._root}/*.{self._ending}")):
            entry = self._read(path)
            if not entry.error or entry.key not in found:
                found[entry.key] = entry
        return found

    def _read(self, path: str) -> E:
        try:
            return self._decode(self._filesystem.cat_file(path))
        except (pa.ArrowException, OSError, KeyError, IndexError, TypeError, ValueError) as error:
            raise DamagedError(
                f"{path}: this entry of the journal cannot be read ({error}); "
                "remove it, and its task will run again"
            ) from error

    @abstractmethod
    def _encode(self, entry: E) -> bytes:
        """Return the bytes of an entry."""

    @abstractmethod
    def _decode(self, raw: bytes) -> E:
        """Return the entry of some bytes."""


class Journal(_Folder[Entry]):
    """The entries of one run: a Parquet file a task, one row an outcome."""

    _ending = "parquet"

    def _encode(self, entry: Entry) -> bytes:
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(list(_rows(entry)), _SCHEMA), sink)
        return sink.getvalue()

    def _decode(self, raw: bytes) -> Entry:
        return _entry(pq.read_table(io.BytesIO(raw)).to_pylist())


class PriceJournal(_Folder[Price]):
    """The prices of one run: a JSON file a period and group size."""

    _ending = "json"

    def _encode(self, entry: Price) -> bytes:
        return json.dumps(asdict(entry), indent=1).encode()

    def _decode(self, raw: bytes) -> Price:
        found = json.loads(raw)
        period, group_size = found["key"]
        return Price(
            key=(str(period), int(group_size)),
            promises={name: Promise(**each) for name, each in found["promises"].items()},
            judgements={name: Judgement(**each) for name, each in found["judgements"].items()},
            utility={
                name: (tuple(mean), tuple(spread))
                for name, (mean, spread) in found["utility"].items()
            },
            guess=tuple(found["guess"]),
            error=found["error"],
        )


def _rows(entry: Entry) -> Iterator[dict[str, Any]]:
    target, period, prior, group_size = entry.key
    head = {"target": target, "period": period, "prior": prior, "group_size": group_size}
    for outcome in entry.outcomes:
        yield {**head, "error": "", **asdict(outcome)}
    if entry.error:
        yield {**head, "error": entry.error}


def _entry(rows: list[dict[str, Any]]) -> Entry:
    first = rows[0]
    key = (first["target"], first["period"], first["prior"], first["group_size"])
    if first["error"]:
        return Entry(key, error=first["error"])
    return Entry(key, tuple(_outcome(row) for row in rows))


def _outcome(row: dict[str, Any]) -> Outcome:
    values = {field.name: row[field.name] for field in fields(Outcome)}
    tuples = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Outcome(**(values | tuples))
