"""What runs on a worker: functions and items travel as bytes and are unpacked inside the task.

Were they unpacked by the worker itself, one that cannot be (its module is missing there) would end
the worker, and the next one, and the driver would wait for ever; so it is an error of that task.
"""

from __future__ import annotations

from time import perf_counter
from traceback import format_exc
from typing import Any

from cloudpickle import dumps, loads

__all__ = ["Landed", "combine", "extend", "finish", "run_batch"]

Landed = tuple[list[tuple[Any, BaseException | None, str]], float]
"""Of each item that ended its value, or its error and where that came from; the seconds of all."""


def run_batch(packed: bytes, seconds: float) -> Landed:
    """Call a function with the items of a batch, in order; an error is that item's alone.

    When ``seconds`` are over, no other item is begun: a worker that is to end soon must not take
    what it did along.
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
    """Add to the total of the parts before, if there are any, what a function makes of one more."""
    function, add, part = loads(packed)
    value = function(part)
    return value if total is None else add(total, value)


def combine(packed: bytes, left: Any, right: Any) -> Any:
    """Add two results."""
    return loads(packed)(left, right)


def finish(packed: bytes, total: Any) -> Any:
    """Make a fold's value of its item and the sum of its parts."""
    function, item = loads(packed)
    return function(item, total)


def _try(function: Any, item: Any) -> tuple[Any, BaseException | None, str]:
    try:
        return function(item), None, ""
    except Exception as error:
        return None, _portable(error), format_exc()


def _portable(error: Exception) -> Exception:
    """Return ``error``, or what it said if it cannot travel."""
    try:
        loads(dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
