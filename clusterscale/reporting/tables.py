"""Export of results as tables for spreadsheets and databases, one file per kind of row."""

import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from clusterscale.errors import InputError
from clusterscale.release.metadata import FORMULA
from clusterscale.reporting.run import Run, variables_of
from clusterscale.schema import TEXT
from clusterscale.storage import put
from clusterscale.study import find_kind
from clusterscale.validation_messages import choices

Format = Literal["csv", "parquet", "netcdf"]
FORMATS: tuple[str, ...] = ("csv", "parquet", "netcdf")
"""Formats of tables."""

_ROWS = 1 << 20  # rows of a table in memory at once


def write_tables(run: Run, folder: str | Path, form: Format) -> list[str]:
    """Write the results of a run as tables, each atomically, and return their locations.

    ``csv`` and ``parquet`` have one file per kind of row, such as ``audit-cases.csv``, with a
    column for each dimension and variable; cases that were not run are omitted. ``netcdf`` has one
    file per dataset, such as ``audit.nc``. Lazy datasets are read a million rows at a time. Raises
    InputError if ``form`` is not one of :data:`FORMATS`, StoreError if a file cannot be written.
    """
    if form not in FORMATS:
        raise InputError(f"format {form!r} is not one of {', '.join(FORMATS)}")
    written = []
    for kind, dataset in run.parts():
        if form == "netcdf":
            written.append(_save(f"{folder}/{kind}.nc", dataset, _write_netcdf))
            continue
        write = _write_csv if form == "csv" else _write_parquet
        for name, variable in _tables_of(kind, dataset).items():
            pieces = frames(dataset, variable, variables_of(kind, dataset))
            written.append(_save(f"{folder}/{kind}-{name}.{form}", pieces, write))
    return written


def to_frame(kind: str, dataset: xr.Dataset, table: str | None = None) -> pd.DataFrame:
    """Return one table of results of a kind, or the first; raises InputError if there is none."""
    known = _tables_of(kind, dataset)
    name = next(iter(known)) if table is None else table
    if name not in known:
        raise InputError(f"there is no table {name!r} of this {kind}; {choices(name, list(known))}")
    pieces = frames(dataset, known[name], variables_of(kind, dataset))
    return pd.concat(list(pieces), ignore_index=True)


def _tables_of(kind: str, dataset: xr.Dataset) -> Mapping[str, str]:
    """Return the tables of a kind of results: a variable with the dimensions of each, by name."""
    known = find_kind(kind)
    return known.tables if known and known.tables else _one_of_each_shape(dataset)


def _one_of_each_shape(dataset: xr.Dataset) -> dict[str, str]:
    """Return a variable of each shape, by the names of its dimensions."""
    return {"-".join(map(str, v.dims)): str(name) for name, v in dataset.items() if v.dims}


def frames(dataset: xr.Dataset, variable: str, variables: Iterable[str]) -> Iterator[pd.DataFrame]:
    """Yield the table of those ``variables`` that have the dimensions of ``variable``, in pieces.

    Columns are the dimensions, the variables (if there), and variables that depend only on one of
    the dimensions or on user and period, each in the given order. Rows whose ``status`` is
    ``missing`` or ``unseen`` are omitted.
    """
    dims, variables = dataset[variable].dims, [name for name in variables if name in dataset]
    names = [name for name in variables if dataset[name].dims == dims and name not in dims]
    about = {name: dataset[name] for name in variables if dataset[name].dims in _alone(dims)}
    table = dataset[names].assign_coords(about)
    for dim in table.dims:  # dimensions without a coordinate
        if dim not in table.coords:
            table = table.assign_coords({dim: np.arange(table.sizes[dim])})
    first, length = dims[0], table.sizes[dims[0]]
    a_row = int(np.prod([table.sizes[dim] for dim in dims[1:]], dtype=np.int64))
    step = max(1, _ROWS // max(1, a_row))
    for start in range(0, max(1, length), step):
        piece = table.isel({first: slice(start, start + step)}).compute()
        frame = piece.to_dataframe(dim_order=list(dims)).reset_index()
        frame = frame[[*dims, *names, *(name for name in about if name not in dims)]]
        run = ~frame["status"].isin(("missing", "unseen")) if "status" in frame else slice(None)
        yield frame[run]


def _alone(dims: tuple[Any, ...]) -> set[tuple[Any, ...]]:
    """Return the dimensions of additional columns: each alone, and user with period."""
    pairs = {("user", "period")} if {"user", "period"} < set(dims) else set()
    return {(dim,) for dim in dims} | pairs if len(dims) > 1 else set()


def _save(uri: str, content: Any, write: Callable[[Any, Path], None]) -> str:
    with tempfile.TemporaryDirectory() as aside:
        path = Path(aside) / "table"
        write(content, path)
        put(uri, path.read_bytes())
    return uri


def _write_csv(pieces: Iterator[pd.DataFrame], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for number, piece in enumerate(pieces):
            safe = piece.rename(columns=_as_text)
            for name, column in piece.items():
                if not pd.api.types.is_numeric_dtype(column):
                    safe[_as_text(name)] = column.map(_as_text)
            safe.to_csv(file, index=False, header=number == 0)


def _as_text(value: Any) -> Any:
    """Return a text that spreadsheets do not take for a formula; other values as they are."""
    is_formula = isinstance(value, str) and value.startswith(FORMULA)
    return f"'{value}" if is_formula else value


def _write_parquet(pieces: Iterator[pd.DataFrame], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: Any = None
    for piece in pieces:
        table = pa.Table.from_pandas(piece, preserve_index=False)
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table.cast(writer.schema))
    writer.close()


def _write_netcdf(dataset: xr.Dataset, path: Path) -> None:
    # netCDF supports neither boolean attributes nor NumPy's string types
    words = {
        name: variable.astype(object)
        for name, variable in dataset.variables.items()
        if variable.dtype.kind in TEXT
    }
    attributes = {
        name: int(value) if isinstance(value, bool | np.bool_) else value
        for name, value in dataset.attrs.items()
    }
    clean = dataset.assign(words).assign_attrs(attributes).drop_encoding()
    content = io.BytesIO()  # on a full disk, HDF5 itself would crash the process
    clean.to_netcdf(content, engine="h5netcdf")
    path.write_bytes(content.getbuffer())
