"""Records of finished tasks: files in a folder, each written atomically and read to resume."""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from threading import Lock
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

MERGED = 1024
"""Most values in a file that small files are merged into."""

SMALL_FILES = 1000
"""Number of small files from which they are merged."""

_ENDING = ".record"
_PLAIN = "plain"
_READS = 16  # files at the same time
_DECODING = Lock()  # NumPy parses headers as Python, which fails in threads of CPython 3.11
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
    run
        Name of the run whose files these are, empty if its process alone writes them. Files of
        another run, whose workers may outlive it, are passed over.

    """

    def __init__(
        self,
        uri: str,
        encode: Callable[[T], Parts],
        decode: Callable[[Any, Mapping[str, NDArray[Any]]], T],
        run: str = "",
    ) -> None:
        self._uri, self._encode, self._decode = uri.rstrip("/"), encode, decode
        self._ending = f".{run}{_ENDING}" if run else _ENDING

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
        own = [name for name in names if name.partition(".")[2] == self._ending[1:]]
        return [f"{self._uri}/{name}" for name in own]

    def add(self, value: T) -> str:
        """Write a value to stable storage, and return the URI of its file."""
        self.paths.append(self.write(value))
        return self.paths[-1]

    def write(self, value: T) -> str:
        """Do as :meth:`add`, for another process, which knows the other files."""
        plain, arrays = self._encode(value)
        content = io.BytesIO()
        text = np.frombuffer(json.dumps(plain).encode(), np.uint8)
        np.savez(content, **{_PLAIN: text}, **arrays)  # type: ignore[arg-type]
        raw = content.getvalue()
        uri = f"{self._uri}/{digest(raw)}{self._ending}"
        files.put(uri, raw)
        return uri

    def read(self, path: str) -> T:
        """Return the value in a file; raise :class:`DamagedError`, which names it, if it cannot."""
        return _read(path, self._decode)

    def read_all(self, paths: Iterable[str]) -> Iterator[T]:
        """Yield the values in files, in their order, of which some are read at the same time."""
        return _read_all(paths, self._decode)

    def plain(self) -> Iterator[Any]:
        """Yield the plain values in all files; errors as of :meth:`read`."""
        return _read_all(self.paths, lambda plain, arrays: plain)

    def __iter__(self) -> Iterator[T]:
        """Yield all values."""
        return self.read_all(list(self.paths))


def _read_all(
    paths: Iterable[str], decode: Callable[[Any, Mapping[str, NDArray[Any]]], T]
) -> Iterator[T]:
    waiting = iter(paths)
    with ThreadPoolExecutor(_READS) as pool:
        while some := list(islice(waiting, _READS)):
            yield from pool.map(lambda path: _read(path, decode), some)


def _read(path: str, decode: Callable[[Any, Mapping[str, NDArray[Any]]], T]) -> T:
    try:
        raw = files.read(path, most=None)
        if path.rpartition("/")[2].partition(".")[0] != digest(raw):
            raise ValueError("it is not what was written")
        with _DECODING, np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
            return decode(json.loads(arrays[_PLAIN].tobytes()), arrays)
    except StoreError:
        raise
    except _UNREADABLE as error:
        raise DamagedError(
            f"{path}: this entry of the journal cannot be read ({error}); "
            "remove it, and its tasks will run again"
        ) from error
