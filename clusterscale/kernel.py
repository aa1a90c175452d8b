"""Compile a plain numeric function with numba."""

from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4

import numba

__all__ = ["kernel"]

P = ParamSpec("P")
R = TypeVar("R")

_PROCESS = uuid4().hex[:12]


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` on first use, without the interpreter lock and without fast-math.

    The machine code is cached on disk, so that a cluster's workers compile once. Where no folder
    can be written (a read-only container), it is compiled anew in each process.
    """
    try:
        compiled = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found no writable place for its cache
        return numba.njit(nogil=True)(function)  # type: ignore[no-any-return]
    _name_apart(compiled)
    return compiled  # type: ignore[no-any-return]


def _name_apart(compiled: Any) -> None:
    """Give the files of this process's machine code names that no other process gives.

    numba numbers them by an index that it reads and writes back. Two processes that compile a
    function for different types at the same time give both the same number, and who reads it then
    runs machine code for other types, which ends the process or worse. The index has a name of its
    own for each installation, so that nothing is left of an earlier one.
    """
    with suppress(AttributeError):  # of a numba that keeps them otherwise
        files = compiled._cache._cache_file
        installed = blake2b(repr(files._source_stamp).encode(), digest_size=6).hexdigest()
        files._index_path = files._index_path.removesuffix(".nbi") + f".{installed}.nbi"
        files._data_name_pattern = files._data_name_pattern.replace(
            "{number", f"{_PROCESS}.{{number"
        )
