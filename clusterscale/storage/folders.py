"""Store a whole folder atomically, if there is none yet."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

from clusterscale.errors import StoreError
from clusterscale.storage.address import check_address, local_path
from clusterscale.storage.chunk_store import flush
from clusterscale.storage.connection import is_remote
from clusterscale.storage.files import put, put_new
from clusterscale.storage.retries import to_write

__all__ = ["put_new_folder"]


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
    for path in sorted(files.keys() - {last}):
        put(f"{uri}/{path}", files[path])
    return put_new(f"{uri}/{last}", files[last])


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
