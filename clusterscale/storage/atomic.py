"""Stores appear whole or not at all, on a local path or any fsspec URL.

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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from clusterscale.errors import ExistsError
from clusterscale.storage.files import connect, exists, is_remote, local_path, remove

__all__ = ["staged"]

_ROOT = "zarr.json"
_COPIES = 16  # under way at a time
_BARE_ROOT = b'{"zarr_format": 3, "node_type": "group", "attributes": {}}'


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
        raise ExistsError(
            f"{uri} exists already: choose another place, or overwrite it with `force=True`"
        )
    filesystem, path = connect(uri)
    is_empty_folder = filesystem.isdir(path) and not filesystem.ls(path)
    if not is_empty_folder and not filesystem.exists(f"{path}/{_ROOT}"):
        raise ExistsError(
            f"{uri} is no Zarr store, so it is not overwritten even with `force=True`: "
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
        with ThreadPoolExecutor(_COPIES) as pool:  # one by one, so that one is tried again alone
            froms, tos = ([f"{place}/{name}" for name in inner] for place in (source, target))
            list(pool.map(filesystem.cp_file, froms, tos))
        filesystem.cp_file(f"{source}/{_ROOT}", root)
    except BaseException as error:
        error.add_note(f"{uri} could not be written in full; the new store is whole in {staging}")
        raise
    finally:
        filesystem.invalidate_cache()
    remove(staging)
