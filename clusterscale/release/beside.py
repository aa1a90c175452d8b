"""Metadata of a file of values: in Parquet itself, or beside a text as CSV on the Web has it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from clusterscale import storage
from clusterscale.errors import FormatError, InputError
from clusterscale.reading.sources import File
from clusterscale.reading.tables import is_parquet, open_parquet
from clusterscale.release.metadata import ReleaseMetadata, read_metadata
from clusterscale.validation_messages import quote

if TYPE_CHECKING:
    import pandas as pd


_NOTES = "clusterscale"
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of texts that spreadsheets run as formulas."""


def beside(uri: str) -> str:
    """Return the address of the description of a file (W3C, CSV on the Web, §5.3)."""
    return f"{uri.rstrip('/')}-metadata.json"


def read_beside(uri: str) -> tuple[ReleaseMetadata, Mapping[str, str]]:
    """Return the metadata of a file, and the URIs that these name; both empty if there are none.

    Raises
    ------
    FormatError
        If the description is not JSON.
    ConfigError
        If a field is invalid.
    """
    attributes: Any = None
    if is_parquet(uri):
        attributes, where = _in_parquet(uri), uri
    else:
        where = beside(uri)
        if storage.exists(where):
            attributes = _parse(storage.read(where), where)
    if attributes is None:
        return ReleaseMetadata(), {}
    notes = attributes.get("notes", attributes) if isinstance(attributes, dict) else None
    notes = notes.get(_NOTES, {}) if isinstance(notes, dict) else None
    if not isinstance(notes, dict):
        raise FormatError(f"{where}: `notes` should be a mapping with {_NOTES!r}")
    return read_metadata(notes, where)


def _in_parquet(uri: str) -> Any:
    filesystem, path = storage.connect(uri)
    if filesystem.isdir(path):
        return None
    with open_parquet(File(uri, uri, 0)) as file:
        found = file.schema_arrow.metadata or {}
    text = found.get(_NOTES.encode())
    return None if text is None else {_NOTES: _parse(text, uri)}


def _parse(content: bytes, where: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise FormatError(f"{where} is not JSON") from None


def describe(metadata: ReleaseMetadata) -> dict[str, Any]:
    """Return the metadata that are set, as plain values."""
    return metadata.model_dump(mode="json", include=metadata.model_fields_set)


def write_beside(uri: str, table: pd.DataFrame, metadata: ReleaseMetadata) -> None:
    """Write a table as Parquet or CSV, by the ending of ``uri``, with its metadata."""
    notes = describe(metadata)
    if is_parquet(uri):
        import pyarrow as pa
        import pyarrow.parquet as pq

        arrow = pa.Table.from_pandas(table, preserve_index=False)
        arrow = arrow.replace_schema_metadata({_NOTES: json.dumps(notes)} if notes else None)
        buffer = io.BytesIO()
        pq.write_table(arrow, buffer)
        storage.put(uri, buffer.getvalue())
        return
    storage.put(uri, to_csv(table).encode())
    if notes:
        described = {
            "@context": "http://www.w3.org/ns/csvw",
            "url": uri.rstrip("/").rpartition("/")[2],
            "tableSchema": {"columns": [{"name": str(name)} for name in table.columns]},
            "notes": {_NOTES: notes},
        }
        storage.put(beside(uri), json.dumps(described, indent=1).encode())


def to_csv(table: pd.DataFrame) -> str:
    """Return a table as CSV; whole numbers without a decimal point, others in full.

    Raises
    ------
    InputError
        If a text begins like a formula: a spreadsheet would run it.
    """
    refuse_formulas(map(str, table.columns))
    shown = table.copy()
    for name in shown.columns:
        if shown[name].dtype.kind == "f":
            shown[name] = [_number(value) for value in shown[name].tolist()]
        elif shown[name].dtype.kind not in "iub":
            refuse_formulas(map(str, shown[name].unique()))
    return str(shown.to_csv(index=False, lineterminator="\n"))


def refuse_formulas(texts: Iterable[str]) -> None:
    """Raise :class:`InputError` if a text of a CSV file begins like a formula of a spreadsheet."""
    for text in texts:
        if text.startswith(FORMULA):
            raise InputError(
                f"{quote(text)} begins with {text[0]!r}, so a spreadsheet would run it as a "
                "formula: choose another format than CSV, such as parquet, or rename it"
            )


def _number(value: float) -> str:
    if value != value:
        return ""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
