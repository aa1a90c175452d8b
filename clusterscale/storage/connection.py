"""Local paths and URLs, and their file systems and Zarr stores, which retry transient errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import fsspec
from zarr.storage import FsspecStore, LocalStore

from clusterscale.errors import InputError, PackageError
from clusterscale.storage.address import check_address, local_path, protocol_of
from clusterscale.storage.chunk_store import ChunkStore
from clusterscale.storage.retries import retry

_S3 = ("s3", "s3a")


def is_remote(uri: str) -> bool:
    """Return whether an address is a URL such as ``s3://bucket/cube``, not a local path.

    Parameters
    ----------
    uri
        Local path or fsspec URL.

    Returns
    -------
    bool
        False for ``file://`` as well.
    """
    return protocol_of(uri) != "file"


def absolute(uri: str) -> str:
    """Return an address that does not depend on the working directory.

    Parameters
    ----------
    uri
        Local path or fsspec URL.

    Returns
    -------
    str
        Absolute path; URLs are unchanged.
    """
    return uri if is_remote(uri) or uri.startswith("file://") else str(Path(uri).absolute())


def connect(uri: str) -> tuple[Any, str]:
    """Open the file system of an address.

    Parameters
    ----------
    uri
        Local path or fsspec URL.

    Returns
    -------
    tuple[Any, str]
        The fsspec file system, which retries transient errors, and the path in it.

    Raises
    ------
    InputError
        As :func:`~clusterscale.storage.address.check_address`.
    PackageError
        If its file system is not installed.
    """
    address = check_address(uri)
    with _known_scheme(uri):
        filesystem, path = fsspec.core.url_to_fs(address, **_options(uri))
    return _RetryingFileSystem(_disable_retries(filesystem, uri), uri), path


def open_store(uri: str, mode: Literal["r", "r+"] = "r", *, durable: bool = False) -> ChunkStore:
    """Open the Zarr store at an address.

    Parameters
    ----------
    uri
        Local path or fsspec URL.
    mode
        ``r`` for reading, ``r+`` for reading and writing.
    durable
        See :class:`~clusterscale.storage.chunk_store.ChunkStore`.

    Returns
    -------
    ChunkStore
        Retries transient errors.

    Raises
    ------
    InputError, PackageError
        As :func:`connect`.
    """
    address, read_only = check_address(uri), mode == "r"
    if not is_remote(uri):
        local = LocalStore(local_path(address), read_only=read_only)
        return ChunkStore(local, uri, durable=durable)
    with _known_scheme(uri):
        store = FsspecStore.from_url(uri, storage_options=_options(uri), read_only=read_only)
    _disable_retries(store.fs, uri)
    return ChunkStore(store, uri, durable=durable)


@contextmanager
def _known_scheme(uri: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        scheme = protocol_of(uri)
        raise PackageError(
            f"{uri}: no file system for {scheme}:// is installed ({error}); "
            "for s3:// install clusterscale[s3]"
        ) from None
    except ValueError as error:
        raise InputError(f"{uri}: {error}") from None


def _options(uri: str) -> dict[str, Any]:
    """Return the fsspec options for ``uri``.

    botocore must not retry, because retries are made here. One transfer at a time per object saves
    a request for its size before each read: chunks are small, and many are read concurrently.
    """
    scheme = protocol_of(uri)
    if scheme not in _S3:
        return {}
    known = fsspec.config.conf.get(scheme, {}).get("config_kwargs", {})
    once = {"retries": {"total_max_attempts": 1}}
    return {"config_kwargs": {**known, **once}, "max_concurrency": 1, "use_listings_cache": False}


def _disable_retries(filesystem: Any, uri: str) -> Any:
    """Disable the retries of s3fs, because retries are made here."""
    if protocol_of(uri) in _S3:
        filesystem.retries = 1  # safe: no other code has this instance, since its options differ
    return filesystem


class _RetryingFileSystem:
    """An fsspec file system that retries every call after a transient error."""

    def __init__(self, filesystem: Any, uri: str) -> None:
        self._filesystem, self._uri = filesystem, uri

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        attribute = getattr(self._filesystem, name)
        return partial(retry, self._uri, attribute) if callable(attribute) else attribute

    def exists(self, path: str) -> bool:
        """Return whether anything is there; fsspec's own method treats any error as absence."""
        try:
            retry(self._uri, self._filesystem.info, path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True
