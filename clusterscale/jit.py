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

P = ParamSpec("P")
R = TypeVar("R")

# numba numbers the functions it compiles from 1 in each process and puts the number into symbol
# names; of two symbols with the same name the linker keeps one. Sorting and sorting by index are
# inner functions with the same name: compiled in two processes and loaded from the cache in a
# third, one is called instead of the other. With numba 0.68, np.argsort of [30, 10, 20] then
# returned memory addresses. No setting of numba prevents that; random numbers do not collide.
FunctionIdentity._unique_ids = iter(partial(randbits, 62), -1)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` on first use, without the interpreter lock and without fast-math.

    The machine code is cached on disk, so that a cluster's workers compile once. If no folder
    is writable (a read-only container), each process compiles it again.
    """
    try:
        compiled = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found no writable folder for its cache
        return numba.njit(nogil=True)(function)  # type: ignore[no-any-return]
    _keep_apart(compiled)
    return compiled  # type: ignore[no-any-return]


def _keep_apart(compiled: Any) -> None:
    """Prevent loading cached machine code of another version or for other argument types.

    numba checks only a kernel's own file for changes, but a kernel contains the code of the kernels
    it calls. It also numbers the cache files by an index that it reads and writes back: two
    processes that compile for different types at the same time can use the same number.
    """
    with suppress(AttributeError):  # a numba version with other cache internals
        files = compiled._cache._cache_file
        files._source_stamp = (files._source_stamp, _version_of_all())
        base = files._data_name_pattern.removesuffix(".{number:d}.nbc")
        files._data_name = lambda number: f"{base}.{uuid4().hex[:16]}.nbc"


@cache
def _version_of_all() -> tuple[tuple[int, int], ...]:
    """Return the modification time (ns) and size of each file of this package."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return tuple((stat.st_mtime_ns, stat.st_size) for stat in map(Path.stat, files))
