"""Files of a source, divided into pieces and grouped into packs for tasks."""

import errno
import io
import lzma
import posixpath
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatch
from typing import Any

from fsspec.utils import infer_compression

from clusterscale import storage
from clusterscale.errors import ClusterscaleError, MissingError, SourceError
from clusterscale.validation_messages import plural

_OF_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EROFS)
_LONGEST_LINE = 1 << 26  # bytes
_UNPACKED, _RATIO = 1 << 26, 200  # bytes that any file may be, and times its size, decompressed
BYTES_PER_ROW = 40  # a line of a typical CSV file of events; determines only task sizes


@dataclass(frozen=True, slots=True)
class File:
    """A file of the source: its URL, its name in messages and its size in bytes."""

    url: str
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of one file: bytes ``start`` up to ``stop``, or row groups in a Parquet file.

    ``size`` is the approximate size of the piece as text, in bytes.
    """

    file: File
    start: int
    stop: int
    size: int


Pack = tuple[Piece, ...]


def find(source: str, patterns: Sequence[str], *, kind: str) -> list[File]:
    """Return the file at ``source``, or those in the folder whose base names match ``patterns``.

    If ``source`` ends with a pattern, as in ``records/2026-*.csv``, they are those in that folder
    whose names match it. Other folders are searched recursively; names that begin with ``.`` or
    ``_`` are skipped, because Parquet writers use them for metadata. ``kind`` describes the files
    in messages.
    """
    folder, wanted = source, patterns
    is_pattern = not source.startswith("http") and {"*", "?"} & set(posixpath.basename(source))
    if is_pattern and not storage.exists(source):
        folder, wanted = posixpath.dirname(source) or ".", (posixpath.basename(source),)
    if not storage.exists(folder):
        raise MissingError(f"{source}: there is no such file or folder")
    filesystem, root = storage.connect(folder)
    if folder == source and not filesystem.isdir(root):
        return [File(_url(filesystem, root), source, int(filesystem.size(root)))]
    top, depth, files, names = folder.rstrip("/"), None if folder == source else 1, [], list[str]()
    for path, info in sorted(filesystem.find(root, maxdepth=depth, detail=True).items()):
        below = path[len(root.rstrip("/")) + 1 :]
        if any(part.startswith((".", "_")) for part in below.split("/")):
            continue
        names.append(posixpath.basename(path))
        if any(fnmatch(names[-1], pattern) for pattern in wanted):
            files.append(File(_url(filesystem, path), f"{top}/{below}", int(info["size"])))
    if not files and folder != source:
        # Names that are more than an ending may be ids of users.
        near = get_close_matches(wanted[0], names, 5, 0) if patterns[0].startswith("*") else []
        text = f"{source}: no file has such a name; its folder has {plural(len(names), 'file')}"
        raise MissingError(text + (f", such as {', '.join(near)}" if near else ""))
    if not files:
        raise SourceError(f"{source}: the folder contains no {kind}")
    return files


def _url(filesystem: Any, path: str) -> str:
    return str(filesystem.unstrip_protocol(path))


def folders_of(piece: Piece, uri: str) -> dict[str, str]:
    """Return the keys and values of the folders of a file, such as ``level=2``."""
    parts = (part.partition("=") for part in piece.file.name[len(uri) :].split("/")[:-1])
    return {key: value for key, mark, value in parts if mark}


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn any error of a library that reads a file into a :class:`SourceError` without data of it.

    Errors of the machine, such as a full disk or too many open files, stay what they are.
    """
    try:
        yield
    except (ClusterscaleError, MemoryError):
        raise
    except Exception as error:  # readers of formats raise many types on damaged files
        if isinstance(error, OSError) and error.errno in _OF_MACHINE:
            raise
        raise SourceError(f"{name} cannot be read: {type(error).__name__}") from None


def slices(file: File, size: int) -> Iterator[Piece]:
    """Split a text file into pieces of about ``size`` bytes; a compressed file is one piece."""
    if infer_compression(file.url) is not None:
        yield Piece(file, 0, file.size, file.size)
        return
    for start in range(0, max(file.size, 1), size):
        stop = min(start + size, file.size)
        yield Piece(file, start, stop, stop - start)


def pack(pieces: Sequence[Piece], size: int) -> list[Pack]:
    """Group consecutive pieces into packs of about ``size`` bytes."""
    packs: list[Pack] = []
    waiting: list[Piece] = []
    for piece in pieces:
        if waiting and sum(other.size for other in waiting) + piece.size > size:
            packs.append(tuple(waiting))
            waiting = []
        waiting.append(piece)
    return [*packs, tuple(waiting)] if waiting else packs


class _Decompressed(io.RawIOBase):
    """A stream that decompresses a file; refuses damaged ones, and those that become too large."""

    def __init__(self, stream: Any, file: File) -> None:
        self._stream, self._file, self._n_bytes = stream, file, 0
        self._most = max(_UNPACKED, _RATIO * file.size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        try:
            n_bytes = int(self._stream.readinto(buffer))
        except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError):
            raise SourceError(f"{self._file.name} is damaged: it cannot be decompressed") from None
        self._n_bytes += n_bytes
        if self._n_bytes > self._most:
            raise SourceError(
                f"{self._file.name} has {self._file.size:,} bytes and is more than "
                f"{self._most:,} when it is decompressed: if that is right, decompress it first"
            )
        return n_bytes


@contextmanager
def open_text(file: File) -> Iterator[Any]:
    """Open a file as bytes of text, decompressed by its ending, and no more than it may be.

    Raises SourceError, also while it is read, if it is damaged or decompresses to far more.
    """
    compression = infer_compression(file.url)
    with storage.open_file(file.url, compression=compression) as stream:
        yield stream if compression is None else io.BufferedReader(_Decompressed(stream, file))


def text_blocks(piece: Piece, size: int) -> Iterator[bytes]:
    """Yield the complete lines that begin in ``piece``, in blocks of bytes."""
    with open_text(piece.file) as stream:
        if infer_compression(piece.file.url) is None:
            start, stop = (_end_of_line(stream, at, piece) for at in (piece.start, piece.stop))
            stream.seek(start)
            yield stream.read(stop - start)
            return
        while block := stream.read(size):
            yield block + _rest_of_line(stream, piece)


def _rest_of_line(stream: Any, piece: Piece) -> bytes:
    rest = bytes(stream.readline(_LONGEST_LINE))
    if len(rest) == _LONGEST_LINE and not rest.endswith(b"\n"):
        raise SourceError(f"{piece.file.name} has a line of more than {_LONGEST_LINE:,} bytes")
    return rest


def _end_of_line(stream: Any, at: int, piece: Piece) -> int:
    """Return where the next line begins; the beginning of the file is that of a line."""
    stream.seek(at)
    return at + len(_rest_of_line(stream, piece)) if at else 0
