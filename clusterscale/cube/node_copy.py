"""Traces that the worker processes of a node share: one reads them, and all map its file.

The file has no name. Others open it through the process that holds it, so nothing of it is left
when the last process has ended, however it ended. A cluster that starts several workers on a node
names a folder of the run in the environment variable ``CLUSTERSCALE_NODE_COPY``; without it every
process reads for itself. A process also reads for itself where the folder cannot be used or has too
little space, which is logged.
"""

import atexit
import json
import logging
import math
import mmap
import os
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import cache
from hashlib import blake2b
from pathlib import Path
from random import SystemRandom
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Bounds, CellCoordinates, Traces

T = TypeVar("T")

VARIABLE = "CLUSTERSCALE_NODE_COPY"
START = "CLUSTERSCALE_START_SECONDS"
"""Environment variable: seconds over which the workers of a cluster begin to read traces."""

_LEAST = 1 << 24  # bytes that are worth a file
_SPARE = 1.1  # free space that is needed, relative to the file
_ALIGNED = 64  # bytes; arrays begin at multiples of these
_DIGEST = 16  # bytes, at the start of a file
_LOCK = "lock"
_LOG = logging.getLogger(__name__)

_held: dict[str, IO[bytes]] = {}  # files that this process has written, by their key


def register(cls: type) -> None:
    """Let values of a dataclass be shared, beside those of contracts."""
    _TYPES.append(cls)


def share(keys: Sequence[str], make: Callable[[list[int]], list[T]]) -> list[T]:
    """Return a value for each key, made by one process of this node for all that share it.

    ``make`` takes the positions of keys whose values no process has, and returns these values.
    Values are alike in every process that has the same environment variable.
    """
    folder = _folder()
    if folder is None:
        _stagger()
        return make(list(range(len(keys))))
    with _turn(folder):
        found = [_find(_path(folder, key), key) for key in keys]
        missing = [i for i, value in enumerate(found) if value is None]
        if missing:
            _stagger()
        values: list[Any] = make(missing) if missing else []
        for at, i in enumerate(missing):
            found[i] = (_publish(_path(folder, keys[i]), keys[i], values[at]),)
            values[at] = None  # in memory no longer than needed
    return [value[0] for value in found if value is not None]


@cache
def _stagger() -> None:
    """Wait for a while, once in a process, so that the workers do not all read at once."""
    time.sleep(SystemRandom().uniform(0.0, float(os.environ.get(START, "0"))))


def keep(keys: Collection[str]) -> None:
    """Close the files that this process has written for other keys."""
    for key in _held.keys() - set(keys):
        _held.pop(key).close()


@atexit.register
def _clean() -> None:
    """Remove the addresses of this process, and the folder if there are no others."""
    folder = _place(os.environ.get(VARIABLE, ""))
    with suppress(OSError):
        for key in _held:
            _path(folder, key).unlink()
        if _held and {path.name for path in folder.iterdir()} == {_LOCK}:
            (folder / _LOCK).unlink()
            folder.rmdir()


def _folder() -> Path | None:
    """Return a folder of this node that only its owner can open; None if nothing is shared."""
    name = os.environ.get(VARIABLE)
    if not name or not os.path.isdir("/proc/self/fd"):
        return None
    folder = _place(name)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
        if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o077:
            raise PermissionError(f"{folder} can be opened by others")
    except OSError as error:
        _LOG.warning("the workers of this node each read the traces: %s", error)
        return None
    return folder


def _place(name: str) -> Path:
    """Return the folder of a name; one that is absolute is taken as it is."""
    return Path(tempfile.gettempdir()) / os.path.expandvars(name)


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Let one process of this node at a time look and write."""
    import fcntl

    with (folder / _LOCK).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _find(path: Path, key: str) -> tuple[Any] | None:
    """Return the value that another process holds, in a tuple; None if there is none."""
    try:
        with open(path.read_text(), "rb") as file:
            if os.fstat(file.fileno()).st_uid != os.getuid():
                return None
            return (_load(file, key),)
    except (OSError, ValueError):
        return None  # its process has ended, and its number may be that of another one


def _publish(path: Path, key: str, value: T) -> T:
    """Write a value to a file for other processes, and return it as they will see it."""
    arrays: list[NDArray[Any]] = []
    plain = _split(value, arrays)
    n_bytes = sum(array.nbytes for array in arrays)
    if n_bytes < _LEAST:
        return value
    try:
        space = os.statvfs(path.parent)
        if space.f_bavail * space.f_frsize < _SPARE * n_bytes:
            raise OSError(f"{path.parent} has too little space for {n_bytes:,} bytes")
        file = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115  # held open on purpose
        forms = [(array.dtype.str, array.shape) for array in arrays]
        head = json.dumps([plain, forms]).encode()
        file.write(_digest(key) + len(head).to_bytes(8, "little") + head)
        for array in arrays:
            file.write(b"\0" * (-file.tell() % _ALIGNED))
            file.write(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
        file.flush()
        shared: T = _load(file, key)
        path.write_text(f"/proc/{os.getpid()}/fd/{file.fileno()}")
    except (OSError, TypeError, ValueError) as error:  # also what is neither numbers nor plain
        _LOG.warning("the workers of this node each read the traces: %s", error)
        return value
    _held[key] = file
    return shared


def _load(file: IO[bytes], key: str) -> Any:
    """Return the value in a file, whose arrays are mapped; ValueError if it is of another key."""
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    if mapped[:_DIGEST] != _digest(key):
        raise ValueError("it is another file")
    at = _DIGEST + 8
    end = at + int.from_bytes(mapped[_DIGEST:at], "little")
    plain, forms = json.loads(mapped[at:end])
    arrays = []
    for form, shape in forms:
        begin, dtype = end + -end % _ALIGNED, np.dtype(form)
        count = math.prod(shape)
        end = begin + count * dtype.itemsize
        array = np.frombuffer(mapped, dtype, count, begin) if count else np.empty(0, dtype)
        arrays.append(array.reshape(shape))
    return _join(plain, arrays)


_TYPES: list[Any] = [Traces, Bounds, CellCoordinates]


def _split(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return a value as JSON has it, with the numbers of its arrays, which are added to a list."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, tuple):
        return {"tuple": [_split(part, arrays) for part in value]}
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in _TYPES:
        parts = {each.name: _split(getattr(value, each.name), arrays) for each in fields(value)}
        return {"type": _TYPES.index(type(value)), "parts": parts}
    return value


def _join(plain: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return the value that :func:`_split` was given."""
    if not isinstance(plain, dict):
        return plain
    if "array" in plain:
        return arrays[plain["array"]]
    if "tuple" in plain:
        return tuple(_join(part, arrays) for part in plain["tuple"])
    parts = {name: _join(part, arrays) for name, part in plain["parts"].items()}
    return _TYPES[plain["type"]](**parts)


def _path(folder: Path, key: str) -> Path:
    """Return the file with the address of a key's value."""
    return folder / _digest(key).hex()


def _digest(key: str) -> bytes:
    return blake2b(f"{os.environ.get(VARIABLE)} {key}".encode(), digest_size=_DIGEST).digest()
