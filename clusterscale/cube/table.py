"""Datasets of results that are made empty and filled as results come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import zarr

from clusterscale.cube import storage
from clusterscale.schema import Variable

__all__ = ["create_table"]

_DTYPES: dict[str, Any] = {"f": np.float32, "iu": np.int64, "OUT": str}


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
    chunks
        Chunk size of dimensions, 1 where none is given; the dimensions' own values are one chunk.
    attributes
        Of the dataset.
    """
    group = storage.create_group(uri)
    for name, variable in variables.items():
        shape = tuple(len(columns[dim]) for dim in variable.dims)
        whole = name in columns and not set(variable.dims) & set(chunks)
        pieces = tuple(min(chunks.get(dim, 1), len(columns[dim])) for dim in variable.dims)
        array: zarr.Array[Any] = group.create_array(
            name,
            shape=shape,
            chunks=shape if whole else pieces,
            dtype=_DTYPES[variable.kinds],
            fill_value=np.nan if variable.kinds == "f" else None,
            dimension_names=variable.dims,
            attributes={
                "long_name": variable.long_name,
                **({"units": variable.units} if variable.units else {}),
            },
        )
        if name in columns:
            array[:] = np.asarray(columns[name], dtype=array.dtype)
    group.attrs.put(dict(attributes))
