"""Run all tasks in this process, one after the other: for development and as the reference."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from traceback import format_exc

from clusterscale.errors import SignalExit
from clusterscale.study.execution import Finished, P, R, Reduction, S, T, WorkerCount


class SerialExecutor:
    """An executor without a cluster."""

    n_workers = 1
    dashboard: str | None = None

    def count_workers(self) -> WorkerCount:
        """Return one worker with one thread."""
        return WorkerCount(1, 1)

    def preflight(self, probe: Callable[[], object]) -> None:
        """Run the probe; its exception passes through."""
        probe()

    def map_batches(
        self, function: Callable[[T], R], items: Iterable[T]
    ) -> Iterator[Sequence[Finished[T, R]]]:
        """Yield each item in a batch of one, with its value or its exception."""
        for item in items:
            yield [_finish(item, lambda item=item: function(item))]  # type: ignore[misc]

    def map_reductions(
        self, reductions: Iterable[Reduction[T, P, S, R]]
    ) -> Iterator[Finished[T, R]]:
        """Yield the item of each reduction with its value or its exception."""
        for reduction in reductions:
            yield _finish(reduction.item, lambda reduction=reduction: self._reduce(reduction))  # type: ignore[misc]

    def reduce(
        self, function: Callable[[T], R], items: Iterable[T], combine: Callable[[R, R], R]
    ) -> R:
        """Combine the values of all items, in their order, holding two at a time.

        Raises
        ------
        ValueError
            If there are no items.
        """
        values = map(function, items)
        for first in values:
            return reduce(combine, values, first)
        raise ValueError("there is nothing to combine")

    def _reduce(self, reduction: Reduction[T, P, S, R]) -> R:
        return reduction.finish(
            reduction.item, self.reduce(reduction.function, reduction.parts, reduction.combine)
        )


def _finish(item: T, work: Callable[[], R]) -> Finished[T, R]:
    try:
        return Finished(item, work())
    except SignalExit:
        raise
    except (Exception, SystemExit) as error:
        return Finished(item, error=error, traceback=format_exc())
