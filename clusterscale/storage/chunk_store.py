"""Zarr store, local or remote, that retries reads and writes after transient errors."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

from zarr.abc.store import Store
from zarr.storage import FsspecStore, LocalStore, WrapperStore

from clusterscale.storage.retries import attempt_async, to_write

__all__ = ["ChunkStore", "flush"]


class ChunkStore(WrapperStore):  # type: ignore[misc]
    """A Zarr store that retries transient errors; concurrency is that of the inner store.

    Parameters
    ----------
    store
        The inner store.
    uri
        Its address, for messages.
    durable
        Whether each chunk must survive a power failure, not only the end of this process: for
        stores that are written in parts, each relied on at once. Costs milliseconds per chunk on a
        local disk; other stores are durable in any case.

    Raises
    ------
    StoreError
        If a read or write fails permanently or after all retries.
    """

    def __init__(self, store: FsspecStore | LocalStore, uri: str, *, durable: bool = False) -> None:
        super().__init__(store)
        self._uri, self._durable = uri, durable and isinstance(store, LocalStore)

    def _with_store(self, store: FsspecStore | LocalStore) -> ChunkStore:
        return type(self)(store, self._uri, durable=self._durable)

    @property
    def _supports_sync_io(self) -> bool:
        """False: otherwise Zarr 3.2 and later read local files without the methods below."""
        return False

    def __str__(self) -> str:
        return self._uri

    async def get(self, key: str, *args: Any, **options: Any) -> Any:
        return await self._try(key, self._store.get, key, *args, **options)

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[Any]) -> Any:
        ranges = list(key_ranges)  # an iterator would be exhausted by a first attempt
        return await self._try("", self._store.get_partial_values, prototype, ranges)

    async def set(self, key: str, *args: Any, **options: Any) -> None:
        with to_write(f"{self._uri}/{key}"):
            await self._try(key, self._store.set, key, *args, **options)
        if self._durable:
            await self._try(key, asyncio.to_thread, _flush_chunk, self._store.root / key)

    async def set_if_not_exists(self, key: str, value: Any) -> None:
        await self._try(key, self._store.set_if_not_exists, key, value)

    async def delete(self, key: str) -> None:
        await self._try(key, self._store.delete, key)

    async def delete_dir(self, prefix: str) -> None:
        await self._try(prefix, self._store.delete_dir, prefix)

    async def clear(self) -> None:
        await self._try("", self._store.clear)

    async def exists(self, key: str) -> bool:
        present: bool = await self._try(key, self._store.exists, key)
        return present

    async def is_empty(self, prefix: str) -> bool:
        empty: bool = await self._try(prefix, self._store.is_empty, prefix)
        return empty

    async def getsize(self, key: str) -> int:
        size: int = await self._try(key, self._store.getsize, key)
        return size

    async def list(self) -> AsyncIterator[str]:
        for key in await self._try("", _listed, self._store.list):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        for key in await self._try(prefix, _listed, self._store.list_prefix, prefix):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        for name in await self._try(prefix, _listed, self._store.list_dir, prefix):
            yield name

    def get_ranges(self, *args: Any, **options: Any) -> Any:
        return Store.get_ranges(self, *args, **options)  # uses `get` of this class

    def _get_many(self, requests: Iterable[Any]) -> Any:
        return Store._get_many(self, requests)

    async def _set_many(self, values: Iterable[tuple[str, Any]]) -> None:
        await Store._set_many(self, values)

    async def _try(self, key: str, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return await attempt_async(f"{self._uri}/{key}".rstrip("/"), call, *args, **options)


async def _listed(call: Callable[..., AsyncIterator[str]], *args: str) -> list[str]:
    return [name async for name in call(*args)]


def flush(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_chunk(path: Path) -> None:
    flush(path)
    flush(path.parent)
