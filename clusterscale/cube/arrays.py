"""Zarr arrays with checked chunks: errors name the missing or damaged chunk."""

from collections.abc import Collection
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, Crc32cCodec

from clusterscale.errors import DamagedError, FormatError, StoreError

CHUNK = 1 << 20  # elements of the largest chunk, decoded in a few milliseconds

# Fill values that mark a missing chunk: no array of a cube contains them.
LOST_TEXT = "\uffff"  # a Unicode noncharacter
_LOST: dict[str, Any] = {"i": -1, "f": np.inf, "T": LOST_TEXT, "O": LOST_TEXT}


def open_array(group: zarr.Group, name: str, *, where: str) -> zarr.Array[Any]:
    """Return the array called ``name``.

    Raises DamagedError if there is none, or its metadata cannot be read.
    """
    try:
        array = group[name]
    except KeyError:
        raise DamagedError(f"{where}: array {name} is missing") from None
    except (DamagedError, MemoryError, StoreError):
        raise
    except Exception as error:
        raise DamagedError(f"{where}: the metadata of array {name} is damaged") from error
    if not isinstance(array, zarr.Array):
        raise DamagedError(f"{where}: {name} is a group, not an array")
    return array


def check_array(
    array: zarr.Array[Any], kinds: str, size: int, files: Collection[str], *, where: str
) -> None:
    """Check an array's metadata before anything is allocated for its values.

    ``kinds`` and ``size`` are the kinds of dtype that it may have and its number of values,
    ``files`` the paths of the files of the cube. Raises FormatError if it has an old format,
    which can contain pickled objects, and DamagedError if its shape, dtype or chunks are not
    those that a cube has.
    """
    name, chunk = array.basename, array.chunks[0] if array.chunks else 0
    if array.metadata.zarr_format != 3:
        raise FormatError(f"{where}: array {name} has an old Zarr format, not Zarr v3")
    if array.shape != (size,):
        raise DamagedError(f"{where}: array {name} has shape {array.shape}, not ({size},)")
    if array.dtype.kind not in kinds or not array.dtype.isnative:
        raise DamagedError(f"{where}: array {name} has the wrong dtype {array.dtype}")
    n_files = sum(path.startswith(f"{name}/c/") for path in files)
    if chunk > CHUNK or array.shards is not None or n_files != -(-size // chunk):
        raise DamagedError(
            f"{where}: array {name} has {n_files} chunks of {chunk:,} for {size:,} values"
        )


def new_array(
    group: zarr.Group, name: str, *, dtype: Any, chunk: int, dim: str, size: int = 0
) -> zarr.Array[Any]:
    """Create a one-dimensional, compressed array with a checksum in every chunk.

    The fill value is one that no array of a cube contains (−1, infinity, U+FFFF), which
    distinguishes a missing chunk from a stored one.
    """
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
        fill_value=_LOST["T" if kind is None else kind.kind],
        dimension_names=[dim],
        config={"write_empty_chunks": True},
    )


def read(array: zarr.Array[Any], start: int, stop: int, *, where: str) -> NDArray[Any]:
    """Return ``array[start:stop]``.

    Raises DamagedError, which names the chunk, if one is missing or corrupt, and StoreError if its
    bytes cannot be read.
    """
    try:
        values = np.asarray(array[start:stop])
    except (DamagedError, MemoryError, StoreError):
        raise
    except Exception as error:
        raise DamagedError(_locate_damage(array, start, stop, where)) from error
    if _has_lost(values):
        raise DamagedError(_locate_damage(array, start, stop, where))
    return values


def _has_lost(values: NDArray[Any]) -> bool:
    return values.dtype.kind in _LOST and bool((values == _LOST[values.dtype.kind]).any())


def _locate_damage(array: zarr.Array[Any], start: int, stop: int, where: str) -> str:
    size = array.chunks[0]
    for chunk in range(start // size, max(start, stop - 1) // size + 1):
        low, high = max(start, chunk * size), min(stop, (chunk + 1) * size)
        subject = f"{where}: chunk {chunk} of {array.basename}"
        try:
            values = np.asarray(array[low:high])
        except StoreError:
            raise
        except Exception:
            return f"{subject} is damaged: it cannot be decoded"
        if _has_lost(values):
            return f"{subject} is missing"
    return f"{where}: {array.basename} could not be read"


def refuse_pickles(group: zarr.Group, *, where: str) -> None:
    """Refuse arrays whose chunks would run code when decoded.

    Raises FormatError if there is such an array.
    """
    for name, array in group.arrays():
        codecs = [*array.filters, *array.compressors]
        for codec in codecs:
            config = codec.get_config() if hasattr(codec, "get_config") else codec.to_dict()
            kind = str(config.get("id", config.get("name")))
            if "pickle" in kind:
                raise FormatError(
                    f"{where}: array {name} is stored with the codec {kind}, which can run "
                    "arbitrary code from the data: write its values as numbers or text"
                )
