"""Read, write and remove files and folders, on a local path or any fsspec URL."""

import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
from fsspec.core import has_magic

from clusterscale.errors import ExistsError, FormatError, MissingError, StoreError
from clusterscale.storage.address import LARGEST, check_address, check_size, local_path, protocol_of
from clusterscale.storage.chunk_store import flush
from clusterscale.storage.connection import connect, is_remote
from clusterscale.storage.retries import retry, to_write

# One upload stores an object atomically; elsewhere a temporary file is written and moved.
_AT_ONCE = 16  # files written or removed at the same time
_OBJECT_STORES = {"abfs", "abfss", "az", "gcs", "gs", "memory", "oci", "oss", "s3", "s3a"}


def exists(uri: str) -> bool:
    """Return whether anything is stored at an address.

    Parameters
    ----------
    uri
        Local path or fsspec URL.

    Returns
    -------
    bool
        True for a file or a folder.

    Raises
    ------
    InputError
        As :func:`~clusterscale.storage.address.check_address`.
    PackageError
        If its file system is not installed.
    StoreError
        If the store cannot be read.
    """
    filesystem, path = connect(uri)
    filesystem.invalidate_cache()  # another process may have written since
    return bool(filesystem.exists(path))


def size(uri: str) -> int:
    """Return how much is stored at an address and below.

    Parameters
    ----------
    uri
        Local path or fsspec URL.

    Returns
    -------
    int
        Bytes.

    Raises
    ------
    InputError, PackageError, StoreError
        As :func:`exists`.
    """
    filesystem, path = connect(uri)
    return int(filesystem.du(path))


def list_names(uri: str) -> list[str]:
    """List the names in a folder.

    Parameters
    ----------
    uri
        Local path or fsspec URL.

    Returns
    -------
    list[str]
        Sorted; empty if there is no such folder.

    Raises
    ------
    InputError, PackageError, StoreError
        As :func:`exists`.
    """
    filesystem, path = connect(uri)
    filesystem.invalidate_cache()
    try:
        return sorted(Path(str(name)).name for name in filesystem.ls(path, detail=False))
    except FileNotFoundError:
        return []


def read(uri: str, *, most: int | None = LARGEST) -> bytes:
    """Read one file.

    Parameters
    ----------
    uri
        Local path or URL.
    most
        Largest size in bytes, by default 2 GiB; None for a file of this package, whose size is not
        asked for.

    Returns
    -------
    bytes
        All of it.

    Raises
    ------
    FileNotFoundError
        If there is none.
    FormatError
        If it is larger, or a folder.
    StoreError
        If it cannot be read.
    """
    filesystem, path = connect(uri)
    filesystem.invalidate_cache()  # another process may have written since
    if most is None:
        return bytes(filesystem.cat_file(path))
    about = filesystem.info(path)
    if about.get("type") == "directory":
        raise FormatError(f"{uri} is a folder, not a file")
    size = about["size"]
    if size is None:
        raise StoreError(f"{uri}: its store does not say how large it is, so it is not read")
    check_size(size, uri, most)
    return bytes(filesystem.cat_file(path))


def open_file(
    uri: str, mode: str = "rb", *, compression: str | None = None
) -> fsspec.core.OpenFile:
    """Return one file, which a ``with`` statement opens as a stream of bytes.

    Parameters
    ----------
    uri
        Local path or URL.
    mode
        ``rb`` or ``wb``.
    compression
        Name of a compression, ``infer`` to choose it by the ending, or None.

    Returns
    -------
    fsspec.core.OpenFile
        Not yet opened.

    Raises
    ------
    InputError
        As :func:`~clusterscale.storage.address.check_address`.
    """
    return fsspec.open(check_address(uri), mode, compression=compression, expand=False)


