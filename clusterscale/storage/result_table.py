"""Datasets of results that are made empty, filled as results come, and opened when complete."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from clusterscale.errors import FormatError, MissingError
from clusterscale.schema import Variable, validate
from clusterscale.storage import files
from clusterscale.storage.atomic import staged

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["TableStore", "create_table", "is_table", "open_table"]

_DTYPES: dict[str, Any] = {"f": np.float32, "iu": np.int64, "OUT": str, "M": np.int64}
_TIME = {"units": "seconds since 1970-01-01", "calendar": "proleptic_gregorian"}  # of kind M


class TableStore:
    """A table of results that is created empty, then filled part by part.

    ``results.zarr`` holds the numbers, ``done/`` an empty file for each part that is complete.

    Parameters
    ----------
    uri
        Folder that the study owns, a local path or fsspec URL.
    form
        Attribute ``format`` of the table.
    create
        Creates the empty table at an address.
    """

    def __init__(self, uri: str, form: str, create: Callable[[str], None]) -> None:
        self.uri = uri.rstrip("/")
        place = f"{self.uri}/results.zarr"
        if not is_table(place, form):
            with staged(place, force=True) as staging:
                create(staging)
        # A part is said to be done only when its numbers are sure to be there.
        self._group = zarr.open_group(files.open_store(place, "r+", durable=True), mode="r+")

    def done(self) -> set[str]:
        """Return the names of all that is there in full."""
        return set(files.list_names(f"{self.uri}/done"))

    def finish(self) -> None:
        """Say that all is there."""
        self._group.attrs["complete"] = True

    def _say_done(self, name: str) -> None:
        files.put(f"{self.uri}/done/{name}", b"")

    def _array(self, name: str) -> zarr.Array[Any]:
        array = self._group[name]
        assert isinstance(array, zarr.Array)
        return array


def create_table(
    uri: str,
    variables: Mapping[str, Variable],
    columns: Mapping[str, Sequence[Any]],
    chunks: Mapping[str, int],
    attributes: Mapping[str, Any],
) -> None:
    """Create the arrays of ``variables`` at ``uri``; floats are NaN until they are written.

    Parameters
    ----------
    uri
        Where nothing is yet.
    variables
        What there will be.
    columns
        The values that are known: of each dimension, which tell its size, and perhaps of others.
        Times are in seconds since 1970-01-01.
    chunks
        Chunk size of dimensions, 1 where none is given; the dimensions' own values are one chunk.
    attributes
        Of the dataset.
    """
    group = files.create_group(uri)
    for name, variable in variables.items():
        shape = tuple(len(columns[dim]) for dim in variable.dims)
        whole = name in columns and not set(variable.dims) & set(chunks)
        pieces = tuple(max(1, min(chunks.get(dim, 1), len(columns[dim]))) for dim in variable.dims)
        array: zarr.Array[Any] = group.create_array(
            name,
            shape=shape,
            chunks=tuple(max(1, size) for size in shape) if whole else pieces,
            dtype=_DTYPES[variable.kinds],
            fill_value=np.nan if variable.kinds == "f" else None,
            dimension_names=variable.dims,
            attributes={
                "long_name": variable.long_name,
                **({"units": variable.units} if variable.units else {}),
                **(_TIME if variable.kinds == "M" else {}),
            },
        )
        if name in columns and len(columns[name]):
            array[:] = np.asarray(columns[name], dtype=array.dtype)
    group.attrs.put(dict(attributes))


def open_table(
    uri: str | Path, what: str, form: str, variables: Mapping[str, Variable]
) -> xr.Dataset:
    """Open a table that is complete, lazily.

    Parameters
    ----------
    uri
        Folder of a run, of what is below it under the name ``what``, or the store itself.
    what
        What it is, in a word.
    form
        Its attribute ``format``.
    variables
        What it must keep.

    Raises
    ------
    MissingError
        If there is none, or it is not complete.
    FormatError
        If what is there does not keep ``variables``.
    """
    uri = str(uri).rstrip("/")
    places = (f"{uri}/{what}/results.zarr", f"{uri}/results.zarr", uri)
    place = next((each for each in places if is_table(each, form)), None)
    if place is None:
        raise MissingError(f"{uri}: there are no results of a {what}")
    dataset = files.open_dataset(place)
    if not dataset.attrs.get("complete"):
        raise MissingError(f"{place}: this {what} has not finished; run it again to go on with it")
    return validate(dataset, variables)


def is_table(uri: str, form: str) -> bool:
    """Tell whether a store of that ``format`` is at ``uri``, complete or not."""
    if not files.exists(f"{uri}/zarr.json"):
        return False
    try:
        return bool(files.open_group(uri).attrs.get("format") == form)
    except FormatError:
        return False
