"""A Zarr store that retries transient errors, and checks and records digests of chunks.

No chunk is decoded to more bytes than its array declares, whoever wrote it.
"""

import asyncio
import lzma
import math
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import zarr
from zarr.abc.store import Store
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import register_pipeline
from zarr.storage import FsspecStore, LocalStore, WrapperStore

from clusterscale.errors import DamagedError, StoreError
from clusterscale.storage.address import LARGEST, check_file
from clusterscale.storage.retries import attempt_async, to_write

_LARGE = 1 << 16  # bytes from which a digest is worth a thread

_abandoned: set[str] = set()
_writing: Counter[str] = Counter()  # writes that have begun, by the address of the store


def abandon(uri: str) -> None:
    """Let the stores of this process below an address write no more, and wait until none writes.

    Zarr completes a write that is interrupted, in another thread.
    """
    _abandoned.add(uri)
    # 10.0: seconds to wait for writes that have begun
    latest = time.monotonic() + 10.0
    while any(n for at, n in list(_writing.items()) if at.startswith(uri)):
        if time.monotonic() > latest:
            return
        time.sleep(0.01)  # seconds between looks


def reclaim(uri: str) -> None:
    """Let stores of this process write at an address again that an earlier writer abandoned."""
    _abandoned.discard(uri)


def _retried(name: str) -> Callable[..., Any]:
    """Return a method that calls the one of the inner store, with retries."""

    async def method(self: "ChunkStore", *args: Any) -> Any:
        return await self._try(args[0] if args else "", getattr(self._store, name), *args)

    return method


_TEXT = 1024  # bytes of a text on average, which no array declares
_STATED = {"blosc": slice(4, 8), "lz4": slice(4)}  # where compressed bytes state their own size
_STREAMS = {"gzip": "gzip", "zlib": "gzip", "bz2": "bz2", "zstd": "zstd", "lzma": ""}


def decoded_size(codec: str, raw: bytes, most: int) -> int:
    """Return how many bytes compressed ones decode to, without decoding many more than ``most``."""
    if codec in _STATED:
        return int.from_bytes(raw[_STATED[codec]], "little")
    if codec == "lzma":
        return len(lzma.LZMADecompressor().decompress(raw, most + 1))
    return len(pa.CompressedInputStream(pa.BufferReader(raw), _STREAMS[codec]).read(most + 1))


class BoundedPipeline(BatchedCodecPipeline):  # type: ignore[misc]
    """The usual way to decode chunks; it refuses those that decode to more than they may."""

    async def decode_batch(self, chunks: Iterable[Any]) -> Any:
        """Decode chunks, each given with what its array declares."""
        chunks, last = list(chunks), self.array_bytes_codec
        old = *(getattr(last, "filters", None) or ()), getattr(last, "compressor", None)
        for chunk, spec in chunks:
            if chunk is not None:
                size = max(getattr(spec.dtype, "item_size", _TEXT), 8)
                most = size * math.prod(spec.shape) + (1 << 16)  # what filters and shards add
                raw, codecs = chunk.to_bytes(), (*old, *self.bytes_bytes_codecs)
                await asyncio.to_thread(_check_size, codecs, raw, most)
        return await super().decode_batch(chunks)


def _check_size(codecs: Iterable[Any], raw: bytes, most: int) -> None:
    """Raise ValueError if a chunk would decode to more than ``most`` bytes."""
    names = [getattr(one, "codec_id", None) or one.to_dict()["name"] for one in codecs if one]
    names = [str(name).removeprefix("numcodecs.") for name in names]
    compressed = [name for name in names if name in _STATED or name in _STREAMS]
    raw = raw[: len(raw) - 4 * (names[-1:] == ["crc32c"])]
    if len(compressed) > 1 or (compressed and decoded_size(compressed[0], raw, most) > most):
        raise ValueError(
            f"a chunk of {len(raw):,} bytes decodes to more than the {most:,} that its array "
            "declares, or is compressed twice"
        )


