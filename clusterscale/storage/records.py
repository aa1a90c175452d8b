"""Records of finished tasks: files in a folder, each written atomically and read to resume."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Generic, TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import DamagedError, ExistsError, StoreError
from clusterscale.phrases import option
from clusterscale.storage import files
from clusterscale.storage.manifest import digest

T = TypeVar("T")
Parts = tuple[Any, Mapping[str, NDArray[Any]]]
"""Plain values, as JSON has them, and arrays by name."""

_ENDING = ".record"
_PLAIN = "plain"
_UNREADABLE = (BadZipFile, OSError, EOFError, LookupError, TypeError, ValueError)


class Records(Generic[T]):
    """Values in a folder, a file each, named by the digest of its content.

    If the driver dies, a file is complete or does not exist.

    Parameters
    ----------
    uri
        The folder, a local path or fsspec URL.
    encode, decode
        From a value to plain values and arrays, and back.

    """

    def __init__(
        self,
        uri: str,
        encode: Callable[[T], Parts],
        decode: Callable[[Any, Mapping[str, NDArray[Any]]], T],
    ) -> None:
        self._uri, self._encode, self._decode = uri.rstrip("/"), encode, decode

    @cached_property
    def paths(self) -> list[str]:
        """URIs of the files, in the order in which they were listed or written.

        Raises
        ------
        ExistsError
            If the folder has records of an older version.
        """
        names = [name for name in files.list_names(self._uri) if "partial" not in name]
        if old := [name for name in names if not name.endswith(_ENDING)]:
            raise ExistsError(
                f"{self._uri}/{old[0]} was written by an older version, which had not finished; "
                f"start again, in another {option('output')} or with {option('force', 'True')}"
            )
        return [f"{self._uri}/{name}" for name in names]

    def add(self, value: T) -> str:
        """Write a value to stable storage, and return the URI of its file."""
        plain, arrays = self._encode(value)
        content = io.BytesIO()
        text = np.frombuffer(json.dumps(plain).encode(), np.uint8)
        np.savez(content, **{_PLAIN: text}, **arrays)  # type: ignore[arg-type]
        raw = content.getvalue()
        paths, uri = self.paths, f"{self._uri}/{digest(raw)}{_ENDING}"
        files.put(uri, raw)
        paths.append(uri)
        return uri

    def read(self, path: str) -> T:
        """Return the value in a file; raise :class:`DamagedError`, which names it, if it cannot."""
        return _read(path, self._decode)

    def plain(self, path: str) -> Any:
        """Return the plain values in a file; errors as of :meth:`read`."""
        return _read(path, lambda plain, arrays: plain)

    def __iter__(self) -> Iterator[T]:
        """Yield all values."""
        return map(self.read, list(self.paths))


def _read(path: str, decode: Callable[[Any, Mapping[str, NDArray[Any]]], T]) -> T:
    try:
        raw = files.read(path)
        if path.rpartition("/")[2] != f"{digest(raw)}{_ENDING}":
            raise ValueError("it is not what was written")
        with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
            return decode(json.loads(arrays[_PLAIN].tobytes()), arrays)
    except StoreError:
        raise
    except _UNREADABLE as error:
        raise DamagedError(
            f"{path}: this entry of the journal cannot be read ({error}); "
            "remove it, and its tasks will run again"
        ) from error
