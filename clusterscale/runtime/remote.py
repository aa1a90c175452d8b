"""Functions that run on a worker; they unpickle functions and items inside the task.

If the worker itself unpickled them, an item that cannot be unpickled (its module is missing there)
would kill one worker after the other, and the driver would wait forever. Unpickled inside the task,
it is an error of that task only.
"""

from __future__ import annotations

from time import perf_counter
from traceback import format_exc
from typing import Any

from cloudpickle import dumps, loads

__all__ = ["BatchResult", "combine", "extend", "finish", "run_batch"]

BatchResult = tuple[list[tuple[Any, BaseException | None, str]], float]
"""For each finished item its value, error and traceback; and the seconds of the whole batch."""


def run_batch(packed: bytes, seconds: float) -> BatchResult:
    """Call a function with each item of a batch, in order; an error affects only its item.

    No further item is started after ``seconds``, so that a worker that is about to end loses
    little finished work.
    """
    function, items = loads(packed)
    ended = []
    started = perf_counter()
    for item in items:
        ended.append(_try(function, item))
        if perf_counter() - started > seconds:
            break
    return ended, perf_counter() - started


def extend(packed: bytes, total: Any) -> Any:
    """Add the value of a function on one part to the total of the earlier parts, if any."""
    function, add, part = loads(packed)
    value = function(part)
    return value if total is None else add(total, value)


def combine(packed: bytes, left: Any, right: Any) -> Any:
    """Combine two results."""
    return loads(packed)(left, right)


def finish(packed: bytes, total: Any) -> Any:
    """Return the value of a reduction from its item and the sum of its parts."""
    function, item = loads(packed)
    return function(item, total)


def _try(function: Any, item: Any) -> tuple[Any, BaseException | None, str]:
    try:
        return function(item), None, ""
    except Exception as error:
        return None, _portable(error), format_exc()


def _portable(error: Exception) -> Exception:
    """Return ``error``, or a RuntimeError with its message if it cannot be pickled."""
    try:
        loads(dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
