"""Run all tasks in this process, one after the other: for development and as the reference."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain
from time import perf_counter
from traceback import format_exc
from typing import Any

from clusterscale.errors import SignalExit
from clusterscale.study.execution import (
    BATCH_SECONDS,
    Finished,
    P,
    R,
    Reduction,
    S,
    T,
    WorkerCount,
    Write,
    settle,
)


class SerialExecutor:
    """An executor without a cluster."""

    n_workers = 1
    dashboard: str | None = None

    def count_workers(self) -> WorkerCount:
        """Return one worker, which is this process."""
        return WorkerCount(1)

    def preflight(self, probe: Callable[[], object]) -> None:
        """Run the probe; its exception passes through."""
        probe()

    def map_batches(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        *,
        write: Write[T, R] | None = None,
        n_items: int = 0,
        urgent: bool = False,
    ) -> Iterator[Sequence[Finished[T, Any]]]:
        """Yield items in batches of about a second that ``write`` keeps, or else one by one."""
        waiting = iter(items)
        for first in waiting:
            limit = 0.0 if write is None else BATCH_SECONDS
            yield run_items(function, chain([first], waiting), write, limit)

    def map_reductions(
        self, reductions: Iterable[Reduction[T, P, S, R]]
    ) -> Iterator[Finished[T, R]]:
        """Yield the item of each reduction with its value or its exception."""
        for reduction in reductions:
            yield _finish(self._reduce, reduction, reduction.item)

    def _reduce(self, reduction: Reduction[T, P, S, R]) -> R:
        values = map(reduction.function, reduction.parts)
        for first in values:
            total = reduce(reduction.combine, values, first)
            return reduction.finish(reduction.item, total)
        raise ValueError("there is nothing to combine")


def run_items(
    function: Callable[[T], R], items: Iterable[T], write: Write[T, R] | None, seconds: float
) -> list[Finished[T, Any]]:
    """Call a function with each item, in order; an error affects only its item.

    No further item is started after ``seconds``, or if the results are large, so that a process
    that is about to end loses little finished work. ``write`` is called with all that are finished,
    also if a signal ends the process; errors of it are raised.
    """
    finished: list[Finished[T, R]] = []
    started, n_bytes = perf_counter(), 0
    try:
        for item in items:
            finished.append(settle(_finish(function, item, item)))
            if perf_counter() - started > seconds:
                break
            n_bytes += _size(finished[-1].value)
            if n_bytes > 1 << 25:  # bytes of results
                break
    except SignalExit:
        if write is not None and finished:
            write(finished)
        raise
    if write is None or not finished:
        return finished
    receipt = write(finished)
    return [Finished(one.item, receipt, one.error, one.traceback) for one in finished]


def _finish(function: Callable[[Any], R], argument: Any, item: T) -> Finished[T, R]:
    try:
        return Finished(item, function(argument))
    except SignalExit:
        raise
    except (Exception, SystemExit) as error:
        return Finished(item, error=error, traceback=format_exc())


def _size(value: Any) -> int:
    """Return about how many bytes a value takes when it is sent; 0 if it cannot be sent."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        plain = len(pickle.dumps(value, protocol=5, buffer_callback=buffers.append))
        return plain + sum(buffer.raw().nbytes for buffer in buffers)
    except Exception:
        return 0
