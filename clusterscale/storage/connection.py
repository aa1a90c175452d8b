"""Addresses, local or remote, and what answers there: tried again while failing passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import fsspec
from zarr.storage import FsspecStore, LocalStore

from clusterscale.errors import InputError, PackageError
from clusterscale.redaction import check_url
from clusterscale.storage.chunk_store import ChunkStore
from clusterscale.storage.retries import retry

__all__ = ["absolute", "connect", "is_remote", "local_path", "open_store"]

_S3 = ("s3", "s3a")


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
    """Return the file system of ``uri``, which tries again what fails in passing, and the path.

    Raises
    ------
    InputError
        If the scheme of ``uri`` is not known, or credentials are in it.
    PackageError
        If its file system is not installed.
    """
    check_url(uri)
    with _known_scheme(uri):
        filesystem, path = fsspec.core.url_to_fs(uri, **_options(uri))
    return _Patient(_once(filesystem, uri), uri), path


def open_store(uri: str, mode: Literal["r", "r+"] = "r", *, durable: bool = False) -> ChunkStore:
    """Return the bytes at ``uri`` as Zarr wants them; errors are those of :func:`connect`.

    Parameters
    ----------
    uri
        Local path or fsspec URL.
    mode
        ``r`` to read, ``r+`` to write too.
    durable
        See :class:`~clusterscale.storage.chunk_store.ChunkStore`.
    """
    check_url(uri)
    read_only = mode == "r"
    if not is_remote(uri):
        return ChunkStore(LocalStore(local_path(uri), read_only=read_only), uri, durable=durable)
    with _known_scheme(uri):
        store = FsspecStore.from_url(uri, storage_options=_options(uri), read_only=read_only)
    _once(store.fs, uri)
    return ChunkStore(store, uri)


@contextmanager
def _known_scheme(uri: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        scheme = urlsplit(uri).scheme
        raise PackageError(
            f"{uri}: no file system for {scheme}:// is installed ({error}); "
            "for s3:// install clusterscale[s3]"
        ) from None
    except ValueError as error:
        raise InputError(f"{uri}: {error}") from None


def _options(uri: str) -> dict[str, Any]:
    """Return how to open ``uri``.

    botocore must not try again what is tried again here. One transfer at a time for each object
    spares a question for its size before each read: chunks are small, and many are under way.
    """
    scheme = urlsplit(uri).scheme
    if scheme not in _S3:
        return {}
    known = fsspec.config.conf.get(scheme, {}).get("config_kwargs", {})
    once = {"retries": {"total_max_attempts": 1}}
    return {
        "config_kwargs": {**known, **once},
        "max_concurrency": 1,
        "use_listings_cache": False,
    }


def _once(filesystem: Any, uri: str) -> Any:
    """Keep s3fs from trying again what is tried again here."""
    if urlsplit(uri).scheme in _S3:
        filesystem.retries = 1  # of an instance that nobody else has, for its options differ
    return filesystem


class _Patient:
    """A file system of fsspec whose every call is tried again while it fails in passing."""

    def __init__(self, filesystem: Any, uri: str) -> None:
        self._filesystem, self._uri = filesystem, uri

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._filesystem, name)
        return partial(retry, self._uri, found) if callable(found) else found

    def exists(self, path: str) -> bool:
        """Tell whether anything is there; fsspec's own takes any error for a no."""
        try:
            retry(self._uri, self._filesystem.info, path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True