def read_file(uri: str) -> bytes:
    """Return the bytes of a file that a user named.

    Parameters
    ----------
    uri
        Local path or fsspec URL.

    Returns
    -------
    bytes
        All of it.

    Raises
    ------
    MissingError
        If there is no such file.
    FormatError
        If it is a folder.
    StoreError
        If it cannot be read.
    """
    try:
        return read(uri)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingError(f"{uri}: there is no such file") from None


def put(uri: str, content: bytes) -> None:
    """Store one file atomically; when this returns, it survives a crash of process or machine.

    Its folder is created if needed. An existing file is replaced, and stays until then.

    Parameters
    ----------
    uri
        Local path or fsspec URL.
    content
        Bytes of the file.

    Raises
    ------
    StoreError
        If it cannot be written; the message says if the store is full.
    """
    check_address(uri)
    with to_write(uri):
        if not is_remote(uri):
            retry(uri, _put_locally, local_path(uri), content)
            return
        filesystem, path = connect(uri)
        if protocol_of(uri) in _OBJECT_STORES:
            filesystem.pipe_file(path, content)
        else:
            _put_aside(filesystem, path, content)


def put_new(uri: str, content: bytes) -> bool:
    """Store one file atomically if there is none yet.

    Of several processes that try at the same time, one succeeds: a file system creates only one
    link of a name, an object store accepts only one upload with "if none match".

    Parameters
    ----------
    uri
        Local path or fsspec URL.
    content
        Bytes of the file.

    Returns
    -------
    bool
        Whether it was stored.

    Raises
    ------
    ExistsError
        If the address is a symbolic link to nothing.
    StoreError
        If it cannot be written, or the store cannot create files exclusively.
    """
    check_address(uri)
    if is_remote(uri) and protocol_of(uri) not in _OBJECT_STORES:
        raise StoreError(f"{uri}: this store cannot create a file exclusively")
    with to_write(uri):
        try:
            if is_remote(uri):
                filesystem, path = connect(uri)
                filesystem.pipe_file(path, content, mode="create")
            else:
                retry(uri, _put_locally, local_path(uri), content, new=True)
        except FileExistsError:
            refuse_broken_link(uri)
            return False
    return True


def refuse_broken_link(uri: str) -> None:
    """Raise :class:`ExistsError` if a local address is a symbolic link to nothing."""
    if not is_remote(uri) and (path := local_path(uri)).is_symlink() and not path.exists():
        raise ExistsError(f"{uri} is a symbolic link to nothing: remove the link")


def _put_aside(filesystem: Any, path: str, content: bytes) -> None:
    aside = _aside(path)
    filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    try:
        filesystem.pipe_file(aside, content)
        filesystem.mv(aside, path)
    except BaseException:
        with suppress(FileNotFoundError, StoreError):
            filesystem.rm_file(aside)
        raise


