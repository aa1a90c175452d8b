"""Run on a Dask cluster: a bounded window of tasks in flight, results taken as they come.

Functions and items travel as bytes and are unpacked inside the task. Were they unpacked by the
worker itself, one that cannot be (its module is missing there) would end the worker, and the next
one, and the driver would wait for ever; so it is an error of that item instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from cloudpickle import dumps, loads
from distributed import Client, Future, as_completed

from clusterscale.contracts import Finished
from clusterscale.runtime.tree import combine_pairwise

__all__ = ["DaskExecutor"]

T = TypeVar("T")
R = TypeVar("R")


class DaskExecutor:
    """An executor over a Dask client.

    Parameters
    ----------
    client
        Connected to the cluster.
    window
        Items in flight for each thread of the cluster. Two keep every thread busy while the
        driver writes; more would only cost memory.
    """

    def __init__(self, client: Client, *, window: int = 2) -> None:
        self._client = client
        self._window = window

    @property
    def n_workers(self) -> int:
        """Threads of the cluster."""
        return sum(self._client.nthreads().values())

    @property
    def dashboard(self) -> str | None:
        """Where the cluster can be watched."""
        return str(self._client.dashboard_link) if self._client.dashboard_link else None

    def map_unordered(
        self, function: Callable[[T], R], items: Iterable[T]
    ) -> Iterator[Finished[T, R]]:
        """Yield items as they finish; a lost worker or a failed item becomes an error, not a crash.

        A result leaves the cluster when it is yielded, so that no worker's end can lose it.
        """
        waiting = iter(items)
        flying: dict[Future, T] = {}
        finished = as_completed([], with_results=False)

        def launch(count: int) -> None:
            for item in islice(waiting, count):
                future = self._client.submit(_apply, dumps((function, item)), pure=False)
                flying[future] = item
                finished.add(future)

        launch(max(1, self._window * self.n_workers))
        for future in finished:
            item = flying.pop(future)
            launch(1)
            yield _collect(future, item)

    def reduce(
        self, function: Callable[[T], R], items: Iterable[T], combine: Callable[[R, R], R]
    ) -> R:
        """Combine the values of all items as a balanced tree.

        Raises
        ------
        ValueError
            If there are no items.
        Exception
            The first error of an item.
        """
        futures = [
            self._client.submit(_apply, dumps((function, item)), pure=False) for item in items
        ]
        packed = dumps(combine)

        def join(left: Future, right: Future) -> Future:
            return self._client.submit(_combine, packed, left, right, pure=False)

        return combine_pairwise(futures, join).result()  # type: ignore[no-any-return]


def _apply(packed: bytes) -> Any:
    function, item = loads(packed)
    return function(item)


def _combine(packed: bytes, left: Any, right: Any) -> Any:
    return loads(packed)(left, right)


def _collect(future: Future, item: T) -> Finished[T, R]:
    try:
        return Finished(item, future.result())
    except Exception as error:
        return Finished(item, error=error)
    finally:
        future.release()
