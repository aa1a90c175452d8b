"""Compile a plain numeric function with numba."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

__all__ = ["kernel"]

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` on first use, without the interpreter lock and without fast-math.

    The machine code is cached on disk, so that a cluster's workers compile once. Where no folder
    can be written (a read-only container), it is compiled anew in each process.
    """
    try:
        return numba.njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # numba found no writable place for its cache
        return numba.njit(nogil=True)(function)  # type: ignore[no-any-return]
