"""Store a whole folder atomically, if there is none yet."""

import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

from clusterscale.errors import StoreError
from clusterscale.storage.address import check_address, local_path
from clusterscale.storage.chunk_store import flush
from clusterscale.storage.connection import is_remote
from clusterscale.storage.files import put, put_new, read, refuse_broken_link
from clusterscale.storage.retries import to_write


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
            return _put_locally(local_path(uri), files)
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


def _put_locally(target: Path, files: Mapping[str, bytes]) -> bool:
    aside = target.with_name(f".{target.name}.{uuid.uuid4().hex}.partial")
    try:
        for path, content in files.items():
            file = aside / path
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
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