register_pipeline(BoundedPipeline)
zarr.config.set({"codec_pipeline.path": f"{__name__}.{BoundedPipeline.__name__}"})


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
        stores that are written in parts, each relied on at once. Costs milliseconds per chunk on
        a local disk; other stores are durable in any case.

    Raises
    ------
    StoreError
        If a read or write fails permanently or after all retries.
    """

    def __init__(self, store: FsspecStore | LocalStore, uri: str, *, durable: bool = False) -> None:
        super().__init__(store)
        self._uri, self._durable = uri, durable and isinstance(store, LocalStore)
        self.digests: dict[str, str] = {}
        """Digests of what was written, by key."""
        self.expected: dict[str, str] | None = None
        """Digests that what is read must have, by key; root metadata excepted. None: not known."""

    def _with_store(self, store: FsspecStore | LocalStore) -> "ChunkStore":
        other = type(self)(store, self._uri, durable=self._durable)
        other.digests, other.expected = self.digests, self.expected
        return other

    @property
    def _supports_sync_io(self) -> bool:
        """False: otherwise Zarr 3.2 and later read local files without the methods below."""
        return False

    def __str__(self) -> str:
        return self._uri

    async def get(self, key: str, *args: Any, **options: Any) -> Any:
        self._check(key)
        value = await self._try(key, self._store.get, key, *args, **options)
        if self.expected is not None and key != "zarr.json":  # not in its own list of digests
            check = partial(_check_digest, self._uri, key, value, self.expected.get(key))
            await asyncio.to_thread(check) if value is not None and len(value) > _LARGE else check()
        return value

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[Any]) -> Any:
        ranges = list(key_ranges)  # an iterator would be exhausted by a first attempt
        for key, _ in ranges:
            self._check(key)
        return await self._try("", self._store.get_partial_values, prototype, ranges)

    async def set(self, key: str, *args: Any, **options: Any) -> None:
        _writing[self._uri] += 1
        try:
            if any(self._uri.startswith(uri) for uri in _abandoned):
                raise StoreError(f"{self._uri} is no longer written: its writer was interrupted")
            await self._set(key, *args, **options)
        finally:
            _writing[self._uri] -= 1

    async def _set(self, key: str, *args: Any, **options: Any) -> None:
        with to_write(f"{self._uri}/{key}"):
            await self._try(key, self._store.set, key, *args, **options)
        value = args[0] if args else options["value"]
        self.digests[key] = blake2b(value.as_numpy_array(), digest_size=16).hexdigest()
        if self._durable:
            await self._try(key, asyncio.to_thread, _flush_chunk, self._store.root / key)

    set_if_not_exists, delete, delete_dir = map(
        _retried, ("set_if_not_exists", "delete", "delete_dir")
    )
    clear, exists, is_empty, getsize = map(_retried, ("clear", "exists", "is_empty", "getsize"))

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

    def _check(self, key: str) -> None:
        """Refuse a local key that is no regular file: a store may come from somebody else."""
        if isinstance(self._store, LocalStore):  # not in a thread, which costs more than the call
            check_file(self._store.root / key, f"{self._uri}/{key}", most=LARGEST)

    async def _try(self, key: str, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return await attempt_async(f"{self._uri}/{key}".rstrip("/"), call, *args, **options)


def _check_digest(uri: str, key: str, value: Any, wanted: str | None) -> None:
    """Raise :class:`DamagedError` unless a value is what was written."""
    array, is_chunk, chunk = key.partition("/c/")
    what = f"{uri}: chunk {chunk} of {array}" if is_chunk else f"{uri}/{key}"
    if value is None and wanted is not None:
        raise DamagedError(f"{what} is missing")
    if value is not None and wanted is None:
        raise DamagedError(f"{what} does not belong there")
    if value is not None and blake2b(value.as_numpy_array(), digest_size=16).hexdigest() != wanted:
        raise DamagedError(f"{what} is damaged: it is not the one that was written")


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
