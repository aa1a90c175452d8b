"""Zarr arrays of cubes, whose chunks the store checks: errors name the missing or damaged one."""

from collections.abc import Collection
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, Crc32cCodec

from clusterscale.errors import DamagedError, FormatError
from clusterscale.storage.groups import errors_as

CHUNK = 1 << 20  # elements of the largest chunk, decoded in a few milliseconds


def open_array(group: zarr.Group, name: str, *, where: str) -> zarr.Array[Any]:
    """Return the array called ``name``.

    Raises DamagedError if there is none, or its metadata cannot be read.
    """
    with errors_as(DamagedError, f"{where}: the metadata of array {name} is damaged"):
        try:
            array = group[name]
        except KeyError:
            raise DamagedError(f"{where}: array {name} is missing") from None
    if not isinstance(array, zarr.Array):
        raise DamagedError(f"{where}: {name} is a group, not an array")
    return array


def check_array(
    array: zarr.Array[Any], kinds: str, size: int, files: Collection[str], *, where: str
) -> None:
    """Check an array's metadata before anything is allocated for its values.

    ``kinds`` and ``size`` are the kinds of dtype that it may have and its number of values,
    ``files`` the paths of the files of the cube, which include those of all chunks: so a chunk
    that is not there when it is read is one that was lost. Raises FormatError if it has an old
    format, which can contain pickled objects, and DamagedError if its shape, dtype or chunks are
    not those that a cube has.
    """
    name, chunk = array.basename, array.chunks[0] if array.chunks else 0
    if array.metadata.zarr_format != 3:
        raise FormatError(f"{where}: array {name} has an old Zarr format, not Zarr v3")
    if array.shape != (size,):
        raise DamagedError(f"{where}: array {name} has shape {array.shape}, not ({size},)")
    if array.dtype.kind not in kinds or not array.dtype.isnative:
        raise DamagedError(f"{where}: array {name} has the wrong dtype {array.dtype}")
    stored = {path for path in files if path.startswith(f"{name}/c/")}
    n_chunks, key = -(-size // chunk), array.metadata.encode_chunk_key
    fits = chunk <= CHUNK and array.shards is None and len(stored) == n_chunks
    if not fits or any(f"{name}/{key((i,))}" not in stored for i in range(n_chunks)):
        raise DamagedError(
            f"{where}: array {name} has {len(stored)} chunks of {chunk:,} for {size:,} values"
        )


def new_array(
    group: zarr.Group, name: str, *, dtype: Any, chunk: int, dim: str, size: int
) -> zarr.Array[Any]:
    """Create a one-dimensional, compressed array with a checksum in every chunk."""
    kind = np.dtype(dtype) if dtype is not str else None
    compressor = BloscCodec(
        cname="zstd",
        clevel=3,
        shuffle="bitshuffle" if kind is not None else "noshuffle",
        typesize=kind.itemsize if kind is not None else 1,
    )
    return group.create_array(
        name,
        shape=(size,),
        dtype=dtype,
        chunks=(chunk,),
        compressors=[compressor, Crc32cCodec()],
        dimension_names=[dim],
        config={"write_empty_chunks": True},
    )


def read(array: zarr.Array[Any], start: int, stop: int, *, where: str) -> NDArray[Any]:
    """Return ``array[start:stop]``.

    Raises DamagedError, which names the chunk, if one is missing or not what was written, and
    StoreError if its bytes cannot be read.
    """
    which = f"values {start:,} to {stop:,} of {array.basename}"
    with errors_as(DamagedError, f"{where}: {which} cannot be decoded"):
        return np.asarray(array[start:stop])


def refuse_pickles(group: zarr.Group, *, where: str) -> None:
    """Refuse arrays whose chunks would run code when decoded.

    Raises FormatError if there is such an array.
    """
    for name, array in group.arrays():
        for codec in [*array.filters, *array.compressors]:
            config = codec.get_config() if hasattr(codec, "get_config") else codec.to_dict()
            kind = str(config.get("id", config.get("name")))
            if "pickle" in kind:
                raise FormatError(
                    f"{where}: array {name} is stored with the codec {kind}, which can run "
                    "arbitrary code from the data: write its values as numbers or text"
                )
