"""Bytes at rest: Zarr arrays with checksums, on a local path or any fsspec URL.

A store is built aside, in a staging place ``<address>.partial-<random>``, and published whole. A
process killed at any point leaves the old store, the new one or nothing that opens at the address,
and never loses the old before the new is whole:

- On a local disk the old store is renamed to ``….partial-<random>.old``, the new one renamed into
  its place, and only then the old one removed. After a kill between the two renames, opening says
  where the old store is.
- Elsewhere the new store is copied from the staging place, its root metadata last. If that fails
  the staging place, which is whole, is kept.

What a killed process left in a staging place is never removed by another one, which cannot know
that nobody writes there: ``….partial-…`` without a living writer can be deleted by hand.
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

from clusterscale import errors
from clusterscale.errors import DamagedError, ExistsError, FormatError, MissingError

__all__ = [
    "LOST_TEXT",
    "absolute",
    "exists",
    "is_remote",
    "new_array",
    "open_array",
    "open_group",
    "read",
]
__all__ += ["remove", "size", "staged"]

_ROOT = "zarr.json"
_BARE_ROOT = b'{"zarr_format": 3, "node_type": "group", "attributes": {}}'

# What stands for a chunk that was never written or is lost: values that no array of a cube holds.
LOST_TEXT = "\uffff"  # which Unicode promises never to make a character
_LOST: dict[str, Any] = {"i": -1, "f": np.inf, "T": LOST_TEXT, "O": LOST_TEXT}


def is_remote(uri: str) -> bool:
    """Tell a URL such as ``s3://bucket/cube`` from a local path."""
    return len(urlsplit(uri).scheme) > 1 and not uri.startswith("file://")


def absolute(uri: str) -> str:
    """Return ``uri`` so that it means the same in any folder of this file system."""
    return uri if urlsplit(uri).scheme else str(Path(uri).absolute())


def _filesystem(uri: str) -> tuple[Any, str]:
    try:
        return fsspec.core.url_to_fs(uri)  # type: ignore[no-any-return]
    except ImportError as error:
        scheme = urlsplit(uri).scheme
        raise errors.PackageError(
            f"{uri}: no file system for {scheme}:// is installed ({error}); "
            "for s3:// install clusterscale[s3]"
        ) from None
    except ValueError as error:
        raise errors.InputError(f"{uri}: {error}") from None


def exists(uri: str) -> bool:
    """Tell whether anything is stored at ``uri``.

    Raises
    ------
    InputError
        If the scheme of ``uri`` is not known.
    PackageError
        If its file system is not installed.
    """
    filesystem, path = _filesystem(uri)
    filesystem.invalidate_cache()  # another process may have written since
    return bool(filesystem.exists(path))


def size(uri: str) -> int:
    """Return the bytes stored at ``uri`` and below."""
    filesystem, path = _filesystem(uri)
    return int(filesystem.du(path))


def remove(uri: str) -> None:
    """Remove a store and all below it; nothing happens where there is none."""
    filesystem, path = _filesystem(uri)
    filesystem.invalidate_cache()
    if filesystem.exists(path):
        filesystem.rm(path, recursive=True)


@contextmanager
def staged(uri: str, *, force: bool) -> Iterator[str]:
    """Yield a place to build a store; publish it at ``uri`` if the block ends without an error.

    Raises
    ------
    ExistsError
        If something is stored at ``uri`` and ``force`` is not set, or it is no Zarr store and so
        not replaced even with ``force``.
    """
    uri = uri.rstrip("/")
    if not is_remote(uri):  # a link stays a link, its target is replaced
        uri = str(Path(uri.removeprefix("file://")).resolve())
        Path(uri).parent.mkdir(parents=True, exist_ok=True)
    _check_free(uri, force=force)
    staging = f"{uri}.partial-{uuid.uuid4().hex[:8]}"
    try:
        yield staging
        _check_free(uri, force=force)  # another process may have been faster
    except BaseException:
        remove(staging)
        raise
    if is_remote(uri):
        _publish_by_copy(staging, uri)
    else:
        _publish_by_rename(Path(staging), Path(uri))


