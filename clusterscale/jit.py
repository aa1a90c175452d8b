"""Compile a plain numeric function with numba."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from secrets import randbits
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4

import numba
from numba.core.bytecode import FunctionIdentity

__all__ = ["kernel"]

P = ParamSpec("P")
R = TypeVar("R")

# numba numbers what it compiles in a process from 1 on and writes the number into the names of its
# machine code; of two parts of the same name the linker keeps one. Sorting and sorting by index,
# say, are inner functions of one name: compiled in two processes and read back from their cache in
# a third, one was called for the other. Numbers at random are each a process's own.
FunctionIdentity._unique_ids = iter(partial(randbits, 62), -1)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` on first use, without the interpreter lock and without fast-math.

    The machine code is cached on disk, so that a cluster's workers compile once. Where no folder
    can be written (a read-only container), it is compiled anew in each process.
    """
    try:
        compiled = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found no writable place for its cache
        return numba.njit(nogil=True)(function)  # type: ignore[no-any-return]
    _keep_apart(compiled)
    return compiled  # type: ignore[no-any-return]


def _keep_apart(compiled: Any) -> None:
    """Let nobody read machine code of another version, or for other types than asked for.

    numba looks for changes in a kernel's own file alone, but a kernel holds the code of those that
    it calls. And it numbers the files of machine code by an index that it reads and writes back:
    two processes that compile for different types at the same time give both the same number.
    """
    with suppress(AttributeError):  # of a numba that keeps them otherwise
        files = compiled._cache._cache_file
        files._source_stamp = (files._source_stamp, _version_of_all())
        base = files._data_name_pattern.removesuffix(".{number:d}.nbc")
        files._data_name = lambda number: f"{base}.{uuid4().hex[:16]}.nbc"


@cache
def _version_of_all() -> tuple[tuple[int, int], ...]:
    """Return when each file of this package was written, in nanoseconds, and its size."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return tuple((it.st_mtime_ns, it.st_size) for it in map(Path.stat, files))
