"""Append-only ledger: one row per verdict."""

import io
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic_core import to_jsonable_python

from clusterscale import storage
from clusterscale.contracts import VERDICT_LEVELS
from clusterscale.errors import DamagedError, ExistsError
from clusterscale.release.verdict import Verdict

_TABLE = "verdicts.parquet"
_ADDED = ("mechanism_id", "results_revision", "seal")  # columns that older rows lack


def json_safe(value: Any) -> Any:
    """Return nested values as JSON can store them: Python numbers, None if not finite."""
    return to_jsonable_python(value, inf_nan_mode="null", fallback=lambda number: number.item())


class Ledger:
    """Verdicts in the folder ``uri``: a Parquet table with one file per row, which is written once.

    Raises DamagedError if a row is missing or cannot be read.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self.rows: list[Verdict] = []
        names = storage.list_names(f"{self.uri}/{_TABLE}")
        for number, name in enumerate(file for file in names if file.endswith(".parquet")):
            if name != _name(number):
                raise DamagedError(f"{self.uri}/{_TABLE}: row {number} is missing before {name}")
            self.rows.append(self._read(name))

    def __len__(self) -> int:
        return len(self.rows)

    def keys(self) -> set[str]:
        """Return the keys of all verdicts."""
        return {row.key for row in self.rows}

    def append(self, row: Verdict) -> Verdict:
        """Append a row, permanently; return it with its seal.

        Raises ExistsError if another process has appended one meanwhile.
        """
        sink, table = io.BytesIO(), pa.Table.from_pylist([asdict(row)], schema=_schema())
        row = Verdict(**table.to_pylist()[0]).sealed()  # as it will be read
        table = pa.Table.from_pylist([asdict(row)], schema=_schema())
        pq.write_table(table, sink, write_page_checksum=True)
        uri = f"{self.uri}/{_TABLE}/{_name(row.number)}"
        if row.number != len(self.rows) or not storage.put_new(uri, sink.getvalue()):
            raise ExistsError(f"{uri} exists already; is another process running?")
        self.rows.append(row)
        return row

    def last_of(self, series: str, release: str, most: int) -> list[Verdict]:
        """Return the last verdict of each of the last releases of a series, without ``release``."""
        last: dict[str, Verdict] = {}
        for row in self.rows:
            if row.series == series and row.release != release:
                last.pop(row.release, None)
                last[row.release] = row
        return list(last.values())[-most:]

    def _read(self, name: str) -> Verdict:
        uri = f"{self.uri}/{_TABLE}/{name}"
        try:
            content = io.BytesIO(storage.read(uri))
        except FileNotFoundError:  # a link that leads nowhere
            raise DamagedError(f"{uri} is listed, but cannot be found") from None
        try:
            # not read_table, which imports pandas: that takes half a second
            table = pq.ParquetFile(content, page_checksum_verification=True).read()
            (row,) = table.to_pylist()
            older = (_ADDED, _ADDED[-1:])
            if not any(table.schema.equals(_schema(without)) for without in ((), *older)):
                raise ValueError("it has other columns")
            verdict = Verdict(**row)
            if "seal" in row and verdict.seal != verdict.sealed().seal:
                raise ValueError("it is not what was written")
            if verdict.verdict not in VERDICT_LEVELS:
                raise ValueError(f"its verdict is {verdict.verdict!r}")
        except MemoryError:
            raise
        except Exception as error:  # Arrow raises many types
            raise DamagedError(f"{uri} is not a row of this ledger: {error}") from error
        if _name(verdict.number) != name:
            raise DamagedError(f"{uri} is not a row of this ledger: it is row {verdict.number}")
        return verdict


def _name(number: int) -> str:
    return f"{number:08d}.parquet"


def _schema(without: tuple[str, ...] = ()) -> Any:
    kinds = {"int": pa.int64(), "float": pa.float64(), "str": pa.string()}
    every = Verdict.__annotations__.items()
    return pa.schema([(name, kinds[kind]) for name, kind in every if name not in without])
