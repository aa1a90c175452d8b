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
import zarr

from clusterscale import errors
from clusterscale.errors import ExistsError, FormatError, MissingError

__all__ = ["absolute", "connect", "exists", "is_remote", "local_path", "open_group", "remove"]
__all__ += ["size", "staged"]

_ROOT = "zarr.json"
_BARE_ROOT = b'{"zarr_format": 3, "node_type": "group", "attributes": {}}'


def is_remote(uri: str) -> bool:
    """Tell a URL such as ``s3://bucket/cube`` from a local path."""
    return len(urlsplit(uri).scheme) > 1 and not uri.startswith("file://")


def local_path(uri: str) -> Path:
    """Return the path that a local ``uri`` names, with or without ``file://``."""
    return Path(uri.removeprefix("file://"))


def absolute(uri: str) -> str:
    """Return ``uri`` so that it means the same in any folder of this file system."""
    return uri if urlsplit(uri).scheme else str(Path(uri).absolute())


def connect(uri: str) -> tuple[Any, str]:
    """Return the fsspec file system of ``uri`` and the path in it.

    Raises
    ------
    InputError
        If the scheme of ``uri`` is not known.
    PackageError
        If its file system is not installed.
    """
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
    filesystem, path = connect(uri)
    filesystem.invalidate_cache()  # another process may have written since
    return bool(filesystem.exists(path))


def size(uri: str) -> int:
    """Return the bytes stored at ``uri`` and below."""
    filesystem, path = connect(uri)
    return int(filesystem.du(path))


def remove(uri: str) -> None:
    """Remove a store and all below it; nothing happens where there is none."""
    filesystem, path = connect(uri)
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
        uri = str(local_path(uri).resolve())
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
    filesystem, path = connect(uri)
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
    filesystem, source = connect(staging)
    _, target = connect(uri)
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
    path = local_path(uri)
    if is_remote(uri) or not path.parent.is_dir():
        return ""
    prefix = f"{path.name}.partial-"
    for old in sorted(path.parent.iterdir()):
        if old.name.startswith(prefix) and old.suffix == ".old":
            return f"; the store that was being replaced is whole in {old}: rename it back"
    return ""
