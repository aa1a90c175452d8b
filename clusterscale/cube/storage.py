"""Bytes at rest: Zarr arrays with checksums, on a local path or any fsspec URL.

A store is built aside, in a staging place, and published whole: renamed on a local disk, copied
with its root metadata last elsewhere. A process killed at any point leaves either the old store
or the new one, or nothing that opens.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fsspec
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, Crc32cCodec

from clusterscale.errors import DamagedError, ExistsError, FormatError, MissingError, PackageError

__all__ = ["exists", "is_remote", "new_array", "open_group", "read", "remove", "size", "staged"]

_ROOT = "zarr.json"


def is_remote(uri: str) -> bool:
    """Tell a URL such as ``s3://bucket/cube`` from a local path."""
    return len(urlsplit(uri).scheme) > 1 and not uri.startswith("file://")


def _filesystem(uri: str) -> tuple[Any, str]:
    try:
        return fsspec.core.url_to_fs(uri)  # type: ignore[no-any-return]
    except ImportError as error:
        scheme = urlsplit(uri).scheme
        raise PackageError(
            f"{uri}: no file system for {scheme}:// is installed ({error}); "
            "for s3:// install clusterscale[s3]"
        ) from None
    except ValueError as error:
        raise MissingError(f"{uri}: {error}") from None


def exists(uri: str) -> bool:
    """Tell whether anything is stored at ``uri``."""
    filesystem, path = _filesystem(uri)
    return bool(filesystem.exists(path))


def size(uri: str) -> int:
    """Return the bytes stored at ``uri`` and below."""
    filesystem, path = _filesystem(uri)
    return int(filesystem.du(path))


def remove(uri: str) -> None:
    """Remove a store and all below it; nothing happens where there is none."""
    filesystem, path = _filesystem(uri)
    if filesystem.exists(path):
        filesystem.rm(path, recursive=True)


@contextmanager
def staged(uri: str, *, force: bool) -> Iterator[str]:
    """Yield a place to build a store; publish it at ``uri`` if the block ends without an error.

    Raises
    ------
    ExistsError
        If something is stored at ``uri`` and ``force`` is not set.
    """
    uri = uri.rstrip("/")
    if not force and exists(uri):
        raise ExistsError(f"{uri} exists already: choose another place or overwrite it with force")
    staging = f"{uri}.partial-{uuid.uuid4().hex[:8]}"
    if not is_remote(uri):
        Path(uri).parent.mkdir(parents=True, exist_ok=True)
    try:
        yield staging
        _publish(staging, uri)
    finally:
        remove(staging)


def _publish(staging: str, uri: str) -> None:
    if is_remote(uri):
        _publish_by_copy(staging, uri)
        return
    old = Path(f"{staging}.old")
    if Path(uri).exists():
        Path(uri).rename(old)
    Path(staging).rename(uri)
    if old.is_dir():
        shutil.rmtree(old)
    else:
        old.unlink(missing_ok=True)


def _publish_by_copy(staging: str, uri: str) -> None:
    filesystem, source = _filesystem(staging)
    _, target = _filesystem(uri)
    if filesystem.exists(target):
        filesystem.rm(target, recursive=True)
    names = [path[len(source) :].lstrip("/") for path in filesystem.find(source)]
    # The root metadata last: until it is there, nothing opens.
    for name in sorted(names, key=lambda name: (name == _ROOT, name)):
        filesystem.cp_file(f"{source}/{name}", f"{target}/{name}")
    filesystem.invalidate_cache()


def open_group(uri: str) -> zarr.Group:
    """Open a Zarr v3 group for reading.

    Raises
    ------
    MissingError
        If nothing is stored at ``uri``.
    FormatError
        If what is there is no Zarr group.
    """
    if not exists(uri):
        raise MissingError(f"{uri}: nothing is stored there")
    try:
        return zarr.open_group(uri, mode="r")
    except (FileNotFoundError, KeyError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FormatError(f"{uri} is not a readable Zarr group: {reason}") from None


def new_array(
    group: zarr.Group, name: str, *, dtype: Any, chunk: int, dim: str, size: int = 0
) -> zarr.Array[Any]:
    """Create a one-dimensional, compressed array whose every chunk carries a checksum.

    Numbers are filled with −1 where no chunk was written, which no array of a cube ever holds, so
    that a lost chunk is told from a stored one.
    """
    kind = np.dtype(dtype) if dtype is not str else None
    squeeze = BloscCodec(
        cname="zstd",
        clevel=3,
        shuffle="bitshuffle" if kind is not None else "noshuffle",
        typesize=kind.itemsize if kind is not None else 1,
    )
    fill: Any = "" if kind is None else (np.nan if kind.kind == "f" else -1)
    return group.create_array(
        name,
        shape=(size,),
        dtype=dtype,
        chunks=(chunk,),
        compressors=[squeeze, Crc32cCodec()],
        fill_value=fill,
        dimension_names=[dim],
        config={"write_empty_chunks": True},
    )


def read(array: zarr.Array[Any], start: int, stop: int, *, where: str) -> NDArray[Any]:
    """Return ``array[start:stop]``.

    Raises
    ------
    DamagedError
        If a chunk is lost or its bytes are not those that were written; names the chunk.
    """
    try:
        values = np.asarray(array[start:stop])
    except Exception as error:
        raise DamagedError(_locate_damage(array, start, stop, where)) from error
    if values.dtype.kind in "iu" and values.size and int(values.min()) < 0:
        raise DamagedError(_locate_damage(array, start, stop, where))
    return values


def _locate_damage(array: zarr.Array[Any], start: int, stop: int, where: str) -> str:
    size = array.chunks[0]
    for chunk in range(start // size, max(start, stop - 1) // size + 1):
        low, high = max(start, chunk * size), min(stop, (chunk + 1) * size)
        prefix = f"{where}: chunk {chunk} of {array.basename} is damaged"
        try:
            values = np.asarray(array[low:high])
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            return f"{prefix}: {reason}"
        if values.dtype.kind in "iu" and values.size and int(values.min()) < 0:
            return f"{prefix}: it is missing"
    return f"{where}: {array.basename} could not be read"
