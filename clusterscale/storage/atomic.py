"""Publish stores atomically, on a local path or any fsspec URL.

A store is built at a staging address ``<address>.partial-<random>`` and published when complete. A
process killed at any point leaves the old store, the new one, or nothing that opens at the address,
and never loses the old store before the new one is complete:

- On a local disk the old store is renamed to ``….partial-<random>.old``, the new one renamed to
  the address, and only then the old one removed. If the process is killed between the renames, the
  error on opening names the old store's path.
- Elsewhere the new store is copied from the staging address, its root metadata last. If that
  fails, the staging copy, which is complete, is kept.

Other processes never remove a staging copy that a killed process left, because they cannot know
whether it is still being written. Delete a ``….partial-…`` without a running writer by hand.
"""

import shutil
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from clusterscale.errors import ExistsError, StoreError
from clusterscale.phrases import option
from clusterscale.storage.address import check_address, local_path
from clusterscale.storage.chunk_store import abandon, reclaim
from clusterscale.storage.connection import connect, is_remote
from clusterscale.storage.files import exists, put, put_new_folder, remove

_ROOT = "zarr.json"


@contextmanager
def staged(uri: str, *, force: bool, sealed: bool = False) -> Iterator[str]:
    """Yield an address to build a store at; publish it at ``uri`` unless the block raises.

    A ``sealed`` store is not read before its manifest is written, so where a rename is a copy and
    nothing is stored at ``uri``, it is built there directly.

    Raises
    ------
    ExistsError
        If something is stored at ``uri`` and ``force`` is not set, or if it is not a Zarr store,
        which is not replaced even with ``force``.
    """
    uri = uri.rstrip("/")
    check_address(uri)
    if not is_remote(uri):  # keep a symbolic link, replace its target
        uri = str(local_path(uri).resolve())
        Path(uri).parent.mkdir(parents=True, exist_ok=True)
    _check_free(uri, force=force)
    in_place = sealed and is_remote(uri) and not exists(uri)
    staging = uri if in_place else f"{uri}.partial-{uuid.uuid4().hex[:8]}"
    reclaim(uri)
    try:
        yield staging
        if in_place:
            return
        _check_free(uri, force=force)  # another process may have published first
    except BaseException:
        abandon(staging)
        with suppress(StoreError):  # it must not replace the error, or the exit code of a signal
            remove(staging)
        raise
    if is_remote(uri):
        _publish_by_copy(staging, uri)
    else:
        _publish_by_rename(Path(staging), Path(uri))


def put_folder(uri: str, files: Mapping[str, bytes], *, last: str) -> None:
    """Store the files of a folder in place of all that is in it, ``last`` at the end.

    A local folder is written beside it and renamed; elsewhere, what is there is removed before.
    """
    if is_remote(uri):
        remove(uri)
        for name in [*(files.keys() - {last}), last]:
            put(f"{uri}/{name}", files[name])
        return
    target = local_path(uri).resolve()  # keep a symbolic link, replace its target
    staging = f"{target}.partial-{uuid.uuid4().hex[:8]}"
    put_new_folder(staging, files, last=last)
    _publish_by_rename(Path(staging), target)


def _check_free(uri: str, *, force: bool) -> None:
    if not exists(uri):
        return
    if not force:
        raise ExistsError(
            f"{uri} already exists: choose another address, or overwrite it with "
            f"{option('force', 'True')}"
        )
    filesystem, path = connect(uri)
    is_empty_folder = filesystem.isdir(path) and not filesystem.ls(path)
    if not is_empty_folder and not filesystem.exists(f"{path}/{_ROOT}"):
        raise ExistsError(
            f"{uri} is not a Zarr store, so it is not overwritten even with "
            f"{option('force', 'True')}: choose another address, or remove it yourself"
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
    names = {path[len(source) :].lstrip("/") for path in filesystem.find(source)}
    try:
        # Until the real root metadata is copied, readers find a group that is not a cube.
        filesystem.pipe_file(root, b'{"zarr_format": 3, "node_type": "group", "attributes": {}}')
        filesystem.invalidate_cache()
        if old := [path for path in filesystem.find(target) if path != root]:
            filesystem.rm(old)
        # 16: concurrent copies
        with ThreadPoolExecutor(16) as pool:  # file by file, so that each is retried alone
            inner = sorted(names - {_ROOT})
            froms, tos = ([f"{base}/{name}" for name in inner] for base in (source, target))
            list(pool.map(filesystem.cp_file, froms, tos))
        filesystem.cp_file(f"{source}/{_ROOT}", root)
    except BaseException as error:
        error.add_note(f"{uri} was not written completely; the new store is complete in {staging}")
        raise
    finally:
        filesystem.invalidate_cache()
    remove(staging)