def _put_locally(path: Path, content: bytes, *, new: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(_aside(str(path)))
    try:
        _write(aside, content)
        if new:
            path.hardlink_to(aside)  # fails if the file exists, unlike replace
        else:
            aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    flush(path.parent)


def _write(path: Path, content: bytes) -> None:
    """Write a file so that it survives a crash of the machine."""
    with path.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _aside(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.{uuid.uuid4().hex}.partial"


def put_new_folder(uri: str, files: Mapping[str, bytes], *, last: str) -> bool:
    """Store the files of a folder at once, if there is no such folder yet.

    On a local disk a folder is written beside it, ``.<name>.<random>.partial``, and renamed, which
    fails if the name is taken. Elsewhere the files are written one by one, and ``last`` exclusively
    at the end: without it, nobody can open the folder.

    Parameters
    ----------
    uri
        Local path or fsspec URL.
    files
        Content of each file, by its path in the folder.
    last
        The file that makes the others readable, such as the metadata of the root of a Zarr store.

    Returns
    -------
    bool
        Whether it was stored.

    Raises
    ------
    StoreError
        If it cannot be written, or the store cannot create files exclusively.
    """
    check_address(uri)
    if not is_remote(uri):
        with to_write(uri):
            return _put_folder_locally(local_path(uri), files)
    inside = {f"{uri}/{path}": content for path, content in files.items()}
    return put_new_files(inside, last=f"{uri}/{last}")


def put_new_files(files: Mapping[str, bytes], *, last: str) -> bool:
    """Store files that belong together, ``last`` at the end, if none of them is there yet.

    Each is created exclusively. Another process may have taken the first ones for what an
    interrupted run has left, and have removed them; so they are checked after ``last`` is stored.

    Parameters
    ----------
    files
        Content of each file, by its address.
    last
        The address of the one without which the others are not read.

    Returns
    -------
    bool
        Whether they were stored.

    Raises
    ------
    ExistsError
        If an address is a symbolic link to nothing.
    StoreError
        If they cannot be written, or the store cannot create files exclusively.
    """
    others = sorted(files.keys() - {last})
    if not all(put_new(uri, files[uri]) for uri in [*others, last]):
        return False
    for uri in others:
        try:
            intact = read(uri) == files[uri]
        except FileNotFoundError:
            intact = False
        if not intact:
            put(uri, files[uri])
    return True


def _put_folder_locally(target: Path, files: Mapping[str, bytes]) -> bool:
    aside = Path(_aside(str(target)))
    try:
        for path, content in files.items():
            (aside / path).parent.mkdir(parents=True, exist_ok=True)
            _write(aside / path, content)
        for folder in {(aside / path).parent for path in files}:
            flush(folder)
        refuse_broken_link(str(target))
        if target.exists():  # a rename replaces an empty folder
            return False
        try:
            aside.rename(target)
        except OSError as error:
            if target.exists():
                return False
            raise StoreError(f"{target}: {error.strerror}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    flush(target.parent)
    return True


def remove(uri: str) -> None:
    """Remove a store and everything below it, if it exists.

    Parameters
    ----------
    uri
        Local path or fsspec URL.

    Raises
    ------
    InputError, PackageError, StoreError
        As :func:`exists`.
    """
    filesystem, path = connect(uri)
    filesystem.invalidate_cache()
    if filesystem.exists(path):
        with suppress(FileNotFoundError):  # an attempt that failed may have removed the rest
            filesystem.rm(path, recursive=True)


def put_all(uri: str, content: Mapping[str, bytes]) -> None:
    """Store files of a folder, some at the same time; they do not survive a crash of the machine.

    Parameters
    ----------
    uri
        Folder, a local path or fsspec URL.
    content
        Bytes of each file, by its path in the folder.

    Raises
    ------
    StoreError
        If one cannot be written; the message says if the store is full.
    """
    filesystem, root = connect(uri)

    def put_one(path: str) -> None:
        filesystem.pipe_file(f"{root}/{path}", content[path])

    with to_write(uri), ThreadPoolExecutor(_AT_ONCE) as pool:
        if protocol_of(uri) not in _OBJECT_STORES:
            for folder in {f"{root}/{path}".rpartition("/")[0] for path in content}:
                filesystem.makedirs(folder, exist_ok=True)
        list(pool.map(put_one, content))


def remove_files(uris: Iterable[str]) -> None:
    """Remove files of one store; it does not matter if some are not there.

    An object store is asked once for many.

    Parameters
    ----------
    uris
        Local paths or fsspec URLs.

    Raises
    ------
    InputError, PackageError, StoreError
        As :func:`exists`.
    """
    wanted = list(uris)
    if not wanted:
        return
    filesystem, _ = connect(wanted[0])
    paths = [connect(uri)[1] for uri in wanted]
    if protocol_of(wanted[0]) in _OBJECT_STORES and not any(map(has_magic, paths)):
        with suppress(FileNotFoundError):
            filesystem.rm(paths)
            return

    def remove_one(path: str) -> None:
        with suppress(FileNotFoundError):
            filesystem.rm_file(path)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(remove_one, paths))
