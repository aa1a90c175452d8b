"""Journals of finished tasks: files in the folder of a study, each written atomically."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from clusterscale import storage
from clusterscale.errors import DamagedError, StoreError
from clusterscale.storage.manifest import digest

T = TypeVar("T")


class JournalFolder:
    """Files in a folder, each written atomically.

    Parameters
    ----------
    uri
        The folder, a local path or fsspec URL.
    """

    ending: ClassVar[str]
    """Ending of the names of the files, without the dot."""

    unreadable: ClassVar[tuple[type[Exception], ...]] = (
        OSError, KeyError, IndexError, TypeError, ValueError,
    )  # fmt: skip
    """Errors of decoding a damaged file."""

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")

    def put(self, raw: bytes) -> str:
        """Write ``raw`` to a file named by its digest, and return its URI.

        If the driver dies, the file is complete or does not exist.
        """
        uri = f"{self._uri}/{digest(raw)}.{self.ending}"
        storage.put(uri, raw)
        return uri

    def paths(self) -> list[str]:
        """Return the URIs of all files."""
        names = storage.list_names(self._uri)
        return [f"{self._uri}/{name}" for name in names if name.endswith(f".{self.ending}")]

    def decode(self, path: str, function: Callable[[bytes], T]) -> T:
        """Return what ``function`` reads in a file.

        Raises
        ------
        DamagedError
            If it cannot be read; names the file.
        """
        try:
            raw = storage.read(path)
            if path.rpartition("/")[2] != f"{digest(raw)}.{self.ending}":
                raise ValueError("it is not what was written")
            return function(raw)
        except StoreError:
            raise
        except self.unreadable as error:
            raise DamagedError(
                f"{path}: this entry of the journal cannot be read ({error}); "
                "remove it, and its tasks will run again"
            ) from error