def _check_free(uri: str, *, force: bool) -> None:
    if not exists(uri):
        return
    if not force:
        raise ExistsError(f"{uri} exists already: choose another place or overwrite it with force")
    filesystem, path = _filesystem(uri)
    is_empty_folder = filesystem.isdir(path) and not filesystem.ls(path)
    if not is_empty_folder and not filesystem.exists(f"{path}/{_ROOT}"):
        raise ExistsError(
            f"{uri} is no Zarr store, so it is not overwritten even with force: "
            "choose another place or remove it yourself"
        )


def _publish_by_rename(staging: Path, target: Path) -> None:
    aside = Path(f"{staging}.old")
    try:
        if target.exists():
            target.rename(aside)
        staging.rename(target)
    except BaseException:
        if aside.exists() and not target.exists():
            aside.rename(target)
        shutil.rmtree(staging, ignore_errors=True)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _publish_by_copy(staging: str, uri: str) -> None:
    filesystem, source = _filesystem(staging)
    _, target = _filesystem(uri)
    root = f"{target}/{_ROOT}"
    filesystem.invalidate_cache()
    names = {path[len(source) :].lstrip("/") for path in filesystem.find(source)} - {_ROOT}
    try:
        # From here until the true root is there, a reader finds a group that is no cube.
        filesystem.pipe_file(root, _BARE_ROOT)
        filesystem.invalidate_cache()
        if old := [path for path in filesystem.find(target) if path != root]:
            filesystem.rm(old)
        inner = sorted(names)
        filesystem.copy([f"{source}/{n}" for n in inner], [f"{target}/{n}" for n in inner])
        filesystem.copy([f"{source}/{_ROOT}"], [root])
    except BaseException as error:
        error.add_note(f"{uri} could not be written in full; the new store is whole in {staging}")
        raise
    finally:
        filesystem.invalidate_cache()
    remove(staging)


def open_group(uri: str) -> zarr.Group:
    """Open a Zarr group for reading.

    Raises
    ------
    MissingError
        If nothing is stored at ``uri``.
    FormatError
        If what is there is no Zarr group.
    """
    if not exists(uri):
        raise MissingError(f"{uri}: nothing is stored there{_tell_set_aside(uri)}")
    reason = None
    for version in (3, 2):  # one after the other: far away, a look at both costs twice
        try:
            return zarr.open_group(uri, mode="r", zarr_format=version)
        except MemoryError:
            raise
        except Exception as error:  # whatever the JSON holds, and Zarr makes of it
            reason = reason or error
    raise FormatError(f"{uri} is not a readable Zarr group") from reason


def _tell_set_aside(uri: str) -> str:
    """Say where the old store is, if a process was killed between the two renames."""
    path = Path(uri.removeprefix("file://"))
    if is_remote(uri) or not path.parent.is_dir():
        return ""
    prefix = f"{path.name}.partial-"
    for old in sorted(path.parent.iterdir()):
        if old.name.startswith(prefix) and old.suffix == ".old":
            return f"; the store that was being replaced is whole in {old}: rename it back"
    return ""


def open_array(group: zarr.Group, name: str, *, where: str) -> zarr.Array[Any]:
    """Return the array called ``name``.

    Raises
    ------
    DamagedError
        If there is none, or its metadata cannot be read.
    """
    try:
        array = group[name]
    except KeyError:
        raise DamagedError(f"{where}: array {name} is missing") from None
    except MemoryError:
        raise
    except Exception as error:
        raise DamagedError(f"{where}: the metadata of array {name} is damaged") from error
    if not isinstance(array, zarr.Array):
        raise DamagedError(f"{where}: {name} is a group, not an array")
    return array


def new_array(
    group: zarr.Group, name: str, *, dtype: Any, chunk: int, dim: str, size: int = 0
) -> zarr.Array[Any]:
    """Create a one-dimensional, compressed array whose every chunk carries a checksum.

    It is filled with a value that no array of a cube ever holds (−1, infinity, U+FFFF), so that
    a lost chunk is told from a stored one.
    """
    kind = np.dtype(dtype) if dtype is not str else None
    squeeze = BloscCodec(
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
        compressors=[squeeze, Crc32cCodec()],
        fill_value=_LOST["T" if kind is None else kind.kind],
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
    except MemoryError:
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
        except OSError as error:
            return f"{subject} cannot be read: {error}"
        except Exception:
            return f"{subject} is damaged: its bytes are not what was written"
        if _has_lost(values):
            return f"{subject} is missing"
    return f"{where}: {array.basename} could not be read"
