"""Finished tasks at rest: one small file a task, kept at once, read back to resume."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from clusterscale.audit.task import Key
from clusterscale.cube.storage import connect
from clusterscale.errors import DamagedError
from clusterscale.game import Outcome

__all__ = ["Entry", "Journal"]

_SCHEMA = pa.schema(
    [
        ("target", pa.int64()),
        ("period", pa.string()),
        ("prior", pa.string()),
        ("group_size", pa.int64()),
        ("error", pa.string()),
        ("mechanism", pa.string()),
        ("attack", pa.string()),
        ("auc", pa.float64()),
        ("accuracy", pa.float64()),
        ("control_auc", pa.float64()),
        ("seconds", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A task that ended: its outcomes, or the error that ended it."""

    key: Key
    outcomes: tuple[Outcome, ...] = ()
    error: str = ""


class Journal:
    """The entries of one run, kept below ``uri`` (a local path or any fsspec URL).

    An entry is written under a temporary name and then moved to its own: when the driver dies, it
    is there whole or not at all.
    """

    def __init__(self, uri: str) -> None:
        self._filesystem, self._root = connect(uri.rstrip("/"))
        self._filesystem.makedirs(self._root, exist_ok=True)

    def add(self, entry: Entry) -> None:
        """Keep ``entry``; from then on it outlives this process."""
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(list(_rows(entry)), _SCHEMA), sink)
        name = f"{self._root}/{uuid.uuid4().hex}"
        self._filesystem.pipe_file(f"{name}.partial", sink.getvalue())
        self._filesystem.mv(f"{name}.partial", f"{name}.parquet")

    def entries(self) -> dict[Key, Entry]:
        """Return what was kept, a success before a failure of the same task.

        Raises
        ------
        DamagedError
            If an entry cannot be read; names the file.
        """
        found: dict[Key, Entry] = {}
        self._filesystem.invalidate_cache()
        for path in sorted(self._filesystem.glob(f"{self._root}/*.parquet")):
            entry = self._read(path)
            if not entry.error or entry.key not in found:
                found[entry.key] = entry
        return found

    def _read(self, path: str) -> Entry:
        try:
            rows = pq.read_table(io.BytesIO(self._filesystem.cat_file(path))).to_pylist()
            return _entry(rows)
        except (pa.ArrowException, OSError, KeyError, IndexError) as error:
            raise DamagedError(
                f"{path}: this entry of the journal cannot be read ({error}); "
                "remove it, and its task will run again"
            ) from error


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
    fields = Outcome.__dataclass_fields__
    return Entry(key, tuple(Outcome(**{name: row[name] for name in fields}) for row in rows))
